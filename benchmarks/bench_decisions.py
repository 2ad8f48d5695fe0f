"""How much a decision takes at the desk: keys, labels to compare, and the browser's time.

A reviewer who knows the true labels decides documents of ``setwise demo`` by keyboard, in Chromium:
the number of a set that is right; else the closest set, changed label by label; without sets, every
label by its code. For each document the report has

- keys pressed, a key with *Shift* or *Ctrl* as one;
- labels to compare from the first set to the one that is taken, or in all of them if none is right:
  as the desk shows them now, where a set says only what sets it apart from the first, and as it
  showed them before, where each set named all its labels below those of *Your set*;
- seconds from the first key until the next document is painted, without any time for reading.

    python -m benchmarks.bench_decisions [--documents 100] [--record]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

from playwright.sync_api import Page, Response

from benchmarks.bench_desk import (
    NOTES,
    SPARE,
    WATCH,
    chromium,
    send_until_waiting,
    signed_in,
)
from benchmarks.demo_notes import generate_notes
from benchmarks.rows import Figure, record
from tests.browser.screenshots import demo

RIGHT, CHANGED, CHOSEN = ("a set is right", "none is right", "no sets")


@dataclass(frozen=True)
class Decision:
    """What one document took."""

    kind: str
    keys: int
    labels: int
    """To compare."""
    labels_before: int
    """The same where each set names all its labels."""
    seconds: float


class Keyboard:
    """A keyboard that counts what is pressed."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pressed = 0

    def press(self, key: str) -> None:
        """Press a key, with others held down or not."""
        self.pressed += 1
        self.page.keyboard.press(key)

    def toggle(self, label: str) -> None:
        """Add or remove a label in the picker, by its code."""
        for character in label.partition(" ")[0].lower():
            self.press(character)
        first = self.page.locator("#found [role=option]").first
        first.filter(has_text=label).wait_for()
        self.press("Enter")


def decide(page: Page, sets: Sequence[frozenset[str]], truth: frozenset[str]) -> Decision:
    """Decide the open document by keyboard."""
    page.wait_for_function("performance.now() - window.shownAt > 260", polling=20)
    keyboard, task = Keyboard(page), page.get_attribute("#work", "data-task")
    started = perf_counter()
    if truth in sets:
        kind, compared = RIGHT, sets[: sets.index(truth) + 1]
        submit = str(len(compared))
    else:
        kind, compared = CHANGED if sets else CHOSEN, sets
        closest = min(range(len(sets)), key=lambda place: len(sets[place] ^ truth), default=0)
        if closest:
            keyboard.press(f"Shift+{closest + 1}")
        keyboard.press("/")
        for label in sorted(truth ^ (sets[closest] if sets else frozenset())):
            keyboard.toggle(label)
        submit = "Control+Enter"
    keyboard.press(submit)
    # Labels that were out of sight are shown first; the key is pressed again then.
    while _open_task(page, task) == task:
        keyboard.press(submit)
    seconds = perf_counter() - started
    first = sets[0] if sets else frozenset()
    return Decision(
        kind,
        keyboard.pressed,
        len(first) + sum(len(each ^ first) for each in compared),
        len(first) + sum(map(len, compared)),
        seconds,
    )


def _open_task(page: Page, task: str | None) -> str | None:
    """Return the task that is open once another one is, or the desk asks for a second press."""
    page.wait_for_function(
        """before => window.shown !== before
        || document.querySelector("#notices [data-kind=unseen]")""",
        arg=task,
        polling=20,
    )
    return page.get_attribute("#work", "data-task")


def decisions(page: Page, address: str, n_documents: int) -> Iterator[Decision]:
    """Decide documents whose labels are known; others are put off."""
    truths = {
        f"more-{note.id}": frozenset(note.labels) for note in generate_notes(10_000, seed=NOTES)
    }
    items: dict[str, Mapping[str, Any]] = {}  # as the desk gets them

    def keep(response: Response) -> None:
        if response.url.endswith("/desk/next") and response.ok:
            item = response.json()
            if item:
                items[item["id"]] = item

    page.on("response", keep)
    page.goto(f"{address}/desk")
    page.wait_for_selector("#work[data-task]:not([hidden])")
    page.evaluate(WATCH)
    decided = 0
    while decided < n_documents:
        task = page.get_attribute("#work", "data-task") or ""
        truth = truths.get(page.locator("#document-name").inner_text())
        if truth is None:
            page.wait_for_function("performance.now() - window.shownAt > 260", polling=20)
            page.keyboard.press("l")
            page.wait_for_function("before => window.shown !== before", arg=task, polling=20)
            continue
        candidates = items[task]["candidates"] or []
        shown = page.locator("#cards .accept").count() if candidates else 0
        yield decide(page, [frozenset(each["labels"]) for each in candidates[:shown]], truth)
        decided += 1


def summary(made: Sequence[Decision]) -> dict[str, Figure]:
    """Return the figures of some decisions."""
    return {
        "documents": float(len(made)),
        "keys": float(median(each.keys for each in made)),
        "labels": float(median(each.labels for each in made)),
        "labels mean": round(mean(each.labels for each in made), 1),
        "labels before": float(median(each.labels_before for each in made)),
        "labels before mean": round(mean(each.labels_before for each in made), 1),
        "seconds": round(median(each.seconds for each in made), 2),
    }


def main() -> None:
    """Print the figures of each kind of decision, and of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--record", action="store_true", help="write the rows to results/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="setwise-desk-") as name, demo(Path(name)) as address:
        secrets = {
            of: json.loads((Path(name) / f"demo-{of}.json").read_text())
            for of in ("keys", "passwords")
        }
        send_until_waiting(address, secrets["keys"], options.documents + 4 * SPARE)
        token = signed_in(address, "reviewer", secrets["passwords"]["reviewer"])
        with chromium() as browser:
            context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
            context.add_cookies([{"name": "setwise-session", "value": token, "url": address}])
            made = list(decisions(context.new_page(), address, options.documents))
            context.close()
    kinds = {
        kind: [each for each in made if each.kind == kind] for kind in (RIGHT, CHANGED, CHOSEN)
    }
    for subject, rows in {**kinds, "all": made}.items():
        if rows:
            figures = summary(rows)
            sys.stdout.write(f"{subject}: {figures}\n")
            if options.record:
                record("decisions", subject, figures)


if __name__ == "__main__":
    main()
