"""The review desk in a real browser: by keyboard alone, and with everything going wrong."""

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from setwise.characters import placed_words
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.labels import UNNAMED
from setwise.service.domain.predictions import Document, Submission
from setwise.service.domain.reviews import HeldDecision, ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages.desk import WITHHELD
from tests.browser.watching import STANDING, Faults, assert_accessible, settle, until
from tests.kit.browser import PASSWORD, Site, change_policy
from tests.samples import CLIENT

pytestmark = pytest.mark.usefixtures("standing")

TEXTS = {
    "judge and gale again": ["court", "storm"],
    "concert after the gale": ["music", "storm"],
    "tractor and rocket today": ["harvest", "space"],
    "orbit near the town": ["space"],
}
"""What comes in, and the labels that the model suggests."""
# The desk refuses labels that have not been on the screen yet. No person presses a key so soon.
LATE_S = 0.3
CASES = Path(__file__).parent.parent / "models/data/words.json"


@pytest.fixture
def task_ids(site: Site) -> list[str]:
    """Let some documents come in; give the ids of their tasks."""
    return [site.come_in(Document(f"note {n}", text)) for n, text in enumerate(TEXTS)]


@pytest.fixture
def desk(sign_in: Callable[..., Page], task_ids: list[str]) -> Page:
    return opened(sign_in, task_ids[0])


def opened(sign_in: Callable[..., Page], task_id: str, login: str = "reviewer") -> Page:
    """Open the desk where a task lies on top, and look at it."""
    page = sign_in(login, "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", task_id)
    settle(page)
    return page


def shown(page: Page) -> str:
    """Return the id of the task that lies open."""
    return str(page.locator("#work").get_attribute("data-task"))


def press(page: Page, key: str) -> None:
    """Press a key that leads to another document, and wait until that is there."""
    before = shown(page)
    settle(page)
    page.keyboard.press(key)
    expect(page.locator("#work")).not_to_have_attribute("data-task", before)
    settle(page)


def choose(page: Page, typed: str, option: str, chip: str) -> None:
    """Choose what is listed for the typed letters as the only label, and look at it."""
    page.keyboard.press("/")
    page.keyboard.type(typed)
    locator = page.get_by_role("option", name=option)
    expect(locator).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#chips .chip[aria-pressed=true]")).to_have_text(chip)
    page.keyboard.press("Escape")
    settle(page)


def saved(page: Page) -> None:
    expect(page.locator("#saved")).to_have_text("All saved")


def decided(page: Page, site: Site, task_id: str) -> HeldDecision:
    """Return a decision that can still be undone, once it has arrived."""
    until(page, lambda: site.task(task_id).decision)
    decision = site.task(task_id).decision
    assert decision is not None
    return decision


def test_the_desk_takes_words_as_learning_does(sign_in: Callable[..., Page]) -> None:
    texts = list(json.loads(CASES.read_text(encoding="utf-8")))
    page = sign_in("reviewer", "/desk")
    placed = page.evaluate(
        """async (texts) => {
            const { placedWords } = await import("/static/desk/text.js");
            return texts.map((text) => [...placedWords(text)]);
        }""",
        texts,
    )
    for text, words in zip(texts, placed, strict=True):
        assert [tuple(word) for word in words] == [tuple(word) for word in placed_words(text)]


def test_a_document_without_its_text_shows_what_another_model_answered(
    site: Site, sign_in: Callable[..., Page]
) -> None:
    reviews = site.services.reviews
    prediction = site.answer("reviewer", site.come_in(Document("known", "gale")), []).prediction
    answer = {"scores": {"music": 0.125, "<b>storm": 0.75}, "labels": []}
    bare = prediction._replace(id=reviews.new_id(), document=Document("note 9", answer=answer))
    waiting = ReviewTask(
        reviews.new_id(), bare, ReviewKind.REVIEW, ReviewState.WAITING, 1, bare.created_at
    )
    with reviews.begin() as transaction:
        transaction.predictions.add_all([(bare, Submission(CLIENT, bare.document))])
        transaction.reviews.add(waiting)
    page = opened(sign_in, waiting.id)
    expect(page.locator("#text")).to_contain_text("came without its text")
    expect(page.locator("#text tbody tr").first).to_have_text("<b>storm0.75")
    expect(page.locator("#text table")).to_have_count(2)
    assert_accessible(page)


