"""Checks the pages of leads and administrators in a real browser.

`bench_desk.py` calls it on its database of 100,000 predictions. Each page is loaded in light, in
dark and at 200 % zoom. axe-core must find no violation, the browser must log no error, nothing may
overflow sideways, and the compressed transfer must stay below 150 KB.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from setwise.service.pages.board.sections import SECTIONS
from tests.browser.watching import DESKTOP, LOOKS, Faults, complaints

PAGES = {
    "lead": ["/", "/cockpit", "/cockpit?days=91&pace=week", "/cockpit/details?threshold=0.8"],
    "admin": ["/board", *(one.address for one in SECTIONS)],
}
"""Addresses, by the login name of who looks."""

MOST_KB = 150.0
_TRAVELLED = """() => {
  const all = [...performance.getEntriesByType("navigation"),
               ...performance.getEntriesByType("resource")];
  return all.reduce((sum, one) => sum + one.encodedBodySize, 0);
}"""
_ANSWERED = """() => {
  const [page] = performance.getEntriesByType("navigation");
  return page.responseEnd - page.requestStart;
}"""


@dataclass(frozen=True)
class Seen:
    """What was seen of a page.

    Attributes
    ----------
    answered_ms : float
        Until the page had come, the first time.
    kilobytes : float
        That travelled for it, with style sheets, scripts and images.
    wrong : tuple of str
        Violations, complaints and what sticks out.
    """

    answered_ms: float
    kilobytes: float
    wrong: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether it is as it should be."""
        return not self.wrong and self.kilobytes < MOST_KB

    def as_json(self) -> dict[str, object]:
        """Return the figures."""
        return asdict(self)


def look(
    browser: Browser, address: str, tokens: Mapping[str, str], pictures: Path | None
) -> dict[str, Seen]:
    """Look at every page; ``tokens`` are the sessions by login name."""
    seen: dict[str, Seen] = {}
    for login, paths in PAGES.items():
        for path in paths:
            # A profile of its own: nothing comes from a cache.
            context = browser.new_context(
                base_url=address, viewport=DESKTOP, reduced_motion="reduce", locale="en-GB"
            )
            context.add_cookies(
                [{"name": "setwise-session", "value": tokens[login], "url": address}]
            )
            faults = Faults()
            faults.watch(context)
            page = context.new_page()
            page.goto(path, wait_until="networkidle")
            answered, travelled = page.evaluate(_ANSWERED), page.evaluate(_TRAVELLED)
            wrong = list(_looks(page, path, pictures))
            context.close()
            seen[path] = Seen(
                round(answered, 1), round(travelled / 1000, 1), (*wrong, *faults.seen)
            )
    return seen


def _looks(page: Page, path: str, pictures: Path | None) -> Iterator[str]:
    """Yield what is wrong with a page in each of its looks, and take a picture of each."""
    for look in LOOKS:
        look.at(page)
        yield from complaints(page, look)
        if pictures is not None:
            name = (
                "".join(each if each.isalnum() else "-" for each in path.strip("/")) or "overview"
            )
            file = pictures / f"{name}-{look.name}.png"
            page.screenshot(path=file, full_page=True, animations="disabled")
