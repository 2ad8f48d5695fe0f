"""A lead's look at the machine, in a real browser."""

import itertools
import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from setwise.service.domain.accounts.callers import SYSTEM
from tests.browser.watching import PAPER, WIDE, Look, assert_accessible, until
from tests.kit.browser import N_DOCUMENTS, Site

SignIn = Callable[..., Page]

pytestmark = pytest.mark.usefixtures("history")


def test_a_lead_looks_at_another_threshold_before_anything_changes(
    sign_in: SignIn, site: Site
) -> None:
    page = sign_in("lead")
    page.get_by_role("link", name="Cockpit").click()
    page.get_by_role("link", name="Thresholds, errors, safeguards").click()
    before = site.services.policy.get(SYSTEM)
    slider, locator = page.get_by_label("Try a threshold"), page.locator(".slider output")
    expect(locator).to_have_text(re.compile(r"^0\.700: \d"))
    slider.press("ArrowRight")
    expect(locator).to_contain_text("0.705: ")
    slider.fill("0.3")
    expect(locator).to_have_text(re.compile(r"^0\.300: \d"))
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("columnheader", name="Tried")).to_be_visible()
    expect(page.get_by_text("Nothing has changed.")).to_be_visible()
    expect(page.locator("#what-if svg[role=img]")).to_contain_text("tried 0.3")
    assert site.services.policy.get(SYSTEM) == before


@pytest.mark.parametrize(
    ("login", "address", "screens"),
    [
        ("reviewer", "/", 1),
        ("lead", "/", 1),
        ("admin", "/", 1),
        ("lead", "/cockpit", 1),
        ("admin", "/cockpit", 1),
        ("lead", "/cockpit/details", 1),
    ],
)
def test_start_and_cockpit_fit_one_screen(
    sign_in: SignIn, login: str, address: str, screens: float
) -> None:
    page = sign_in(login, address)
    page.set_viewport_size({"width": WIDE, "height": 900})
    assert page.evaluate("document.documentElement.scrollHeight") <= 900 * screens