def test_a_day_by_keyboard_alone(desk: Page, site: Site) -> None:
    first = shown(desk)
    press(desk, "1")
    decision = decided(desk, site, first)
    assert set(decision.labels) == {"court", "storm"}
    expect(desk.locator("#undo-bar")).to_contain_text("Submitted")

    second = shown(desk)
    press(desk, "u")
    assert shown(desk) == first
    assert site.task(first).decision is None
    desk.keyboard.press("/")
    desk.keyboard.type("har")
    expect(desk.get_by_role("option", name="harvest")).to_be_visible()
    desk.keyboard.press("Enter")
    expect(desk.locator("#chips .chip[aria-pressed=true]", has_text="harvest")).to_be_visible()
    desk.keyboard.press("Escape")
    desk.keyboard.press("c")
    desk.keyboard.type("seen twice")
    desk.keyboard.press("Escape")
    press(desk, "Enter")
    assert shown(desk) == second
    decision = decided(desk, site, first)
    assert set(decision.labels) == {"court", "harvest", "storm"}
    assert decision.comment == "seen twice"

    press(desk, "1")
    saved(desk)
    assert site.annotation(first) is None, "it can still be undone"

    third = shown(desk)
    desk.keyboard.press("s")
    expect(desk.get_by_role("dialog")).to_be_visible()
    desk.keyboard.type("2")
    press(desk, "Enter")
    assert [skip.reason for skip in site.task(third).skips] == ["Text is unreadable"]

    desk.keyboard.press("p")
    expect(desk.get_by_role("heading", name="Paused")).to_be_visible()
    until(desk, lambda: not site.services.queue.mine(site.caller("reviewer")))
    desk.keyboard.press("Enter")
    expect(desk.locator("#work")).to_be_visible()


@pytest.mark.parametrize("reason", ["page 2 is missing", "2 pages are missing", "  x 1"])
def test_a_typed_skip_reason_skips_one_document_with_that_reason(
    desk: Page, site: Site, task_ids: list[str], reason: str
) -> None:
    desk.keyboard.press("s")
    desk.keyboard.type(reason)
    desk.keyboard.press("Enter")
    desk.keyboard.press("s")  # too soon to be meant for the next document
    expect(desk.locator("#work")).not_to_have_attribute("data-task", task_ids[0])
    expect(desk.locator("#undo-text")).to_contain_text(f"Skipped note 0: {reason.strip()}")
    expect(desk.get_by_role("dialog")).to_be_hidden()
    assert [skip.reason for skip in site.task(task_ids[0]).skips] == [reason.strip()]
    assert not site.task(shown(desk)).skips


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_skip_without_a_reason_is_not_sent(desk: Page, task_ids: list[str], blank: str) -> None:
    desk.keyboard.press("s")
    desk.keyboard.type(blank)
    desk.keyboard.press("Enter")
    expect(desk.locator("#skip-reason")).to_be_focused()
    assert shown(desk) == task_ids[0]


def test_undo_takes_back_a_skip_and_a_later_before_the_decision_before_them(
    desk: Page, site: Site, task_ids: list[str]
) -> None:
    first, second, third, _ = task_ids
    press(desk, "1")
    desk.keyboard.press("s")
    desk.keyboard.type("torn")
    press(desk, "Enter")
    expect(desk.locator("#undo-text")).to_contain_text("Skipped note 1: torn (and 1 before)")
    press(desk, "l")
    expect(desk.locator("#undo-text")).to_contain_text("Postponed note 2: it comes back")
    press(desk, "u")
    assert shown(desk) == third
    press(desk, "u")
    assert shown(desk) == second
    assert not site.task(second).skips
    assert site.task(first).decision is not None
    press(desk, "u")
    assert shown(desk) == first
    assert site.task(first).decision is None


def test_a_key_that_an_input_method_takes_is_no_command(desk: Page, task_ids: list[str]) -> None:
    for key in ("s", "l", "1", "Enter"):
        desk.evaluate(
            "key => document.querySelector('#text').dispatchEvent(new KeyboardEvent('keydown', "
            "{key, code: key === '1' ? 'Digit1' : '', isComposing: true, bubbles: true}))",
            key,
        )
    expect(desk.get_by_role("dialog")).to_be_hidden()
    desk.keyboard.press("/")
    desk.locator("#pick").dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(desk.locator("#pick")).to_be_focused()
    assert shown(desk) == task_ids[0]


