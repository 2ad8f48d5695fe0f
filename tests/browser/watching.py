"""What a real browser complains of, and what its accessibility rules find."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit
from zlib import crc32

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

from tests.kit.waiting import PATIENCE_S

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
DESKTOP = {"width": 1280, "height": 900}
TABLET = {"width": 820, "height": 1180}
ZOOMED = {"width": 640, "height": 450}
"""What 200 % leaves of a desktop."""

PATIENCE_MS = 60_000  # a machine may be busy

STANDING = """{
  let at = 0;
  performance.now = () => at;
  window.settled = () => { at += 1000; };
}"""
"""Lets the clock of a page stand, by which the desk ignores keys for a moment after it changes."""

SEEN = """() => new Promise((seen) =>
  new IntersectionObserver((_, eyes) => seen(eyes.disconnect())).observe(document.body))"""
"""Waits until the observers of a page, by which the desk knows what was in sight, have told it."""


@dataclass(frozen=True)
class Look:
    """How somebody sees a page."""

    kind: Literal["light", "dark", "forced", "print"]
    width: int

    @property
    def name(self) -> str:
        """Its name in files; that of a desktop is short."""
        return self.kind if self.width in {WIDE, PAPER} else f"{self.kind}-{self.width}"

    def at(self, page: Page) -> None:
        """Show a page so."""
        page.emulate_media(
            media="print" if self.kind == "print" else "screen",
            color_scheme="dark" if self.kind == "dark" else "light",
            forced_colors="active" if self.kind == "forced" else "none",
            reduced_motion="reduce",
        )
        page.set_viewport_size({"width": self.width, "height": HEIGHTS.get(self.width, 900)})


WIDE, PAPER = 1440, 680
"""A large screen; A4 between margins of 15 mm."""
HEIGHTS = {ZOOMED["width"]: ZOOMED["height"], TABLET["width"]: TABLET["height"]}
LOOKS = (
    Look("light", DESKTOP["width"]),
    Look("dark", DESKTOP["width"]),
    Look("light", ZOOMED["width"]),
)
EVERY_LOOK = (
    *(
        Look(kind, width)
        for kind in ("light", "dark", "forced")
        for width in (WIDE, TABLET["width"], 390)
    ),
    Look("print", PAPER),
)


@dataclass
class Faults:
    """Collects console errors, which include refused content, page errors and failed requests."""

    seen: list[str] = field(default_factory=list)
    _expected: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        """Listen to every page of a context."""
        context.on("console", self._console)
        context.on("weberror", lambda error: self.seen.append(f"page error: {error.error}"))
        context.on("requestfailed", self._failed)

    def expect(self, part: str) -> None:
        """Allow complaints that contain ``part``, and demand at least one."""
        self._expected.append(part)

    def check(self) -> None:
        """Fail if there was a complaint that nobody expected, or an expected one is missing."""
        surprising = [
            said for said in self.seen if not any(part in said for part in self._expected)
        ]
        assert not surprising, "the browser complained:\n" + "\n".join(surprising)
        missing = [part for part in self._expected if not any(part in said for said in self.seen)]
        assert not missing, f"the browser did not complain of {missing}"

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.seen.append(f"console: {message.text} ({where})")

    def _failed(self, request: Request) -> None:
        # Leaving a page ends what it was still loading; nothing failed then.
        if request.failure != "net::ERR_ABORTED":
            self.seen.append(f"request failed: {request.method} {request.url}: {request.failure}")


def until(page: Page, fact: Callable[[], object]) -> None:
    """Wait for what no locator can expect."""
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline, "it did not happen in time"
        page.wait_for_timeout(50)  # in which the browser goes on, and tells


def settle(page: Page) -> None:
    """Let a person have looked at what a page shows; see `STANDING` and `SEEN`."""
    page.evaluate(SEEN)
    page.evaluate("settled()")


def violations(page: Page) -> list[str]:
    """Return what axe-core finds on a page as it looks now, a line each."""
    items: list[dict[str, Any]] = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: "
        f"{node['failureSummary']}"
        for rule in items
        for node in rule["nodes"]
    ]


def complaints(page: Page, look: Look, *, axe: bool = True) -> list[str]:
    """Return what is wrong with a page in a look: what axe-core finds, and what sticks out."""
    lines = violations(page) if axe else []
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        lines.append(f"{wide} px stick out to the right")
    return [f"{look.kind}, {look.width} px wide: {line}" for line in lines]


def assert_accessible(page: Page, *, every_look: bool = False) -> None:
    """Check a page in light, in dark and at 200 % zoom, where nothing may scroll sideways.

    axe-core takes a second for each look. Unless ``every_look``, it sees a page in light or in
    dark, by its address, so that about half of the pages are seen in each.
    """
    address = urlsplit(page.url).path
    seen_in = LOOKS if every_look else (LOOKS[crc32(address.encode()) % 2],)
    lines = []
    for look in LOOKS:
        look.at(page)
        lines += complaints(page, look, axe=look in seen_in)
    LOOKS[0].at(page)
    assert not lines, "\n".join([page.url, *lines])
