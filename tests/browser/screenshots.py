"""Make a PNG of each page, in light and in dark, from what ``setwise demo`` shows.

``make screenshots`` writes them to ``benchmarks/screenshots``; look at them before a release.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from setwise.service.pages.board.sections import SECTIONS
from tests.browser.conftest import FLAGS, executable
from tests.browser.watching import DESKTOP, TABLET

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ROOT / "benchmarks" / "screenshots"
PATIENCE_S = 1200.0  # the demo trains a model first, on a machine that may be busy

PAGES = {
    "reviewer": {"overview": "/", "desk": "/desk", "account": "/account"},
    "lead": {"cockpit": "/cockpit", "what-if": "/cockpit#what-if", "documents": "/documents"},
    "admin": {
        "board": "/board",
        **{one.address.strip("/").replace("/", "-"): one.address for one in SECTIONS},
    },
}
"""By login name: the name of a picture, and the address of its page."""


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
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def take(browser: Browser, url: str, passwords: dict[str, str], to: Path) -> list[Path]:
    """Take every picture and return the files."""
    made = []
    for scheme in ("light", "dark"):
        for login, pages in PAGES.items():
            context = browser.new_context(
                base_url=url, viewport=DESKTOP, color_scheme=scheme, locale="en-GB"
            )
            page = context.new_page()
            page.goto("/login")
            if login == "reviewer":
                made.append(shoot(page, to / f"login-{scheme}.png"))
            page.get_by_label("Login name").fill(login)
            page.get_by_label("Password").fill(passwords[login])
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("/")
            for name, path in pages.items():
                page.goto(path, wait_until="networkidle")
                made.append(shoot(page, to / f"{name}-{scheme}.png"))
            if login == "admin":
                made.append(shoot(effect(page), to / f"policy-effect-{scheme}.png"))
                made.append(shoot(calibrator(page), to / f"calibrator-{scheme}.png"))
            page.set_viewport_size(TABLET)
            for name, path in pages.items():
                page.goto(path, wait_until="networkidle")
                made.append(shoot(page, to / f"{name}-{scheme}-tablet.png"))
            context.close()
    return made


def effect(page: Page) -> Page:
    """Look at what another threshold and a rule would do."""
    page.goto("/board/policy")
    page.get_by_label("Fixed threshold").fill("0.8")
    page.get_by_text("Add a rule").click()
    page.get_by_label("Rule type").select_option("at_most")
    page.get_by_label("At most", exact=False).last.fill("3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Effect of your changes").wait_for()
    return page


def calibrator(page: Page) -> Page:
    """Read what the demo's calibrator is worth, once it is learnt."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        page.goto("/board/calibrators")
        newest = page.locator("main tbody th a").first
        if newest.count():
            newest.click()
            page.locator("#reliability").evaluate("one => one.scrollIntoView({block: 'center'})")
            return page
        if time.monotonic() > deadline:
            raise SystemExit("the demo has learnt no calibrator")
        time.sleep(1)


def shoot(page: Page, file: Path) -> Path:
    """Take one picture of what a window shows, or fail if the page does not."""
    page.locator("main h1").first.wait_for()
    page.screenshot(path=file, animations="disabled")
    return file


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHOWN)
    parser.add_argument("--data-dir", type=Path, help="of a demo that ran before; saves training")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = (options.data_dir or Path(scratch) / "demo").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        with demo(folder) as url:
            passwords = json.loads((folder / "demo-passwords.json").read_text())
            made = take(browser, url, passwords, options.out)
        browser.close()
    sys.stdout.write(f"{len(made)} pictures in {options.out}\n")


if __name__ == "__main__":
    main()