def test_none_fits_empties_the_set_and_a_missing_label_keeps_it(
    desk: Page, site: Site, task_ids: list[str]
) -> None:
    desk.keyboard.press("m")
    press(desk, "Enter")
    decision = decided(desk, site, task_ids[0])
    assert {*decision.labels} == {"court", "storm", UNNAMED}
    second = shown(desk)
    desk.keyboard.press("n")
    expect(desk.locator("#none-fits")).to_have_attribute("aria-pressed", "true")
    press(desk, "Enter")
    emptied_decision = decided(desk, site, second)
    assert emptied_decision.labels == (UNNAMED,)


def test_enter_takes_the_label_that_is_typed_however_late_the_list_is(
    desk: Page, context: BrowserContext
) -> None:
    def late(route: Route) -> None:
        time.sleep(LATE_S)
        route.continue_()

    locator = desk.locator("#chips .chip[aria-pressed=true]")
    expect(locator.filter(has_text="finance")).to_have_count(0)
    desk.keyboard.press("/")
    expect(desk.get_by_role("option").first).to_contain_text("court")
    context.route("**/desk/labels?*", late)
    desk.keyboard.type("fin")
    desk.keyboard.press("Enter")
    expect(locator.filter(has_text="finance")).to_be_visible()
    expect(desk.get_by_role("listbox")).to_be_hidden()


def test_the_desk_is_accessible(desk: Page) -> None:
    assert_accessible(desk)
    desk.keyboard.press("w")
    expect(desk.locator("#terms")).to_be_visible()
    desk.keyboard.press("/")
    expect(desk.get_by_role("listbox")).to_be_visible()
    assert_accessible(desk)
    desk.keyboard.press("Escape")
    desk.keyboard.press("?")
    expect(desk.get_by_role("dialog")).to_be_visible()
    assert_accessible(desk)


def test_a_double_click_submits_one_document(desk: Page, site: Site) -> None:
    first = shown(desk)
    desk.locator(".accept").first.dblclick()
    expect(desk.locator("#work")).not_to_have_attribute("data-task", first)
    settle(desk)
    decided(desk, site, first)
    assert site.task(shown(desk)).decision is None


def test_a_key_that_is_held_down_submits_one_document(desk: Page, site: Site) -> None:
    first = shown(desk)
    for _ in range(20):
        desk.keyboard.down("1")
    desk.keyboard.up("1")
    decided(desk, site, first)
    assert site.task(shown(desk)).decision is None


def test_markup_right_to_left_emoji_and_length_are_text(
    site: Site, sign_in: Callable[..., Page]
) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script> &amp; "
    text = "gale " + attack + "שלום עולם مرحبا 👩‍⚕️🏥 \t two\n\n  three\n" + "long words " * 9_000
    document = Document(f"{attack}👍", text[:100_000], metadata={attack: attack, "שם": ["א"]})
    task_id = site.come_in(document)
    page = opened(sign_in, task_id)
    assert page.locator("#text").text_content() == document.text
    expect(page.locator("#document-name")).to_have_text(document.id or "")
    expect(page.locator("#metadata dd").first).to_have_text(attack.strip())
    assert page.title() == "Review · Setwise"
    assert page.locator("#desk img, #desk script").count() == 0
    page.keyboard.press("f")
    page.keyboard.type("<script>")
    expect(page.locator("#find-count")).to_have_text("1 of 1")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.keyboard.type(attack + "שלום 👍")
    page.keyboard.press("Escape")
    settle(page)
    page.keyboard.press("Enter")
    decision = decided(page, site, task_id)
    assert decision.comment == attack + "שלום 👍"


def test_what_was_chosen_is_kept_when_the_lease_is_lost(
    desk: Page, site: Site, faults: Faults
) -> None:
    faults.expect("status of 412")
    lost = shown(desk)
    desk.keyboard.press("c")
    desk.keyboard.type("half a thought")
    desk.keyboard.press("Escape")
    site.services.queue.release(site.caller("reviewer"), lost)
    other = site.services.queue.claim(site.caller("lead"))
    assert other is not None
    press(desk, "1")
    notice = desk.locator("#notices")
    expect(notice).to_contain_text("Not submitted")
    expect(notice).to_contain_text("half a thought")
    site.services.queue.release(site.caller("lead"), other.id)
    for task in site.services.queue.mine(site.caller("reviewer")):
        site.services.queue.release(site.caller("reviewer"), task.id)
    desk.reload()
    expect(desk.locator("#work")).to_have_attribute("data-task", lost)
    expect(desk.locator("#comment")).to_have_value("half a thought")
    expect(desk.locator("#notices")).to_contain_text("had this document before")


