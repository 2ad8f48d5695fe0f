"""The sets on the desk: large ones stay readable, and labels come and go by keyboard."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document
from tests.browser.test_desk import decided, desk, opened, press, saved, shown, task_ids
from tests.browser.watching import assert_accessible, settle
from tests.kit.browser import Site, change_policy

__all__ = ["desk", "task_ids"]  # fixtures

pytestmark = pytest.mark.usefixtures("standing")

MANY = [
    f"{chr(65 + n % 26)}{n:02}.9 Disorder of the {'very ' * (n % 5)}long-named organ, part {n}"
    for n in range(30)
]
MOST_KEYS = 10


def chosen(page: Page) -> Locator:
    return page.locator("#chips .chip[aria-pressed=true]")


def lies_open(page: Page, part: Locator) -> bool:
    """Return whether a part is in the window and nothing covers its middle."""
    return bool(
        part.evaluate(
            """part => {
              const { left, right, top, bottom } = part.getBoundingClientRect();
              const there = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
              return Boolean(there) && (part.contains(there) || there.contains(part));
            }"""
        )
    )


WORDS = """() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const words = [];
  while (walker.nextNode()) {
    const around = walker.currentNode.parentElement;
    if (around.closest("article, .unseen, option") || !around.checkVisibility()) continue;
    words.push(...walker.currentNode.textContent.split(/\\s+/).filter(Boolean));
  }
  return words;
}"""
MOST_WORDS = 120


def test_few_words_stand_beside_the_document(desk: Page) -> None:
    words = desk.evaluate(WORDS)
    assert "Submit" in words
    assert len(words) <= MOST_WORDS, words


MANY_SETS = [MANY, MANY[:-1], MANY[4:], MANY[:3], MANY[:2], [*MANY, "storm"]]


def texts(parts: Locator) -> list[str]:
    """Return what sighted people read, without signs and words for screen readers."""
    return parts.evaluate_all("parts => parts.map(part => part.lastChild.textContent)")


@pytest.fixture
def many(context: BrowserContext) -> None:
    """Let the model suggest sets of thirty labels with long names."""

    def relabelled(route: Route) -> None:
        answer = route.fetch()
        item = answer.json()
        item["candidates"] = [
            {"labels": labels, "confidence": 0.4 / (place + 1), "warnings": []}
            for place, labels in enumerate(MANY_SETS)
        ]
        item["marginals"] = [{"label": label, "probability": 0.5} for label in MANY]
        route.fulfill(response=answer, json=item)

    context.route("**/desk/next", relabelled)
    # The server knows no such labels.
    context.route("**/decide", lambda route: route.fulfill(json={"version": 9, "undo_s": 60}))


CUT = """parts => parts.filter(part => {
  const box = part.getBoundingClientRect();
  const holder = part.closest(".labels, .chip, li").getBoundingClientRect();
  const style = getComputedStyle(part);
  return !box.width || style.textOverflow === "ellipsis" || part.scrollWidth > part.clientWidth + 1
    && style.overflow !== "visible" || box.right > holder.right + 1;
}).length"""


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    ("width", "height"),
    [
        (390, 800),
        *(pytest.param(*size, marks=pytest.mark.verify) for size in [(1440, 900), (820, 1180)]),
    ],
)
def test_all_labels_of_a_set_are_seen_before_it_is_submitted(
    sign_in: Callable[..., Page], site: Site, task_ids: list[str], width: int, height: int
) -> None:
    page = sign_in("reviewer", "/account")
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", task_ids[0])
    assert lies_open(page, page.locator("#submit"))
    for card, labels in zip(page.locator(".accept").all(), MANY_SETS, strict=True):
        assert set(texts(card.locator(".added"))) == set(labels) - set(MANY)
        assert set(texts(card.locator(".removed"))) == set(MANY) - set(labels)
        places = card.locator(".label").evaluate_all(
            "parts => parts.map(part => part.classList.contains('removed'))"
        )
        assert places == sorted(places), "what it adds stands first, then what it leaves out"
    for parts in (page.locator(".label"), page.locator(".chip .name")):
        assert parts.evaluate_all(CUT) == 0
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert_accessible(page)
    settle(page)
    last = page.locator(".accept").nth(4).locator(".label").last
    assert not lies_open(page, last)
    page.keyboard.press("5")
    # The page shows what was out of sight, the labels that both sets have among it.
    notice = page.locator("#notices", has_text="out of sight")
    expect(notice).to_be_visible()
    while not lies_open(page, last):
        assert shown(page) == task_ids[0]
        settle(page)
        page.keyboard.press("5")
        expect(notice).to_be_visible()
    settle(page)
    press(page, "5")


def test_labels_are_exchanged_and_submitted_with_at_most_ten_keys(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    keys = ["x", "Delete", "/", *"fin", "Enter", "Control+Enter"]
    assert len(keys) <= MOST_KEYS
    for key in keys[:-1]:
        desk.keyboard.press(key)
    expect(chosen(desk).filter(has_text="finance")).to_be_visible()
    press(desk, keys[-1])
    decision = decided(desk, site, task_id)
    assert set(decision.labels) == {"storm", "finance"}


def test_a_label_is_removed_by_typing_it_as_it_is_added(desk: Page) -> None:
    for n_left in (1, 2):
        desk.keyboard.press("/")
        desk.keyboard.type("storm")
        desk.keyboard.press("Enter")
        expect(chosen(desk)).to_have_count(n_left)
        desk.keyboard.press("Escape")
    expect(chosen(desk).filter(has_text="storm")).to_be_visible()


def test_changes_and_then_decisions_are_undone_step_by_step(desk: Page, site: Site) -> None:
    decided = [shown(desk)]
    press(desk, "1")
    decided.append(shown(desk))
    press(desk, "1")
    saved(desk)
    assert [site.annotation(one) for one in decided] == [None, None]
    labels = ["harvest", "space"]
    for key in ("x", "Delete", "/", *"fin", "Enter"):
        desk.keyboard.press(key)
    expect(chosen(desk).filter(has_text="finance")).to_be_visible()
    desk.keyboard.press("Escape")
    for _ in range(2):
        desk.keyboard.press("u")
    expect(chosen(desk)).to_have_count(len(labels))
    assert [chip.get_attribute("data-label") for chip in chosen(desk).all()] == labels
    for task_id in reversed(decided):
        expect(desk.locator("#undo-bar")).to_be_visible()
        press(desk, "u")
        assert shown(desk) == task_id
        assert site.task(task_id).decision is None
    expect(desk.locator("#undo-bar")).to_be_hidden()


def test_a_queue_is_named_in_the_address_and_a_document_is_postponed(
    desk: Page, site: Site, task_ids: list[str]
) -> None:
    first = shown(desk)
    press(desk, "l")
    expect(desk.locator("#undo-text")).to_contain_text("it comes back after all that waits now")
    assert shown(desk) == task_ids[1]
    lead, taken = site.caller("lead"), []
    while (task := site.services.queue.claim(lead)) is not None:
        taken.append(task.id)
    assert taken[-1] == first, "it is not lost, and comes last"
    for task_id in taken:
        site.services.queue.release(lead, task_id)
    desk.locator("#queue summary").click()
    desk.get_by_label("Suggested label").fill("nothing")
    desk.get_by_role("button", name="Show").click()
    expect(desk.locator("#queue summary")).to_have_text("Queue: nothing")
    assert "label=nothing" in desk.url
    desk.locator("#queue summary").click()
    assert_accessible(desk)
    desk.locator("#queue summary").click()
    settle(desk)
    desk.keyboard.press("1")
    expect(desk.get_by_role("heading", name="No documents in this queue")).to_be_visible()


def test_a_key_of_ones_own_is_kept_and_named_wherever_the_key_was(desk: Page) -> None:
    first = shown(desk)
    desk.keyboard.press("?")
    desk.get_by_role("button", name="Change keys").click()
    desk.get_by_label("Key: Later").fill("s")
    expect(desk.get_by_label("Key: Skip")).to_have_value("l")
    assert_accessible(desk)
    desk.reload()
    expect(desk.locator("#work")).to_have_attribute("data-task", first)
    expect(desk.locator("#later kbd")).to_have_text("s")
    expect(desk.locator("#skip")).to_have_attribute("aria-keyshortcuts", "l")
    settle(desk)
    press(desk, "s")
    assert shown(desk) != first
    desk.keyboard.press("?")
    desk.get_by_role("button", name="Change keys").click()
    desk.get_by_role("button", name="Reset").click()
    expect(desk.locator("#skip kbd")).to_have_text("s")


def test_a_key_that_is_tried_in_the_help_changes_no_key(desk: Page) -> None:
    desk.keyboard.press("?")
    expect(desk.get_by_role("button", name="Close")).to_be_focused()
    desk.keyboard.press("l")
    expect(desk.get_by_role("dialog").locator("dt", has_text="l")).to_have_count(1)
    desk.keyboard.press("Enter")
    expect(desk.get_by_role("dialog")).to_be_hidden()
    expect(desk.locator("#later kbd")).to_have_text("l")
    expect(desk.locator(".picker kbd")).to_have_text("/")


NOTES = """label,name,guideline,parent
W,Weather,,
storm,Storm,"Wind of force 10, or more",W
rain,,Only if it falls,W
"""


def test_guidelines_are_read_and_a_hierarchy_is_browsed(
    site: Site, sign_in: Callable[..., Page], task_ids: list[str]
) -> None:
    board = sign_in("admin", "/board/labels")
    notes = {"name": "labels.csv", "mimeType": "text/csv", "buffer": NOTES.encode()}
    board.get_by_text("Descriptions from a file").click()
    board.get_by_label("Label file").set_input_files(files=[notes])
    board.get_by_role("button", name="Replace", exact=True).click()
    expect(board.get_by_role("main")).to_contain_text("Described: 1 of the model's 6")
    assert_accessible(board)
    board.close()
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#browse")).to_be_visible()
    storm = chosen(page).filter(has_text="storm")
    expect(storm).to_have_count(1)
    page.keyboard.press("b")
    page.get_by_text("W Weather").click()
    assert_accessible(page)
    page.get_by_role("button", name="storm Storm").click()
    page.keyboard.press("Escape")
    expect(storm).to_have_count(0)
    page.locator("#chips .chip[data-label=storm]").focus()
    expect(page.locator("#guideline")).to_have_text("storm Storm: Wind of force 10, or more")
    assert_accessible(page)


def test_a_label_brings_its_parent_and_removing_one_that_is_needed_says_so(
    site: Site, sign_in: Callable[..., Page], task_ids: list[str]
) -> None:
    site.services.labels.describe(SYSTEM, "label,parent\nmusic,\nfinance,music\nspace,finance")
    change_policy(site.services, rules=[{"kind": "parents"}])
    page = opened(sign_in, task_ids[0])
    expect(page.locator("#browse")).to_be_visible()
    locator, warnings = page.locator("#announce"), page.locator("#warnings")
    page.keyboard.press("/")
    page.keyboard.type("space")
    expect(page.get_by_role("option", name="space")).to_be_visible()
    page.keyboard.press("Enter")
    expect(locator).to_have_text("space added with finance, music.")
    expect(chosen(page)).to_have_count(5)
    expect(warnings).to_be_empty()
    page.keyboard.press("Escape")
    page.locator("#chips .chip[data-label=music]").click()
    expect(locator).to_have_text("music removed, though required by finance, space.")
    expect(warnings).to_have_text("⚠ Rule “parents”: finance comes with music.")
    assert_accessible(page)
    page.keyboard.press("u")
    page.keyboard.press("u")
    expect(chosen(page)).to_have_count(2)


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


def test_an_attachment_is_shown_if_its_host_is_allowed(
    site: Site, context: BrowserContext, sign_in: Callable[..., Page]
) -> None:
    items: list[dict[str, str]] = []

    def give(route: Route) -> None:
        items.append(route.request.headers)
        route.fulfill(body=PIXEL, content_type="image/png")

    context.route("https://files.example/**", give)
    first, _ = (
        site.come_in(Document(name, "gale", metadata={"attachment_url": name}))
        for name in ("https://files.example/scan.png", "https://other.example/scan.png")
    )
    page = opened(sign_in, first)
    image = page.get_by_role("img", name="Attachment", exact=True)
    expect(image).to_have_js_property("complete", value=True)
    assert image.evaluate("one => one.naturalWidth") == 1
    assert [one.get("referer") for one in items] == [None]
    assert_accessible(page)
    settle(page)
    press(page, "1")
    shown = page.locator("#attachment")
    expect(shown).to_contain_text("at other.example, which may not be opened from here")
    expect(shown.locator("a, img, object")).to_have_count(0)
