"""The review desk in a real browser: by keyboard alone, and with everything going wrong."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.errors import LeaseLost
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, Submission
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages.desk import WITHHELD
from tests.browser.site import PASSWORD, Site
from tests.browser.watching import Faults, assert_accessible
from tests.building import predict_one
from tests.samples import CLIENT
from tests.trained import documents

PATIENCE_S = 60.0
TEXTS = ("storm and rain again", "a goal after the storm", "bond and coupon today", "rain")
# The desk ignores keys for a moment after a document has appeared.
SETTLED_MS = 300
# It refuses labels that have not been on the screen yet. No person presses a key within a frame.
DRAWN = "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
LATE_S = 0.3


@pytest.fixture(scope="module", autouse=True)
def nothing_waits(site: Site) -> None:
    """Settle what waits, and let whatever comes in be reviewed with suggestions."""
    for login in ("lead", "admin"):
        caller = site.caller(login)
        while (task := site.services.reviews.claim(caller)) is not None:
            labels = task.prediction.scored.labels
            site.services.reviews.complete(caller, task.id, labels, None, task.version)
    change = PolicyChange(0.9, 0.1, True, ThresholdMode.FIXED, 1.0, audits=AuditPlan(0.0, 0.0))
    site.services.policy.change(SYSTEM, change, None)


@pytest.fixture(autouse=True)
def arrived(site: Site, nothing_waits: None) -> Iterator[list[str]]:
    """Let some documents come in; give the ids of their tasks, and clear the desk afterwards."""
    yield [come_in(site, Document(f"note {n}", text)) for n, text in enumerate(TEXTS)]
    # The page is closed, but what it had asked for last may still be on its way.
    while site.busy or cleared(site):
        time.sleep(LATE_S)


def cleared(site: Site) -> int:
    """Complete everything; return how many tasks that were."""
    n = 0
    for login in ("reviewer", "lead"):
        caller = site.caller(login)
        n += site.services.reviews.submit_decisions_of(caller.id)
        for held in site.services.reviews.mine(caller):
            with suppress(LeaseLost):  # the page gives back what it had fetched ahead
                site.services.reviews.release(caller, held.id)
    admin = site.caller("admin")
    while (task := site.services.reviews.claim(admin)) is not None:
        site.services.reviews.complete(admin, task.id, [], None, task.version)
        n += 1
    return n


@pytest.fixture
def desk(sign_in: Callable[..., Page], arrived: list[str]) -> Page:
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", arrived[0])
    page.wait_for_timeout(SETTLED_MS)
    return page


def come_in(site: Site, document: Document) -> str:
    """Let a document come in; returns the id of its task."""
    made = predict_one(site.services.predictions, CLIENT, document)
    with site.services.reviews.begin(read_only=True) as transaction:
        waiting = transaction.reviews.page(
            state=ReviewState.WAITING, reason=None, after=None, limit=200
        )
    return next(task.id for task in waiting.items if task.prediction.id == made.id)


def shown(page: Page) -> str:
    """Return the id of the task that lies open."""
    return str(page.locator("#work").get_attribute("data-task"))


def press(page: Page, key: str) -> None:
    """Press a key that leads to another document, and wait until that is there."""
    before = shown(page)
    page.evaluate(DRAWN)
    page.keyboard.press(key)
    expect(page.locator("#work")).not_to_have_attribute("data-task", before)
    page.wait_for_timeout(SETTLED_MS)


def saved(page: Page) -> None:
    expect(page.locator("#saved")).to_have_text("All saved")


def task_of(site: Site, task_id: str) -> ReviewTask:
    return site.services.reviews.get(SYSTEM, task_id)


def said(site: Site, task_id: str) -> Annotation | None:
    with site.services.reviews.begin(read_only=True) as transaction:
        return transaction.reviews.annotation_of(task_id)


def until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_document_without_its_text_shows_what_another_model_answered(
    site: Site, sign_in: Callable[..., Page], arrived: list[str]
) -> None:
    reviews, caller = site.services.reviews, site.caller("reviewer")
    for _ in arrived:
        task = reviews.claim(caller)
        assert task is not None
        reviews.complete(caller, task.id, [], None, task.version)
    answer = {"scores": {"music": 0.125, "<b>storm": 0.75}, "labels": []}
    known = task.prediction
    bare = known._replace(id=reviews.new_id(), document=Document("note 9", answer=answer))
    waiting = ReviewTask(
        reviews.new_id(), bare, ReviewKind.REVIEW, ReviewState.WAITING, 1, bare.created_at
    )
    with reviews.begin() as transaction:
        transaction.predictions.add_all([(bare, Submission(CLIENT, bare.document))])
        transaction.reviews.add(waiting)
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", waiting.id)
    expect(page.locator("#text")).to_contain_text("came without its text")
    expect(page.locator("#text tbody tr").first).to_have_text("<b>storm0.75")
    expect(page.locator("#text table")).to_have_count(2)
    assert_accessible(page)


def test_a_day_by_keyboard_alone(desk: Page, site: Site) -> None:
    first = shown(desk)
    labels = task_of(site, first).prediction.scored.candidates[0].labels
    press(desk, "1")
    saved(desk)
    decision = task_of(site, first).decision
    assert decision is not None
    assert set(decision.labels) == set(labels)
    expect(desk.locator("#undo-bar")).to_contain_text("Submitted")

    second = shown(desk)
    press(desk, "u")
    assert shown(desk) == first
    assert task_of(site, first).decision is None
    desk.keyboard.press("/")
    desk.keyboard.type("sto")
    expect(desk.get_by_role("option", name="storm")).to_be_visible()
    desk.keyboard.press("Enter")
    expect(desk.locator("#chips .chip[aria-pressed=true]", has_text="storm")).to_be_visible()
    desk.keyboard.press("Escape")
    desk.keyboard.press("c")
    desk.keyboard.type("seen twice")
    desk.keyboard.press("Escape")
    press(desk, "Enter")
    assert shown(desk) == second
    saved(desk)
    decision = task_of(site, first).decision
    assert decision is not None
    assert "storm" in decision.labels
    assert decision.comment == "seen twice"

    press(desk, "1")
    saved(desk)
    assert said(site, first) is None, "it can still be undone"

    third = shown(desk)
    desk.keyboard.press("s")
    expect(desk.get_by_role("dialog")).to_be_visible()
    press(desk, "2")
    assert [skip.reason for skip in task_of(site, third).skips] == ["Text is unreadable"]

    desk.keyboard.press("p")
    expect(desk.get_by_role("heading", name="Paused")).to_be_visible()
    until(lambda: not site.services.reviews.mine(site.caller("reviewer")))
    desk.keyboard.press("Enter")
    expect(desk.locator("#work")).to_be_visible()


def test_enter_takes_the_label_that_is_typed_however_late_the_list_is(
    desk: Page, context: BrowserContext
) -> None:
    def late(route: Route) -> None:
        time.sleep(LATE_S)
        route.continue_()

    chosen = desk.locator("#chips .chip[aria-pressed=true]")
    expect(chosen.filter(has_text="finance")).to_have_count(0)
    desk.keyboard.press("/")
    expect(desk.get_by_role("option").first).to_have_text("court")
    context.route("**/desk/labels?*", late)
    desk.keyboard.type("fin")
    desk.keyboard.press("Enter")
    expect(chosen.filter(has_text="finance")).to_be_visible()
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
    saved(desk)
    desk.wait_for_timeout(SETTLED_MS)
    assert task_of(site, first).decision is not None
    assert task_of(site, shown(desk)).decision is None


def test_a_key_that_is_held_down_submits_one_document(desk: Page, site: Site) -> None:
    first = shown(desk)
    for _ in range(20):
        desk.keyboard.down("1")
    desk.keyboard.up("1")
    saved(desk)
    assert task_of(site, first).decision is not None
    assert task_of(site, shown(desk)).decision is None


def test_markup_right_to_left_emoji_and_length_are_text(
    site: Site, arrived: list[str], sign_in: Callable[..., Page]
) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script> &amp; "
    text = attack + "שלום עולם مرحبا 👩‍⚕️🏥 \t two\n\n  three\n" + "long words " * 9_000
    document = Document(f"{attack}👍", text[:100_000], metadata={attack: attack, "שם": ["א"]})
    caller = site.caller("reviewer")
    for _ in arrived:
        task = site.services.reviews.claim(caller)
        assert task is not None
        site.services.reviews.complete(caller, task.id, [], None, task.version)
    task_id = come_in(site, document)
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", task_id)
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
    page.wait_for_timeout(SETTLED_MS)
    page.keyboard.press("Enter")
    saved(page)
    decision = task_of(site, task_id).decision
    assert decision is not None
    assert decision.comment == attack + "שלום 👍"


def test_what_was_chosen_is_kept_when_the_lease_is_lost(
    desk: Page, site: Site, faults: Faults
) -> None:
    faults.expect("status of 412")
    lost = shown(desk)
    desk.keyboard.press("c")
    desk.keyboard.type("half a thought")
    desk.keyboard.press("Escape")
    site.services.reviews.release(site.caller("reviewer"), lost)
    other = site.services.reviews.claim(site.caller("lead"))
    assert other is not None
    press(desk, "1")
    notice = desk.locator("#notices")
    expect(notice).to_contain_text("Not submitted")
    expect(notice).to_contain_text("half a thought")
    site.services.reviews.release(site.caller("lead"), other.id)
    for task in site.services.reviews.mine(site.caller("reviewer")):
        site.services.reviews.release(site.caller("reviewer"), task.id)
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
    saved(desk)
    decision = task_of(site, task_id).decision
    assert decision is not None
    assert decision.comment == "before the end"


def test_a_lost_network_is_waited_out_and_nothing_is_sent_twice(
    desk: Page, site: Site, context: BrowserContext, faults: Faults
) -> None:
    faults.expect("ERR_INTERNET_DISCONNECTED")
    first = shown(desk)
    until(lambda: len(site.services.reviews.mine(site.caller("reviewer"))) == 2)
    context.set_offline(True)
    press(desk, "1")
    expect(desk.locator("#saved")).to_contain_text("No connection")
    assert task_of(site, first).decision is None
    context.set_offline(False)
    saved(desk)
    assert task_of(site, first).decision is not None


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
    sign_in: Callable[..., Page], context: BrowserContext, arrived: list[str], site: Site
) -> None:
    def late(route: Route) -> None:
        time.sleep(0.6)
        route.continue_()

    context.route("**/desk/next", late)
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", arrived[0])
    for place, task_id in enumerate(arrived[:-1]):
        page.wait_for_timeout(SETTLED_MS)
        page.keyboard.press("1")
        expect(page.locator("#work")).to_have_attribute("data-task", arrived[place + 1])
        # It may be on its way while the next one, which was fetched before, lies open already.
        until(lambda done=task_id: task_of(site, done).decision or said(site, done))


ANSWERED = """{
  const answered = new Promise((resolve) => {
    new BroadcastChannel("setwise-desk").onmessage = ({ data }) => data.have && resolve();
  });
  const plain = window.setTimeout;
  window.setTimeout = (act, ms) => plain(() => answered.then(act), ms);
}"""
"""Lets no time be up in a tab before another one, on a machine that is busy, has answered."""


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
    elsewhere.add_cookies(
        [{"name": "setwise-session", "value": site.token("reviewer"), "url": site.url}]
    )
    other = elsewhere.new_page()
    other.goto("/desk")
    expect(other.locator("#work")).to_have_attribute("data-task", task_id)
    desk.keyboard.press("c")
    desk.keyboard.type("typed at home")
    desk.keyboard.press("Escape")
    other.wait_for_timeout(SETTLED_MS)
    press(other, "1")
    saved(other)
    saved(other)
    site.services.reviews.submit_decisions_of(site.caller("reviewer").id)
    elsewhere.close()
    desk.keyboard.press("Enter")
    notice = desk.locator("#notices")
    expect(notice).to_contain_text("Not submitted")
    expect(notice).to_contain_text("typed at home")
    annotation = said(site, task_id)
    assert annotation is not None
    assert annotation.comment is None
    decided = [
        e for e in site.services.audit_trail.page(SYSTEM, limit=80).items if e.subject == task_id
    ]
    assert [e.action for e in decided].count("review.decided") == 1


def test_markup_and_scripts_of_any_direction_in_labels_are_text(
    sign_in: Callable[..., Page], context: BrowserContext, arrived: list[str]
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
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", arrived[0])
    for label in labels:
        expect(page.locator("#chips .chip", has_text=label)).to_be_visible()
    expect(page.locator("#cards .label").first).to_contain_text(labels[0])
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
    desk: Page, site: Site, arrived: list[str], sign_in: Callable[..., Page]
) -> None:
    clear(desk, site, arrived)
    change = PolicyChange(
        0.9, 0.1, True, ThresholdMode.FIXED, 0.0, audits=AuditPlan(1.0, 0.0), reason="to draw one"
    )
    site.services.policy.change(SYSTEM, change, None)
    (usual,) = documents(1, seed=23)  # the shorter texts of this file are never sent
    audit = come_in(site, Document("drawn by lot", str(usual["text"])))
    change = PolicyChange(0.9, 0.1, True, ThresholdMode.FIXED, 1.0, audits=AuditPlan(0.0, 0.0))
    site.services.policy.change(SYSTEM, change, None)
    page = sign_in("reviewer", "/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", audit)
    assert task_of(site, audit).kind is ReviewKind.AUDIT
    expect(page.locator("#suggestions")).to_be_hidden()
    expect(page.locator("#withheld")).to_have_text(WITHHELD)
    expect(page.locator(".chip, .why")).to_have_count(0)
    assert "audit" not in page.locator("main").inner_text().lower()
    page.wait_for_timeout(SETTLED_MS)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("No labels chosen")
    assert task_of(site, audit).decision is None
    page.keyboard.press("Enter")
    until(lambda: task_of(site, audit).decision)


def test_enter_with_all_labels_removed_asks_before_no_labels_apply(desk: Page, site: Site) -> None:
    task_id = shown(desk)
    for chip in range(desk.locator("#chips .chip[aria-pressed=true]").count()):
        for key in ("x", "Delete"):
            desk.keyboard.press(key)
        assert chip < len(TEXTS)
    desk.keyboard.press("Escape")
    expect(desk.locator("#submit")).to_have_text("Submit ⏎")
    desk.keyboard.press("Enter")
    expect(desk.locator("#notices")).to_contain_text("No labels chosen")
    expect(desk.locator("#submit")).to_contain_text("Submit no labels")
    assert task_of(site, task_id).decision is None
    press(desk, "Enter")
    saved(desk)
    decision = task_of(site, task_id).decision
    assert decision is not None
    assert decision.labels == ()


def test_a_lead_decides_between_two_answers_side_by_side(
    desk: Page, site: Site, arrived: list[str], sign_in: Callable[..., Page]
) -> None:
    clear(desk, site, arrived)
    change = PolicyChange(
        0.9, 0.1, True, ThresholdMode.FIXED, 1.0, audits=AuditPlan(0.0, 0.0, overlap_rate=1.0)
    )
    site.services.policy.change(SYSTEM, change, None)
    come_in(site, Document("read twice", TEXTS[1]))
    for login, labels in (("reviewer", ["music"]), ("admin", ["music", "storm"])):
        task = site.services.reviews.claim(site.caller(login))
        assert task is not None
        site.services.reviews.complete(site.caller(login), task.id, labels, None, task.version)
    change = PolicyChange(0.9, 0.1, True, ThresholdMode.FIXED, 1.0, audits=AuditPlan(0.0, 0.0))
    site.services.policy.change(SYSTEM, change, None)
    page = sign_in("lead", "/desk")
    expect(page.get_by_role("heading", name="Answers that differ")).to_be_visible()
    expect(page.locator(".accept")).to_have_count(2)
    named = [card.locator(".label").all_text_contents() for card in page.locator(".accept").all()]
    assert named == [["music", "\N{MINUS SIGN}left out: storm"], ["music", "+added: storm"]]
    expect(page.locator(".chip[aria-pressed=true]")).to_have_count(0)
    assert page.locator(".percent").count() == 0, "nothing tells which answer is the model's"
    boxes = [box.bounding_box() for box in page.locator(".offer").all()]
    assert boxes[0]["y"] == boxes[1]["y"] < page.locator("#chosen").bounding_box()["y"]
    assert_accessible(page)
    verdict = shown(page)
    page.wait_for_timeout(SETTLED_MS)
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("No labels chosen")
    assert task_of(site, verdict).decision is None
    page.keyboard.press("2")
    saved(page)
    decision = task_of(site, verdict).decision
    assert decision is not None
    assert decision.labels == ("music", "storm")


LOOKS_AGAIN = """{
  const plain = window.setTimeout;
  window.setTimeout = (act, ms) => plain(act, ms < 10_000 ? ms : %d);
}"""
"""Lets an empty desk look by itself after so many milliseconds, in place of ten seconds."""
NEVER_MS, SOON_MS = 2**31 - 1, 500


@pytest.fixture
def empty_desk(
    desk: Page,
    context: BrowserContext,
    site: Site,
    arrived: list[str],
    sign_in: Callable[..., Page],
) -> Callable[[int], Page]:
    """Return what opens an empty desk that looks by itself after so many milliseconds."""

    def enter(looks_again_ms: int) -> Page:
        clear(desk, site, arrived)
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
    made = come_in(site, Document("late", TEXTS[2]))
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Check now").press("Enter")
    expect(page.locator("#work")).to_have_attribute("data-task", made)


def test_an_empty_desk_fills_by_itself(empty_desk: Callable[[int], Page], site: Site) -> None:
    page = empty_desk(SOON_MS)
    made = come_in(site, Document("late", TEXTS[2]))
    expect(page.locator("#work")).to_have_attribute("data-task", made)


def clear(page: Page, site: Site, arrived: list[str]) -> None:
    """Leave the page, and submit everything that came in."""
    page.goto("/account")
    caller = site.caller("reviewer")
    until(lambda: len(site.services.reviews.mine(caller)) == 1)
    for _ in arrived:
        task = next(iter(site.services.reviews.mine(caller)), None) or site.services.reviews.claim(
            caller
        )
        assert task is not None
        site.services.reviews.complete(caller, task.id, [], None, task.version)
    page.close()