def test_a_session_that_ends_in_mid_edit_loses_nothing(
    desk: Page, site: Site, context: BrowserContext, faults: Faults
) -> None:
    faults.expect("status of 401")
    task_id = shown(desk)
    desk.keyboard.press("c")
    desk.keyboard.type("before the end")
    desk.keyboard.press("Escape")
    (cookie,) = [one for one in context.cookies() if one["name"] == "setwise-session"]
    site.services.sessions.sign_out(cookie["value"])
    desk.keyboard.press("Enter")
    desk.get_by_role("link", name="Sign in again").click()
    desk.get_by_label("Login name").fill("reviewer")
    desk.get_by_label("Password").fill(PASSWORD)
    desk.keyboard.press("Enter")
    expect(desk.locator("#work")).to_be_visible()
    decision = decided(desk, site, task_id)
    assert decision.comment == "before the end"


def test_a_lost_network_is_waited_out_and_nothing_is_sent_twice(
    desk: Page, site: Site, context: BrowserContext, faults: Faults
) -> None:
    faults.expect("ERR_INTERNET_DISCONNECTED")
    first = shown(desk)
    until(desk, lambda: len(site.services.queue.mine(site.caller("reviewer"))) == 2)
    context.set_offline(True)
    press(desk, "1")
    expect(desk.locator("#saved")).to_contain_text("No connection")
    assert site.task(first).decision is None
    context.set_offline(False)
    decided(desk, site, first)


def test_an_answer_that_got_lost_is_asked_for_again(
    desk: Page, site: Site, context: BrowserContext, faults: Faults
) -> None:
    """The server stored the decision, and its answer never came."""
    faults.expect("ERR_FAILED")
    first = shown(desk)
    lost = []

    def swallow(route: Route) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.fetch().status)
        route.abort()

    desk.route("**/decide", swallow)
    press(desk, "1")
    saved(desk)
    assert lost == [200]
    decided = [
        e for e in site.services.audit_trail.page(SYSTEM, limit=50).items if e.subject == first
    ]
    assert [e.action for e in decided].count("review.decided") == 1


def test_who_is_faster_than_the_server_sees_every_document_once(
    sign_in: Callable[..., Page], context: BrowserContext, task_ids: list[str], site: Site
) -> None:
    def late(route: Route) -> None:
        time.sleep(0.6)
        route.continue_()

    context.route("**/desk/next", late)
    page = opened(sign_in, task_ids[0])
    for task_id, following in itertools.pairwise(task_ids):
        page.keyboard.press("1")
        expect(page.locator("#work")).to_have_attribute("data-task", following)
        settle(page)
        # It may be on its way while the next one, which was fetched before, lies open already.
        until(page, lambda done=task_id: site.task(done).decision)


ANSWERED = """{
  let answer;
  const answered = new Promise((resolve) => (answer = resolve));
  const Channel = window.BroadcastChannel, plain = window.setTimeout;
  window.BroadcastChannel = class extends Channel {
    constructor(name) {
      super(name);
      this.addEventListener("message", ({ data }) => data.have && answer());
    }
  };
  window.setTimeout = (act, ms) => plain(() => answered.then(() => plain(act)), ms);
}"""
"""Lets no time be up in a tab before it has heard another one, however late that answers."""


def test_two_tabs_work_on_different_documents(
    desk: Page, context: BrowserContext, site: Site
) -> None:
    other = context.new_page()
    other.add_init_script(ANSWERED)
    other.goto("/desk")
    expect(other.locator("#work")).to_be_visible()
    assert shown(other) != shown(desk)


