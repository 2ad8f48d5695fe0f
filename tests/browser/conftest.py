"""Real pages in real Chromium.

A test takes ``sign_in`` and gets a page: ``page = sign_in("admin", "/board/policy")``. Each test
has a browser context and a service of its own: a copy of one without documents, or, where the
module says ``usefixtures("history")``, of one with a past. Whatever the browser complains of fails
the test, unless it said so before: ``faults.expect("status of 422")``.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from _pytest.runner import pytest_runtest_protocol as usual_protocol
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.browser.watching import DESKTOP, PATIENCE_MS, STANDING, Faults
from tests.kit.browser import Site, copied, prepare, remember
from tests.made_once import made_once

FOLDER = Path(__file__).parent
# The first has no window and a quarter less to do; it is what Playwright itself would take.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

# Expectations know nothing of a context's patience; their own would end after five seconds.
expect.set_options(timeout=PATIENCE_MS)

# Playwright keeps an event loop running in the thread that starts it, where asyncio.run() is then
# refused, and answers to no other thread. So tests of this folder run in a thread of their own.
_thread = ThreadPoolExecutor(1, thread_name_prefix="browser")


def _ours(item: pytest.Item) -> bool:
    return FOLDER in item.path.parents


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ours(item):
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not _ours(item):
        return None
    _thread.submit(usual_protocol, item, nextitem).result()
    return True


def pytest_sessionfinish() -> None:
    if _started:
        _thread.submit(_stop).result()
    _thread.shutdown()


_started: list[tuple[Playwright, Browser]] = []


def _stop() -> None:
    for playwright, browser in _started:
        browser.close()
        playwright.stop()
    _started.clear()


@cache
def executable() -> str | None:
    """Return the system's Chromium, or None to take Playwright's own."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


@pytest.fixture(scope="session")
def chromium() -> Browser:
    """Return the one browser of a session, or skip where there is none.

    The build server sets ``SETWISE_REQUIRE_BROWSER`` so that a missing one fails there.
    """
    playwright = sync_playwright().start()
    own = Path(playwright.chromium.executable_path)
    if executable() is None and not own.exists():
        playwright.stop()
        message = (
            "no Chromium: apt-get install chromium-headless-shell, "
            "or .venv/bin/playwright install chromium"
        )
        if os.environ.get("SETWISE_REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
    _started.append((playwright, browser))
    return browser


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service without documents; nobody serves from it."""
    return made_once(tmp_path_factory, "quiet", prepare)


@pytest.fixture(scope="session")
def history(quiet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service with a past; nobody serves from it."""

    def make(folder: Path) -> None:
        shutil.copytree(quiet, folder, dirs_exist_ok=True)
        remember(folder)

    return made_once(tmp_path_factory, "history", make)


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the folder of the test's own service."""
    name = "history" if "history" in request.fixturenames else "quiet"
    return copied(request.getfixturevalue(name), tmp_path / "served")


@pytest.fixture(scope="session")
def left() -> Iterator[list[Site]]:
    """Return the services of tests that have ended; the next test need not wait for their end."""
    sites: list[Site] = []
    yield sites
    for site in sites:
        site.stop()


@pytest.fixture
def site(chromium: Browser, served: Path, left: list[Site]) -> Iterator[Site]:
    """Serve an installation to one test."""
    site = Site(served)
    yield site
    site.leave()
    left.append(site)


@pytest.fixture
def faults() -> Faults:
    """Return what collects the browser's complaints."""
    return Faults()


@pytest.fixture
def context(chromium: Browser, site: Site, faults: Faults) -> Iterator[BrowserContext]:
    """Return a fresh browser profile whose addresses are those of the site."""
    context = chromium.new_context(
        base_url=site.url, viewport=DESKTOP, reduced_motion="reduce", locale="en-GB"
    )
    context.set_default_timeout(PATIENCE_MS)
    faults.watch(context)
    yield context
    # A page fetches ahead; what a test put in the way of that may still be at work.
    for page in context.pages:
        page.unroute_all(behavior="wait")
    context.unroute_all(behavior="wait")
    context.close()
    faults.check()


@pytest.fixture
def standing(context: BrowserContext) -> None:
    """Let the clock of each page stand until a test calls `settle`."""
    context.add_init_script(STANDING)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Return an empty page of somebody who is not signed in."""
    return context.new_page()


@pytest.fixture
def sign_in(context: BrowserContext, site: Site) -> Callable[..., Page]:
    """Return what signs one of the people in and opens a page: ``sign_in("lead", "/cockpit")``."""

    def enter(login: str, path: str = "/") -> Page:
        cookie = {"name": "setwise-session", "value": site.token(login), "url": site.url}
        context.add_cookies([cookie])
        page = context.new_page()
        page.goto(path)
        return page

    return enter
