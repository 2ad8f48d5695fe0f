"""A lead's look at the machine, in a real browser."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from service.domain.people import SYSTEM
from tests.browser.site import Site
from tests.browser.watching import assert_accessible, until

SignIn = Callable[..., Page]


@pytest.mark.parametrize("path", ["/cockpit", "/cockpit?threshold=0.5", "/cockpit?days=1"])
def test_the_cockpit_has_no_violation(sign_in: SignIn, path: str) -> None:
    assert_accessible(sign_in("lead", path))


def test_a_lead_looks_at_another_threshold_before_anything_changes(
    sign_in: SignIn, site: Site
) -> None:
    page = sign_in("lead")
    page.get_by_role("link", name="Cockpit").click()
    before = site.verbs.get_policy(SYSTEM)
    slider, said = page.get_by_label("Look at a threshold"), page.locator(".slider output")
    expect(said).to_contain_text("0.700: about")
    slider.fill("0.3")  # as the arrow keys do
    expect(said).to_contain_text("0.300: about")
    page.get_by_role("button", name="Show it").click()
    expect(page.get_by_role("columnheader", name="Looked at")).to_be_visible()
    expect(page.get_by_text("Nothing has changed.")).to_be_visible()
    expect(page.locator("#what-if svg")).to_contain_text("looked at 0.3")
    assert site.verbs.get_policy(SYSTEM) == before


def test_words_and_numbers_open_where_they_stand(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit")
    calibrated = page.locator("summary", has_text="calibrated").first
    meaning = page.get_by_text("Confidence that means what it says").first
    expect(meaning).to_be_hidden()
    calibrated.click()
    expect(meaning).to_be_visible()
    figure = page.locator("#volume")
    figure.get_by_text("Numbers of Documents").click()
    expect(figure.get_by_role("table")).to_be_visible()
    assert_accessible(page)
    with page.expect_download() as waiting:
        figure.get_by_role("link", name="JSON").click()
    rows = json.loads(waiting.value.path().read_text())
    assert sum(row["sent"] + row["audited"] + row["reviewed"] for row in rows) == 120


def test_the_page_fits_a_tablet_and_a_phone(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit?threshold=0.5")
    for width in (820, 390):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels at {width}"


def test_an_administrator_is_led_to_where_it_can_be_put_into_force(sign_in: SignIn) -> None:
    page = sign_in("admin", "/cockpit?threshold=0.5")
    page.get_by_role("link", name="Change the policy").click()
    expect(page).to_have_url(re.compile("/board/policy$"))


FONT_SIZES = """() => [...document.querySelectorAll(".chart")].map((chart) => {
  const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  const sizes = [...chart.querySelectorAll("text")].map((it) => getComputedStyle(it).fontSize);
  return [chart.closest("section").id, scale * Math.min(...sizes.map(parseFloat))];
})"""
ENDS = """() => Object.fromEntries([...document.querySelectorAll(".chart-box")].map((box) => [
  box.closest("section").id, box.scrollLeft + box.clientWidth > box.scrollWidth - 2,
]))"""
OVERFLOWS = """() => Object.fromEntries([...document.querySelectorAll(".chart-box")].map((box) => [
  box.closest("section").id,
  [box.scrollWidth > box.clientWidth, box.scrollHeight > box.clientHeight, box.tabIndex],
]))"""


@pytest.mark.parametrize("width", [1280, 1000, 640, 320])
def test_words_in_charts_stay_large_enough_to_read(sign_in: SignIn, width: int) -> None:
    page = sign_in("lead", "/cockpit?threshold=0.5")
    page.set_viewport_size({"width": width, "height": 900})
    sizes = page.evaluate(FONT_SIZES)
    assert {"volume", "what-if", "confidence"} <= {name for name, _ in sizes}
    assert min(size for _, size in sizes) >= 11, sizes


def test_a_chart_scrolls_in_a_box_of_its_own(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit?threshold=0.5")
    assert {tuple(each) for each in page.evaluate(OVERFLOWS).values()} == {(False, False, -1)}
    page.set_viewport_size({"width": 640, "height": 900})
    expect(page.locator("#what-if .chart-box")).to_have_attribute("tabindex", "0")
    assert page.evaluate(OVERFLOWS)["what-if"] == [True, False, 0]
    ends = page.evaluate(ENDS)
    assert (ends["volume"], ends["what-if"]) == (True, False), "where it goes with time, the newest"
    box = page.get_by_role("region", name="Chart of What if the threshold")
    box.focus()
    page.keyboard.press("ArrowRight")
    # Asked from outside: the page's policy lets no script that waits in it evaluate a string.
    until(page, lambda: box.evaluate("it => it.scrollLeft > 0"))
    assert page.evaluate("document.documentElement.scrollWidth") == 640
