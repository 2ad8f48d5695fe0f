"""Forms of the board in a real browser, with everything going wrong."""

import re
import time
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, Route, expect

from setwise.service.domain.accounts.callers import SYSTEM
from tests.browser.watching import Faults, assert_accessible
from tests.kit.browser import PASSWORD, Site

SignIn = Callable[..., Page]
AGAIN = "Your entries are restored"
LATE_MS = 500


def names(site: Site) -> list[str]:
    return [key.name for key in site.services.keys.all(SYSTEM)]


def test_a_double_click_makes_one_key(sign_in: SignIn, context: BrowserContext, site: Site) -> None:
    def late(route: Route) -> None:
        # What was sent has reached the server, even if the browser waits for it no longer.
        answer = route.fetch()
        time.sleep(LATE_MS / 1000)
        route.fulfill(response=answer)

    context.route("**/board/keys", late)
    page = sign_in("admin", "/board/keys")
    page.get_by_label("Name", exact=True).fill("pressed twice")
    page.get_by_role("button", name="Create").dblclick(no_wait_after=True)
    expect(page.get_by_label("Secret")).to_be_visible()
    assert names(site).count("pressed twice") == 1


def test_a_session_that_ends_over_a_form_loses_nothing(
    sign_in: SignIn, context: BrowserContext, site: Site
) -> None:
    page = sign_in("admin", "/board/policy")
    page.get_by_label("Right among what is sent").fill("88")
    page.get_by_text("Advanced").click()
    page.get_by_text("Risk, and when to stop").click()
    page.get_by_label("Send automatically").uncheck()
    page.get_by_text("Rules", exact=True).click()
    page.get_by_text("Add a rule").click()
    page.get_by_label("Rule type").select_option("at_most")
    page.get_by_label("At most", exact=False).last.fill("4")
    (cookie,) = [one for one in context.cookies() if one["name"] == "setwise-session"]
    site.services.sessions.sign_out(cookie["value"])
    before = site.services.policy.get(SYSTEM)
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Login name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url("/board/policy")
    expect(page.get_by_role("status")).to_contain_text(AGAIN)
    expect(page.get_by_label("Right among what is sent")).to_have_value("88")
    expect(page.get_by_label("Send automatically")).not_to_be_checked()
    expect(page.get_by_label("Rule type")).to_have_value("at_most")
    expect(page.get_by_label("At most", exact=False).last).to_have_value("4")
    assert_accessible(page)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Effect of your changes")).to_be_visible()
    expect(page.get_by_text(AGAIN)).to_have_count(0)
    assert site.services.policy.get(SYSTEM) == before


def test_a_network_that_is_lost_over_a_form_loses_nothing(
    sign_in: SignIn, context: BrowserContext, site: Site, faults: Faults
) -> None:
    faults.expect("ERR_INTERNET_DISCONNECTED")
    page = sign_in("admin", "/board/keys")
    page.get_by_label("Name", exact=True).fill("offline for a while")
    context.set_offline(True)
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Create").click(no_wait_after=True)
    # The browser's own page about it comes a moment later.
    expect(page).to_have_url(re.compile("^chrome-error:"))
    context.set_offline(False)
    page.goto("/board/keys")
    expect(page.get_by_role("status")).to_contain_text(AGAIN)
    expect(page.get_by_label("Name", exact=True)).to_have_value("offline for a while")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Secret")).to_be_visible()
    assert names(site).count("offline for a while") == 1


def test_the_back_button_does_not_bring_back_what_was_done(sign_in: SignIn, site: Site) -> None:
    page = sign_in("admin", "/board/keys")
    page.get_by_label("Name", exact=True).fill("made once")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="I've copied it").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("")
    expect(page.get_by_text(AGAIN)).to_have_count(0)
    page.go_back()
    page.go_back()
    expect(page.get_by_text(AGAIN)).to_have_count(0)
    assert names(site).count("made once") == 1


def test_two_people_at_one_policy_overwrite_nothing(
    sign_in: SignIn, context: BrowserContext, site: Site, faults: Faults
) -> None:
    faults.expect("status of 412")
    page = sign_in("admin", "/board/policy")
    other = context.new_page()
    other.goto("/board/policy")
    for tab, risk in ((page, "12"), (other, "13")):
        tab.get_by_text("Advanced").click()
        tab.get_by_text("Risk, and when to stop").click()
        tab.get_by_label("Risk of a certificate").fill(risk)
        tab.get_by_role("button", name="Preview").click()
        expect(tab.get_by_role("button", name="Save policy")).to_be_visible()
    page.get_by_role("button", name="Save policy").click()
    expect(page.get_by_role("status")).to_contain_text("applies from now on")
    other.get_by_role("button", name="Save policy").click()
    expect(other.get_by_role("alert")).to_be_visible()
    expect(other.get_by_label("Risk of a certificate")).to_have_value("13")
    assert site.services.policy.get(SYSTEM).risk == 0.12
