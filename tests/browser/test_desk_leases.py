"""Leases that run out while a reviewer is away: what they see, and what is kept.

The page's clock is turned by the tests, so that nothing depends on how fast a machine is.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import ReviewTask
from setwise.service.services.reviews.queue import LEASE
from tests.browser.test_desk import decided, shown
from tests.browser.watching import Faults
from tests.kit.browser import Site

BETWEEN_BEATS = timedelta(seconds=61)
LONG_AWAY = LEASE + timedelta(minutes=1)


@pytest.fixture
def desk(context: BrowserContext, sign_in: Callable[..., Page], site: Site) -> Page:
    task_id = site.come_in(Document("on the desk", "judge and gale again"))
    site.come_in(Document("next", "orbit near the town"))
    context.clock.install()
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", task_id)
    page.keyboard.press("c")
    page.keyboard.type("half a thought")
    page.keyboard.press("Escape")
    return page


def wait_for_a_beat(page: Page) -> None:
    with page.expect_response(f"**/desk/tasks/{shown(page)}/heartbeat") as beat:
        page.clock.run_for(int(BETWEEN_BEATS.total_seconds() * 1000))
    assert beat.value.ok


def go_away(page: Page) -> None:
    wait_for_a_beat(page)  # of what was typed
    page.clock.fast_forward(int(LONG_AWAY.total_seconds() * 1000))
    expect(page.locator("#notices")).to_contain_text("other reviewers can take")
    expect(page.locator("#lease-text")).to_have_text("Lease expired")


def change(site: Site, task_id: str, become: Callable[[ReviewTask], ReviewTask]) -> None:
    """Let something happen to a task while its reviewer is away."""
    with site.services.reviews.begin() as transaction:
        task = transaction.reviews.get(task_id, for_update=True)
        assert task is not None
        transaction.reviews.save(become(task))


def assert_at_work_again(page: Page, site: Site, task_id: str) -> None:
    expect(page.locator("#lease-text")).to_contain_text("Yours for")
    assert shown(page) == task_id
    expect(page.locator("#comment")).to_have_value("half a thought")
    lease = site.task(task_id).lease
    assert lease is not None
    assert lease.holder == site.caller("reviewer").id


def test_whoever_is_at_work_keeps_the_document(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    for _ in range(LONG_AWAY // BETWEEN_BEATS):
        desk.keyboard.press("Shift")
        wait_for_a_beat(desk)
    expect(desk.locator("#notices")).not_to_contain_text("other reviewers can take")
    assert_at_work_again(desk, site, task_id)


def test_whoever_was_away_may_take_the_document_back(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    go_away(desk)
    desk.keyboard.press("Enter")
    assert site.task(task_id).decision is None, "it is not theirs to submit"
    desk.get_by_role("button", name="Reclaim it").click()
    assert_at_work_again(desk, site, task_id)


def test_what_went_back_to_the_queue_is_taken_back_and_submitted(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    go_away(desk)
    change(site, task_id, ReviewTask.expired)
    desk.get_by_role("button", name="Reclaim it").click()
    assert_at_work_again(desk, site, task_id)
    desk.clock.run_for(1000)  # in which it was looked at
    desk.keyboard.press("Enter")
    expect(desk.locator("#work")).not_to_have_attribute("data-task", task_id)
    decision = decided(desk, site, task_id)
    assert decision.comment == "half a thought"


def test_a_lease_lasts_from_when_it_was_asked_for(
    desk: Page, site: Site, context: BrowserContext
) -> None:
    def asleep(route: Route) -> None:
        extended = route.fetch()
        desk.clock.fast_forward(int(LONG_AWAY.total_seconds() * 1000))
        route.fulfill(response=extended)

    context.route("**/heartbeat", asleep, times=1)
    task_id = shown(desk)
    wait_for_a_beat(desk)
    change(site, task_id, ReviewTask.expired)
    desk.get_by_role("button", name="Reclaim it").click()
    assert_at_work_again(desk, site, task_id)


def test_without_a_network_it_may_be_tried_again_to_take_a_document_back(
    desk: Page, site: Site, context: BrowserContext, faults: Faults
) -> None:
    faults.expect("ERR_INTERNET_DISCONNECTED")
    task_id = shown(desk)
    go_away(desk)
    context.set_offline(True)
    back = desk.get_by_role("button", name="Reclaim it")
    back.click()
    expect(desk.locator("#saved")).to_contain_text("No connection")
    expect(back).to_be_visible()
    context.set_offline(False)
    back.click()
    assert_at_work_again(desk, site, task_id)


def test_what_somebody_else_took_is_left_to_them(desk: Page, site: Site, faults: Faults) -> None:
    faults.expect("status of 409")
    task_id = shown(desk)
    go_away(desk)
    lead = site.caller("lead").id
    change(site, task_id, lambda task: task.claimed(lead, datetime.now(UTC), LEASE))
    desk.get_by_role("button", name="Reclaim it").click()
    expect(desk.locator("#notices")).to_contain_text("Another reviewer has this document now")
    expect(desk.locator("#comment")).to_have_value("half a thought")
    desk.get_by_role("button", name="Continue with the next").click()
    expect(desk.locator("#work")).not_to_have_attribute("data-task", task_id)
    expect(desk.locator("#comment")).to_have_value("")


def test_what_the_other_gave_back_may_be_reclaimed_before_the_old_lease_would_end(
    desk: Page, site: Site, faults: Faults
) -> None:
    faults.expect("status of 409")
    task_id = shown(desk)
    wait_for_a_beat(desk)
    lead = site.caller("lead").id
    change(site, task_id, lambda task: task.expired().claimed(lead, datetime.now(UTC), LEASE))
    desk.keyboard.press("Shift")
    desk.clock.run_for(int(BETWEEN_BEATS.total_seconds() * 1000))
    expect(desk.locator("#notices")).to_contain_text("Another reviewer has this document now")
    change(site, task_id, ReviewTask.expired)
    desk.get_by_role("button", name="Reclaim it").click()
    assert_at_work_again(desk, site, task_id)


def test_what_was_submitted_meanwhile_is_not_asked_for_again(
    desk: Page, site: Site, faults: Faults
) -> None:
    faults.expect("status of 409")
    task_id = shown(desk)
    go_away(desk)
    change(site, task_id, ReviewTask.finished)
    desk.get_by_role("button", name="Reclaim it").click()
    expect(desk.locator("#notices")).to_contain_text("has already been submitted")
    expect(desk.get_by_role("button", name="Reclaim it")).to_have_count(0)
    desk.get_by_role("button", name="Continue with the next").click()
    expect(desk.locator("#work")).not_to_have_attribute("data-task", task_id)
