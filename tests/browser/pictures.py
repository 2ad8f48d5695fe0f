"""The pictures of the documentation: the demo's desk, cockpit and report, in light and dark."""

import base64
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page

from setwise.service.domain.accounts.callers import Role
from tests.browser.watching import STANDING, settle

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LABELS = (2, 4)
"""How many a set shall have that stands for all."""
SHOWN, SMALL, SHEET = ((1280, 1060), (1100, 960), (1560, 900))
MOST_BYTES, MOST_TASKS = 150_000, 200
_GRID = """<!doctype html><style>
:root {{ color-scheme: light dark; font: 22px system-ui, sans-serif }}
body {{ display: grid; grid-template-columns: 1fr 1fr; gap: 28px; margin: 28px }}
figure {{ margin: 0 }} figcaption {{ margin-bottom: 10px; font-weight: 600 }}
img {{ width: 100%; border: 1px solid gray; border-radius: 8px; display: block }}
</style>{}"""
_FIGURE = '<figure><figcaption>{}</figcaption><img src="data:image/png;base64,{}"></figure>'


def take_pictures(
    browser: Browser, url: str, passwords: Mapping[str, str], demo: Path, to: Path
) -> None:
    """Write ``desk``, ``desk-states``, ``cockpit`` and ``report`` in both schemes."""
    report = demo / "report.html"
    command = [Path(sys.executable).with_name("setwise"), "evaluate", demo / "model"]
    command += [demo / "notes" / "test.jsonl", "--report", report]
    subprocess.run(command, check=True, stdout=sys.stderr)
    context = browser.new_context(base_url=url, locale="en-GB", reduced_motion="reduce")
    context.add_init_script(STANDING)
    page = context.new_page()
    page.goto(report.as_uri())
    _keep(to, "report", _taken(page, SHOWN))
    _sign_in(page, Role.LEAD, passwords)
    page.goto("/cockpit", wait_until="networkidle")
    _keep(to, "cockpit", _taken(page, SHOWN))
    _open(page, "Answers that differ")
    differ = _taken(page, SMALL)
    context.clear_cookies()
    _sign_in(page, Role.REVIEWER, passwords)
    _open(page, "")
    blind = _taken(page, SMALL)
    _open(page, "Most likely sets")
    _keep(to, "desk", _taken(page, SHOWN))
    right = _taken(page, SMALL)
    page.keyboard.press("Shift+2")
    page.keyboard.press("/")
    page.keyboard.type("pneu")
    page.locator("#found li").first.wait_for()
    states = {
        "One is right: press its number": right,
        "None is right: copy the closest, and change it": _taken(page, SMALL),
        "No suggestions: choose the labels": blind,
        "Two answers differ: a lead decides": differ,
    }
    page.goto("about:blank")  # the pages of Setwise refuse pictures within
    sheets = {}
    for scheme in SCHEMES:
        figures = (
            _FIGURE.format(name, base64.b64encode(pictures[scheme]).decode())
            for name, pictures in states.items()
        )
        page.set_content(_GRID.format("".join(figures)))
        sheets[scheme] = _taken(page, SHEET, whole=True)[scheme]
    _keep(to, "desk-states", sheets)
    context.close()


def _sign_in(page: Page, role: Role, passwords: Mapping[str, str]) -> None:
    page.goto("/login")
    page.get_by_label("Login name").fill(role)
    page.get_by_label("Password").fill(passwords[role])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("/")


def _open(page: Page, heading: str) -> None:
    """Open the desk, and put off what comes until its sets stand under a heading; "": no sets."""
    page.goto("/desk", wait_until="networkidle")
    work, title = page.locator("#work[data-task]"), page.locator("#suggestions-title")
    work.wait_for()
    least, most = LABELS
    for _ in range(MOST_TASKS):
        settle(page)
        count = page.locator('#chips [aria-pressed="true"]').count()
        if (title.inner_text() if title.is_visible() else "") == heading and (
            heading != "Most likely sets" or least <= count <= most
        ):
            # What was put off to come here is no part of the picture.
            page.evaluate("document.getElementById('undo-bar').style.visibility = 'hidden'")
            return
        task = work.get_attribute("data-task")
        page.keyboard.press("l")
        page.locator(f'#work[data-task]:not([data-task="{task}"])').wait_for()
    raise SystemExit(f"the demo has no task with {heading!r}")


def _taken(page: Page, size: tuple[int, int], *, whole: bool = False) -> dict[Scheme, bytes]:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    taken = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        taken[scheme] = page.screenshot(animations="disabled", full_page=whole)
    return taken


def _keep(to: Path, name: str, pictures: Mapping[Scheme, bytes]) -> None:
    """Write what a page shows, in few bytes: all who open the README load it."""
    for scheme, png in pictures.items():
        path = to / f"{name}-{scheme}.webp"
        Image.open(BytesIO(png)).convert("RGB").save(path, quality=70)
        if path.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{path} is too large")
