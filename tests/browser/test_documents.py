"""From a figure to the documents behind it, in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document
from setwise.service.pages.documents.selections import MANY
from tests.browser.watching import WIDE, assert_accessible
from tests.kit.browser import Site, change_policy
from tests.trained import LABELS

SignIn = Callable[..., Page]
MOST_ROW_PX = 36
TWO_SCREENS_PX = 1800


def test_three_clicks_lead_from_the_start_to_who_contradicted_what(
    sign_in: SignIn, site: Site
) -> None:
    change_policy(site.services, 0.7)
    prediction = site.predict(Document("sent", "gale 0.9"))
    site.services.outcomes.report(SYSTEM, prediction.id, [], "second reading")
    page = sign_in("lead")
    page.get_by_role("link", name="Cockpit").click()
    tile = page.get_by_role("listitem").filter(has_text="Is what we send right enough?")
    tile.get_by_role("link").click()
    expect(page.get_by_role("status")).to_contain_text("document")
    assert_accessible(page)
    page.get_by_role("rowheader").get_by_role("link", name="sent").click()
    locator = page.get_by_role("region", name="All events")
    expect(locator.get_by_text("differs").first).to_be_visible()
    assert_accessible(page)


def test_one_click_leads_from_a_text_to_its_explanation(sign_in: SignIn) -> None:
    page = sign_in("lead", "/try")
    page.get_by_label("Text").fill("The judge heard a witness about wheat and barley.")
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("heading", name="What would happen")).to_be_visible()
    expect(page.locator("mark").first).to_be_visible()
    assert_accessible(page)


def test_a_label_is_completed_where_documents_are_filtered_by_it(
    sign_in: SignIn, site: Site
) -> None:
    site.come_in(Document("of the harvest", "wheat"))
    page = sign_in("auditor", "/documents")
    page.get_by_text("Filters", exact=True).click()
    locator = page.get_by_label("With label", exact=True)
    locator.fill("harv")
    offered_locator = page.locator(f"#{locator.get_attribute('list')} option")
    expect(offered_locator).to_have_count(1)
    expect(offered_locator).to_have_attribute("value", "harvest")
    page.get_by_role("button", name="Filter").click()
    expect(
        page.get_by_text("The model has no label “harv”. Is one of these meant?")
    ).to_be_visible()
    page.get_by_role("link", name="harvest", exact=True).click()
    expect(page.get_by_label("With label", exact=True)).to_have_value("harvest")
    expect(page.get_by_role("status")).to_contain_text("document")


def test_lists_are_dense_stay_current_and_count_new_documents(sign_in: SignIn, site: Site) -> None:
    for n in range(2):
        site.come_in(Document(f"early {n}", "gale"))
    page = sign_in("lead", "/account")
    page.clock.install()
    title = page.get_by_role("heading", level=1)
    page.goto("/")
    expect(title).to_have_text("2 documents received")
    site.come_in(Document("late", "gale"))
    page.clock.fast_forward(61_000)
    expect(title).to_have_text("3 documents received")
    page.goto("/documents")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    site.come_in(Document("later", "gale"))
    heights = [row.bounding_box()["height"] for row in rows.all()]
    assert max(heights) <= MOST_ROW_PX
    assert page.locator("#selection").bounding_box()["y"] < rows.first.bounding_box()["y"]
    expect(page.locator("#rows .note")).to_have_count(0)
    page.get_by_label(re.compile("^Select ")).nth(1).check()
    page.get_by_role("heading", level=1).click()
    page.clock.fast_forward(31_000)
    expect(page.locator("#rows .note")).to_contain_text("1 other document is on this page now.")
    expect(page.get_by_label(re.compile("^Select ")).nth(1)).to_be_checked()
    page.get_by_role("link", name="Show the list as it is now").click()
    expect(rows.first).to_contain_text("later")
    assert_accessible(page)


@pytest.mark.usefixtures("history")
def test_fifty_documents_take_two_screens(sign_in: SignIn, site: Site) -> None:
    long = Document("x" * 100, f"{' '.join(LABELS)} {'judge ' * 500}0.4")
    site.services.selections.assign(
        site.caller("lead"), [site.predict(long).id], site.caller("reviewer").id
    )
    page = sign_in("lead", "/documents")
    page.set_viewport_size({"width": WIDE, "height": 900})
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    assert max(row.bounding_box()["height"] for row in rows.all()) <= MOST_ROW_PX
    assert rows.first.bounding_box()["y"] < 300
    assert page.evaluate("document.documentElement.scrollHeight") <= TWO_SCREENS_PX


@pytest.mark.usefixtures("history")
def test_the_pages_fit_a_phone(sign_in: SignIn) -> None:
    page = sign_in("lead", "/documents")
    page.set_viewport_size({"width": 390, "height": 900})
    for address in ("/documents", "/try"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert_accessible(page)


def test_a_reviewer_corrects_an_answer_that_a_lead_then_finds(sign_in: SignIn, site: Site) -> None:
    task = site.answer("reviewer", site.come_in(Document("page one", "gale")), ["storm"])
    page = sign_in("reviewer", "/recent")
    page.set_viewport_size({"width": 390, "height": 900})
    page.locator(f'a[href="/recent/{task.prediction.id}"]').click()
    page.get_by_role("textbox", name="Labels").fill("")
    page.get_by_label("Add a label").fill("harv")
    page.get_by_label("Add a label").press("Enter")
    expect(page.get_by_role("textbox", name="Labels")).to_have_value("harvest")
    assert_accessible(page)
    page.get_by_label("Why").fill("I overlooked page two.")
    page.get_by_role("button", name="Correct").click()
    expect(page.locator(".label").first).to_have_text("harvest")
    page.get_by_label("What others should know").fill("Who wrote this note?")
    page.get_by_role("button", name="Flag").click()
    expect(page.get_by_text("Who wrote this note?")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert_accessible(page)
    address = page.url.replace("/recent/", "/documents/")
    page = sign_in("lead", address)
    locator = page.get_by_role("region", name="All events")
    expect(locator.get_by_text("I overlooked page two.")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_label("Why").fill("The patient called.")
    assert_accessible(page)
    page.get_by_role("button", name="Reopen").click()
    # The page that follows says so; until then, what is opened would be lost with the old page.
    expect(page.get_by_text("Then you can reopen it.")).to_be_visible()
    page.get_by_text("Reply or resolve").click()
    page.locator("details[open]").get_by_label("Reply").fill("Ward 3.")
    assert_accessible(page)
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("Ward 3.")).to_have_count(2)
    page = sign_in("reviewer", "/desk")
    page.get_by_role("link", name="New comments: ").click()
    expect(page.get_by_role("heading", name="New comments")).to_be_visible()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_many_documents_are_ticked_and_changed_on_a_phone(sign_in: SignIn, site: Site) -> None:
    for n in range(MANY + 2):  # one is left out, and one more than pass unasked
        site.come_in(Document(f"many {n}", "gale"))
    page = sign_in("lead", "/documents?state=waiting")
    page.set_viewport_size({"width": 390, "height": 900})
    expect(page.get_by_label("State")).to_have_value("waiting")
    everything = page.get_by_label("Select all on this page")
    everything.check()
    boxes = page.locator("tbody input[type=checkbox]")
    expect(page.locator("tbody input:checked")).to_have_count(MANY + 2)
    boxes.first.uncheck()
    expect(everything).not_to_be_checked()
    with page.expect_download() as file:
        page.get_by_role("button", name="Export as CSV").click()
    assert file.value.path().read_text().count("\n") == MANY + 2  # with a line of names
    page.get_by_role("button", name="Put back in the queue").click()
    expect(page.get_by_role("heading", name="Change")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Change them").click()
    expect(page.locator("[role=status]").first).to_contain_text("put back at the usual place")
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_reviewer_sees_what_was_decided_and_how_their_set_differed(
    sign_in: SignIn, site: Site
) -> None:
    task = site.answer("reviewer", site.come_in(Document("page one", "gale")), ["storm"])
    prediction = task.prediction.id
    site.services.answers.reopen(site.caller("lead"), prediction, "page two", ["court"])
    page = sign_in("reviewer", "/recent")
    row = page.get_by_role("row").filter(has_text="You missed: court.")
    expect(row).to_contain_text("Another reviewer decided.")
    assert_accessible(page)
    row.get_by_role("link").click()
    locator = page.get_by_role("region", name="What was decided")
    expect(locator.get_by_role("term")).to_have_text(
        ["Labels", "You missed", "Too many", "By", "When"]
    )
    assert_accessible(page)
