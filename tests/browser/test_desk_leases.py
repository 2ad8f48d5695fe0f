"""Leases that run out in a few seconds: what a reviewer sees, and what is kept."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from service.domain.people import SYSTEM
from tests.browser.site import Site, copied
from tests.browser.watching import Faults

LEASE_S = 10.0  # as much as a busy machine may take between two signs of life, and more


@pytest.fixture(scope="module")
def site(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serve with short leases."""
    site = Site(copied(prepared, tmp_path_factory.mktemp("leases") / "served"), lease_s=LEASE_S)
    yield site
    site.stop()


@pytest.fixture
def desk(sign_in: Callable[..., Page]) -> Page:
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_be_visible()
    page.keyboard.press("c")
    page.keyboard.type("half a thought")
    page.keyboard.press("Escape")
    return page


def shown(page: Page) -> str:
    return str(page.locator("#work").get_attribute("data-task"))


def test_whoever_is_at_work_keeps_the_document(desk: Page, site: Site) -> None:
    for _ in range(14):
        desk.wait_for_timeout(1000)
        desk.keyboard.press("Shift")
    expect(desk.locator("#lease-text")).to_contain_text("Yours for")
    expect(desk.locator("#notices")).not_to_contain_text("free for others")
    lease = site.verbs.get_review(SYSTEM, shown(desk)).lease
    assert lease is not None
    assert lease.holder == site.caller("reviewer").id


def test_whoever_was_away_may_take_the_document_back(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    expect(desk.locator("#notices")).to_contain_text("free for others")
    expect(desk.locator("#lease-text")).to_have_text("Not yours any more")
    desk.keyboard.press("Enter")
    assert site.verbs.get_review(SYSTEM, task_id).decision is None, "it is not theirs to settle"
    desk.get_by_role("button", name="Try to take it back").click()
    expect(desk.locator("#lease-text")).to_contain_text("Yours for")
    assert shown(desk) == task_id
    expect(desk.locator("#comment")).to_have_value("half a thought")


def test_what_somebody_else_took_is_left_to_them(desk: Page, site: Site, faults: Faults) -> None:
    faults.expect("status of 409")
    task_id = shown(desk)
    expect(desk.locator("#notices")).to_contain_text("free for others")
    with site.verbs.get_review.begin() as transaction:
        task = transaction.reviews.get(task_id, for_update=True)
        assert task is not None
        lead = site.caller("lead").id
        transaction.reviews.save(task.claimed(lead, datetime.now(UTC), timedelta(hours=1)))
        transaction.commit()
    desk.get_by_role("button", name="Try to take it back").click()
    expect(desk.locator("#notices")).to_contain_text("Somebody else has this document now")
    expect(desk.locator("#comment")).to_have_value("half a thought")
    desk.get_by_role("button", name="Go on with the next").click()
    expect(desk.locator("#work")).not_to_have_attribute("data-task", task_id)
    expect(desk.locator("#comment")).to_have_value("")