def test_one_document_in_two_browsers_is_submitted_once(
    desk: Page, site: Site, chromium: Browser, faults: Faults
) -> None:
    faults.expect("status of 409")
    task_id = shown(desk)
    elsewhere = chromium.new_context(base_url=site.url, reduced_motion="reduce")
    elsewhere.add_init_script(STANDING)
    elsewhere.add_cookies(
        [{"name": "setwise-session", "value": site.token("reviewer"), "url": site.url}]
    )
    other = elsewhere.new_page()
    other.goto("/desk")
    expect(other.locator("#work")).to_have_attribute("data-task", task_id)
    desk.keyboard.press("c")
    desk.keyboard.type("typed at home")
    desk.keyboard.press("Escape")
    settle(other)
    press(other, "1")
    saved(other)
    site.services.reviews.submit_decisions_of(site.caller("reviewer").id)
    elsewhere.close()
    desk.keyboard.press("Enter")
    notice = desk.locator("#notices")
    expect(notice).to_contain_text("Not submitted")
    expect(notice).to_contain_text("typed at home")
    annotation = site.annotation(task_id)
    assert annotation is not None
    assert annotation.comment is None
    decided = [
        e for e in site.services.audit_trail.page(SYSTEM, limit=80).items if e.subject == task_id
    ]
    assert [e.action for e in decided].count("review.decided") == 1


def test_markup_and_scripts_of_any_direction_in_labels_are_text(
    sign_in: Callable[..., Page], context: BrowserContext, task_ids: list[str]
) -> None:
    labels = ["<img src=x onerror=\"document.title='owned'\">", "תווית عربي", "👩‍⚕️ & <b>bold</b>"]

    def relabelled(route: Route) -> None:
        answer = route.fetch()
        item = answer.json()
        for place, one in enumerate(item["candidates"]):
            one["labels"] = labels[: place + 1]
        item["marginals"] = [{"label": label, "probability": 0.5} for label in labels]
        route.fulfill(response=answer, json=item)

    context.route("**/desk/next", relabelled)
    page = opened(sign_in, task_ids[0])
    for label in labels:
        expect(page.locator("#chips .chip", has_text=label)).to_be_visible()
    expect(page.locator("#cards .label").first).to_contain_text(labels[1])
    assert page.locator("#desk img, #desk b").count() == 0
    assert page.title() == "Review · Setwise"
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0


def test_the_back_button_brings_the_document_back(desk: Page) -> None:
    task_id = shown(desk)
    desk.keyboard.press("c")
    desk.keyboard.type("kept")
    desk.goto("/account")
    desk.go_back()
    expect(desk.locator("#work")).to_have_attribute("data-task", task_id)
    expect(desk.locator("#comment")).to_have_value("kept")


def test_a_blind_task_looks_plain_and_an_empty_set_must_be_meant(
    site: Site, sign_in: Callable[..., Page]
) -> None:
    audit = site.audited(Document("drawn by lot", "judge and wheat today"))
    page = opened(sign_in, audit)
    assert site.task(audit).kind is ReviewKind.AUDIT
    expect(page.locator("#suggestions")).to_be_hidden()
    expect(page.locator("#withheld")).to_have_text(WITHHELD)
    expect(page.locator(".chip, .why")).to_have_count(0)
    assert "audit" not in page.locator("main").inner_text().lower()
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("No labels chosen")
    assert site.task(audit).decision is None
    page.keyboard.press("Enter")
    until(page, lambda: site.task(audit).decision)