def test_words_and_numbers_open_where_they_stand(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit")
    meaning = page.locator("#accuracy .meaning").first
    expect(meaning).to_be_hidden()
    page.locator("#accuracy .term summary").first.click()
    expect(meaning).to_be_visible()
    figure = page.locator("#volume")
    figure.get_by_text("Numbers of Documents").click()
    expect(figure.get_by_role("table")).to_be_visible()
    assert_accessible(page)
    with page.expect_download() as waiting:
        figure.get_by_role("link", name="JSON").click()
    rows = json.loads(waiting.value.path().read_text())
    assert sum(row["sent"] + row["audited"] + row["reviewed"] for row in rows) == N_DOCUMENTS


def test_the_page_fits_a_tablet_and_a_phone(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit")
    page.get_by_text("Other days").click()
    for width, rows in ((820, 1), (390, 2)):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels at {width}"
        header = page.get_by_role("banner").bounding_box()
        assert header["height"] <= 57 * rows, f"its header takes {rows} at {width}"


def test_the_first_page_follows_what_happens_while_it_is_seen(sign_in: SignIn, site: Site) -> None:
    page = sign_in("lead")
    page.clock.install()
    page.goto("/cockpit")
    before = page.locator("#glance").element_handle()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.clock.run_for(61_000)
    assert not requests, "a hidden page asks for nothing"
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    page.clock.run_for(61_000)
    until(page, lambda: not before.evaluate("it => it.isConnected"))
    assert [url.removeprefix(site.url) for url in requests] == ["/cockpit"]
    page.locator("#volume .numbers summary").click()
    page.clock.run_for(61_000)
    until(page, lambda: len(requests) >= 2)
    expect(page.locator("#volume table")).to_be_visible()


def test_the_details_follow_what_happens_until_a_reader_tries_something(sign_in: SignIn) -> None:
    page = sign_in("lead")
    page.clock.install()
    page.goto("/cockpit/details")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    before = page.locator("#details").element_handle()
    page.get_by_text("Safeguards").last.click()
    page.get_by_role("heading", level=1).click()
    page.clock.run_for(61_000)
    until(page, lambda: not before.evaluate("it => it.isConnected"))
    expect(page.locator("#breaker")).to_be_visible()
    page.get_by_label("Try a threshold").fill("0.3")
    expect(page.locator(".slider output")).to_have_text(re.compile(r"^0\.300: \d"))
    page.get_by_role("heading", level=1).click()
    page.clock.run_for(61_000)
    until(page, lambda: len(requests) >= 2)
    expect(page.locator(".slider output")).to_have_text(re.compile(r"^0\.300: \d"))


def test_an_administrator_takes_a_tried_threshold_to_the_form_of_the_policy(
    sign_in: SignIn, site: Site
) -> None:
    page = sign_in("admin", "/cockpit/details?threshold=0.5")
    page.get_by_role("link", name="Use this threshold").click()
    expect(page.get_by_label("Fixed threshold")).to_have_value("0.5")
    expect(page.get_by_label("Fixed by hand")).to_be_checked()
    assert_accessible(page)
    page.get_by_role("button", name="Preview").click()
    effect = page.get_by_role("region", name="Effect of your changes")
    expect(effect.get_by_role("row", name="Threshold")).to_contain_text("0.5")
    assert site.services.policy.get(SYSTEM).fixed_threshold == 0.7


def unfold(page: Page) -> None:
    """Open every section of the details."""
    page.evaluate("document.querySelectorAll('.fold').forEach((it) => { it.open = true; })")


def test_a_link_to_a_figure_unfolds_its_section(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details#reliability")
    expect(page.get_by_role("heading", name="Is confidence calibrated?")).to_be_visible()
    expect(page.get_by_role("heading", name="Labels with the most errors")).to_be_hidden()
    page.get_by_text("Where the errors are").click()
    expect(page.get_by_role("heading", name="Labels with the most errors")).to_be_visible()
    assert_accessible(page)


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


def test_words_in_charts_stay_large_enough_to_read(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details?threshold=0.5")
    unfold(page)
    for width in (1280, 1000, 640, 320):
        page.set_viewport_size({"width": width, "height": 900})
        sizes = page.evaluate(FONT_SIZES)
        assert {"queue", "what-if", "confidence"} <= {name for name, _ in sizes}
        assert min(size for _, size in sizes) >= 11, (width, sizes)


def test_a_chart_scrolls_in_a_box_of_its_own(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details?threshold=0.5")
    unfold(page)
    assert {tuple(each) for each in page.evaluate(OVERFLOWS).values()} == {(False, False, -1)}
    page.set_viewport_size({"width": 640, "height": 900})
    expect(page.locator("#what-if .chart-box")).to_have_attribute("tabindex", "0")
    assert page.evaluate(OVERFLOWS)["what-if"] == [True, False, 0]
    ends = page.evaluate(ENDS)
    assert ends["what-if"], "what matters most"
    box = page.get_by_role("region", name="Chart of What if the policy")
    box.focus()
    before = box.evaluate("it => it.scrollLeft")
    page.keyboard.press("ArrowLeft")
    # Asked from outside: the page's policy lets no script that waits in it evaluate a string.
    until(page, lambda: box.evaluate("it => it.scrollLeft") < before)
    assert page.evaluate("document.documentElement.scrollWidth") == 640
    page.set_viewport_size({"width": 390, "height": 900})
    expect(page.locator("#sizes .chart-box")).to_have_attribute("tabindex", "0")
    assert not page.evaluate(ENDS)["sizes"], "names come first"


AXES = """() => [...document.querySelectorAll(".beside")].map((axis) => {
  const box = axis.closest(".chart-box"), chart = box.querySelector("svg[role=img]");
  const places = (all) => [...all].map((it) => it.getBoundingClientRect());
  const seen = box.getBoundingClientRect();
  return {
    name: box.closest("section").id,
    scrolls: box.scrollWidth > box.clientWidth,
    words: places(axis.querySelectorAll("text")).every(
      ({ left, right }) => left >= seen.left - 1 && right <= seen.right + 1),
    sizes: axis.getBoundingClientRect().height - chart.getBoundingClientRect().height,
    lines: places(chart.querySelectorAll(".grid")).map(({ top }) => top),
    ticks: places(axis.querySelectorAll(".tick")).map(({ top, bottom }) => (top + bottom) / 2),
  };
})"""


def test_the_axes_upwards_stay_in_sight_and_where_they_belong(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details?threshold=0.5")
    unfold(page)
    for width, end in itertools.product((1280, 820, 640, 390), (0, 10_000)):
        page.set_viewport_size({"width": width, "height": 900})
        for box in page.locator(".chart-box").all():
            box.evaluate(f"box => {{ box.scrollLeft = {end}; }}")
        axes = {axis["name"]: axis for axis in page.evaluate(AXES)}
        assert set(axes) >= {"queue", "what-if", "confidence"}
        assert any(axis["scrolls"] for axis in axes.values()) == (width < 1000)
        for name, axis in axes.items():
            assert axis["words"], (width, end, name)
            assert abs(axis["sizes"]) < 1, (width, end, name)
        queue = axes["queue"]
        apart = [tick - line for tick, line in zip(queue["ticks"], queue["lines"], strict=True)]
        assert max(map(abs, apart)) < 3, "a number stands beside its line"


def test_paper_shows_whole_charts_and_open_tables_and_nothing_to_press(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details?threshold=0.5")
    unfold(page)
    page.locator("#what-if").get_by_text("Numbers of What if").click()
    Look("print", PAPER).at(page)
    axes = page.evaluate(AXES)
    assert {axis["name"] for axis in axes} >= {"queue", "what-if", "confidence"}
    assert all(axis["words"] and abs(axis["sizes"]) < 1 for axis in axes), axes
    for box in page.locator("main .scroll:visible").all():
        cut = "it => [it.scrollWidth - it.clientWidth, it.scrollHeight - it.clientHeight]"
        assert max(box.evaluate(cut)) <= 1, box.get_attribute("aria-label")
    expect(page.get_by_role("region", name="Numbers of What if")).to_be_visible()
    controls = "main :is(button, input, select, .button), nav a:not([aria-current])"
    expect(page.locator(controls).locator("visible=true")).to_have_count(0)


LABELS = """() => [...document.querySelectorAll("#what-if svg[role=img] .label")].map((it) => {
  const { left, right, top, bottom } = it.getBoundingClientRect();
  return [it.textContent, left, right, top, bottom];
})"""


def test_labels_of_near_thresholds_do_not_cover_each_other(sign_in: SignIn) -> None:
    page = sign_in("lead")
    for threshold in (0.69, 0.695, 0.7, 0.72, 0.02):
        page.goto(f"/cockpit/details?threshold={threshold}")
        labels = page.evaluate(LABELS)
        assert {text.split()[0] for text, *_ in labels} == {"target", "current", "tried"}
        for (name, *a), (other, *b) in itertools.combinations(labels, 2):
            apart = a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] + 2 or b[3] <= a[2] + 2
            assert apart, (threshold, name, other)


def test_what_a_row_is_about_stays_in_sight_on_a_phone(sign_in: SignIn) -> None:
    page = sign_in("lead", "/cockpit/details")
    page.set_viewport_size({"width": 390, "height": 844})
    figure = page.locator("#what-if")
    figure.get_by_text("Numbers of What if").click()
    box = figure.get_by_role("region", name="Numbers of What if")
    box.evaluate("it => { it.scrollLeft = 10_000; it.scrollTop = 200; }")
    seen = box.bounding_box()
    name, head = (box.locator(f"{part} th").first.bounding_box() for part in ("tbody", "thead"))
    assert seen is not None
    assert name is not None
    assert head is not None
    assert name["x"] == pytest.approx(seen["x"], abs=1)
    assert (head["x"], head["y"]) == pytest.approx((seen["x"], seen["y"]), abs=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
