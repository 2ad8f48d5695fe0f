"""Look at every page of ``setwise demo`` in each of its looks: make a PNG, and check it.

``make screenshots`` writes them to ``benchmarks/screenshots``, and those of the documentation to
``docs/pictures``; look at them before a release. A page that axe-core complains of, that sticks out
sideways, or that logs an error fails the command.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from setwise.service.domain.accounts.callers import Role
from tests.browser.conftest import FLAGS, executable
from tests.browser.pictures import take_pictures
from tests.browser.watching import DESKTOP, EVERY_LOOK, WIDE, Faults, Look, complaints
from tests.rights import pages

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ROOT / "benchmarks" / "screenshots"
PICTURES = ROOT / "docs" / "pictures"
PATIENCE_S = 1200.0  # the demo trains a model first, on a machine that may be busy
PARTS = {"/documents/rows"}
"""Addresses of a part of a page, which a script asks for."""
NAMED_AFTER = {"/board/labels/label": "/board/labels"}
"""Pages about one thing that their query names, and the page that lists them."""
LOGINS = (Role.REVIEWER, Role.LEAD, Role.ADMIN)
"""Who looks: each page is seen by the first of them that may."""


@contextmanager
def demo(folder: Path) -> Iterator[str]:
    """Run the demo on a free port and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("setwise"), "demo"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--data-dir", str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=sys.stderr,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the demo did not start")
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz/predictions", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def take(
    browser: Browser, url: str, passwords: dict[str, str], to: Path, only: Sequence[str] = ()
) -> list[str]:
    """Take every picture, or those of some pages, and return what is wrong."""
    wrong: list[str] = []
    seen: set[str] = set()
    for login in LOGINS:
        context = browser.new_context(base_url=url, viewport=DESKTOP, locale="en-GB")
        faults = Faults()
        faults.watch(context)
        page = context.new_page()
        page.goto("/login")
        if login is LOGINS[0] and not only:
            wrong += look_at(page, "login", to)
        page.get_by_label("Login name").fill(login)
        page.get_by_label("Password").fill(passwords[login])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("/")
        if login is Role.ADMIN and not only:
            calibrator(page)
        open_to = ["/", "/account", *(one for one, right in pages().items() if right.opens(login))]
        for pattern in [one for one in open_to if one not in seen | PARTS]:
            seen.add(pattern)
            if only and pattern not in only:
                continue
            path = concrete(page, pattern)
            if path is None:
                sys.stderr.write(f"the demo has none of {pattern}\n")
                continue
            page.goto(path, wait_until="networkidle")
            name = re.sub(r"\W+", "-", pattern).strip("-") or "overview"
            wrong += [f"{path}, {line}" for line in look_at(page, name, to)]
        if login is Role.ADMIN and not only:
            wrong += look_at(effect(page), "policy-effect", to)
        context.close()
        wrong += faults.seen
    return wrong


def concrete(page: Page, pattern: str) -> str | None:
    """Return the address of one page of a pattern, by a link on the page of them all."""
    if "{" not in pattern and pattern not in NAMED_AFTER:
        return pattern
    if "{form}" in pattern:  # a file
        return None
    page.goto(NAMED_AFTER.get(pattern, pattern.partition("/{")[0]))
    links = page.eval_on_selector_all("main a", "all => all.map(one => one.getAttribute('href'))")
    name = r"\?.+" if pattern in NAMED_AFTER else ""
    wanted = re.compile(re.sub(r"\{\w+\}", "[^/?#]+", pattern) + name)
    return next((one for one in links if wanted.fullmatch(one) and one not in pages()), None)


def look_at(page: Page, name: str, to: Path) -> list[str]:
    """Take a picture of a page in each look and return what is wrong with it."""
    page.locator("main h1").first.wait_for()
    wrong = []
    for look in EVERY_LOOK:
        look.at(page)
        wrong += complaints(page, look)
        whole = look.width < WIDE
        page.screenshot(path=to / f"{name}-{look.name}.png", animations="disabled", full_page=whole)
    Look("light", WIDE).at(page)
    return wrong


def effect(page: Page) -> Page:
    """Look at what another threshold and a rule would do."""
    page.goto("/board/policy")
    page.get_by_label("Fixed by hand").check()
    page.get_by_label("Fixed threshold").fill("0.8")
    locator = page.locator("details.advanced")
    locator.evaluate("it => { it.open = true; }")
    page.locator("summary").filter(has_text="Rules").click()
    page.get_by_text("Add a rule").click()
    page.get_by_label("Rule type").select_option("at_most")
    page.get_by_label("At most", exact=False).last.fill("3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Effect of your changes").wait_for()
    return page


def calibrator(page: Page) -> None:
    """Wait until the demo has learnt a calibrator."""
    deadline = time.monotonic() + PATIENCE_S
    while concrete(page, "/board/calibrators/{calibration_id}") is None:
        if time.monotonic() > deadline:
            raise SystemExit("the demo has learnt no calibrator")
        time.sleep(1)


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHOWN)
    parser.add_argument("--data-dir", type=Path, help="of a demo that ran before; saves training")
    parser.add_argument("--page", action="append", help="only these, such as /documents/{id}")
    parser.add_argument("--documentation", action="store_true", help="only those of docs/")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = (options.data_dir or Path(scratch) / "demo").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        with demo(folder) as url:
            passwords = json.loads((folder / "demo-passwords.json").read_text())
            if not options.page:
                take_pictures(browser, url, passwords, folder, PICTURES)
            wrong = (
                []
                if options.documentation
                else take(browser, url, passwords, options.out, options.page or ())
            )
        browser.close()
    sys.stdout.write(f"the pictures are in {options.out}\n")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