def test_enter_with_all_labels_removed_asks_before_no_labels_apply(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    locator = desk.locator("#chips .chip[aria-pressed=true]")
    for n_left in (1, 0):
        for key in ("x", "Delete"):
            desk.keyboard.press(key)
        expect(locator).to_have_count(n_left)
    desk.keyboard.press("Escape")
    expect(desk.locator("#submit")).to_have_text("Submit ⏎")
    desk.keyboard.press("Enter")
    expect(desk.locator("#notices")).to_contain_text("No labels chosen")
    expect(desk.locator("#submit")).to_contain_text("Submit no labels")
    assert site.task(task_id).decision is None
    press(desk, "Enter")
    decision = decided(desk, site, task_id)
    assert decision.labels == ()


def _disagreed(
    site: Site, sign_in: Callable[..., Page], one: list[str], other: list[str]
) -> tuple[Page, str]:
    """Open a document that two people answered; return a lead's page and the task."""
    change_policy(site.services, 1.0, audits=AuditPlan(0.0, 0.0, overlap_rate=1.0))
    document = site.predict(Document("read twice", "concert after the gale"))
    change_policy(site.services, 1.0)
    for login, labels in (("reviewer", one), ("admin", other)):
        task = site.services.queue.claim(site.caller(login))
        assert task is not None
        assert task.prediction.id == document.id
        site.services.reviews.complete(site.caller(login), task.id, labels, None, task.version)
    page = sign_in("lead", "/desk")
    expect(page.get_by_role("heading", name="Answers that differ")).to_be_visible()
    return page, shown(page)


@pytest.mark.parametrize(
    ("answers", "shared", "cards"),
    [
        (
            (["music"], ["storm"]),
            [],
            [["+added: music"], ["+added: storm"], ["+added: music", "+added: storm"]],
        ),
        (
            (["music", "storm"], ["music", "space"]),
            ["music"],
            [["+added: space"], ["+added: storm"], ["+added: space", "+added: storm"]],
        ),
        (([], ["storm"]), [], [["No labels"], ["+added: storm"]]),
    ],
    ids=["nothing in common", "one label in common", "no labels"],
)
def test_answers_show_only_what_sets_them_apart_and_a_lead_may_take_both(
    site: Site,
    sign_in: Callable[..., Page],
    answers: tuple[list[str], list[str]],
    shared: list[str],
    cards: list[list[str]],
) -> None:
    page, verdict = _disagreed(site, sign_in, *answers)
    above = page.locator("#shared")
    assert above.is_visible() == bool(shared)
    assert above.locator(".label").all_text_contents() == shared
    sets = page.locator(".accept .labels")
    shown = [each.locator(".label").all_text_contents() for each in sets.all()]
    assert shown == cards
    if len(cards) > len(answers):
        expect(sets.last).to_contain_text("Both")
    settle(page)
    page.keyboard.press(str(len(cards)))
    assert set(decided(page, site, verdict).labels) == set(answers[0]) | set(answers[1])


def test_a_lead_decides_between_two_answers(site: Site, sign_in: Callable[..., Page]) -> None:
    page, verdict = _disagreed(site, sign_in, ["music"], ["music", "storm"])
    expect(page.locator("#shared")).to_have_text("Both answers have music")
    sets = page.locator(".accept .labels")
    assert sets.all_text_contents() == ["Nothing more: music", "+added: storm "]
    expect(page.locator(".chip[aria-pressed=true]")).to_have_count(0)
    assert page.locator(".percent").count() == 0, "nothing tells which answer is the model's"
    last, own = (page.locator(part).last.bounding_box() for part in (".offer", "#chosen"))
    assert last["y"] < own["y"], "no answer is chosen, so the answers stand first"
    assert last["height"] < 60, "an answer takes a line"
    assert_accessible(page)
    settle(page)
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("No labels chosen")
    assert site.task(verdict).decision is None
    page.keyboard.press("2")
    decision = decided(page, site, verdict)
    assert decision.labels == ("music", "storm")


LOOKS_AGAIN = """{
  const plain = window.setTimeout;
  window.setTimeout = (act, ms) => plain(act, ms < 10_000 ? ms : %d);
}"""
"""Lets an empty desk look by itself after so many milliseconds, in place of ten seconds."""
NEVER_MS, SOON_MS = 2**31 - 1, 500


@pytest.fixture
def empty_desk(context: BrowserContext, sign_in: Callable[..., Page]) -> Callable[[int], Page]:
    """Return what opens an empty desk that looks by itself after so many milliseconds."""

    def enter(looks_again_ms: int) -> Page:
        context.add_init_script(LOOKS_AGAIN % looks_again_ms)
        page = sign_in("reviewer", "/desk")
        expect(page.get_by_role("heading", name="No documents to review")).to_be_visible()
        return page

    return enter


def test_an_empty_desk_says_what_comes_next_and_fills_when_it_is_told_to(
    empty_desk: Callable[[int], Page], site: Site
) -> None:
    page = empty_desk(NEVER_MS)
    assert_accessible(page)
    made = site.come_in(Document("late", "gale"))
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Check now").press("Enter")
    expect(page.locator("#work")).to_have_attribute("data-task", made)


def test_an_empty_desk_fills_by_itself(empty_desk: Callable[[int], Page], site: Site) -> None:
    page = empty_desk(SOON_MS)
    made = site.come_in(Document("late", "gale"))
    expect(page.locator("#work")).to_have_attribute("data-task", made)
