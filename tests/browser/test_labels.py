"""Labels that the model lacks: added on the desk, decided by a lead, counted, learnt, predicted."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Page, expect

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.jobs import JobState
from setwise.service.domain.labels import UNNAMED, Additions
from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import ReviewKind
from tests.browser.test_desk import choose, opened, shown
from tests.browser.watching import WIDE, Faults, assert_accessible, settle, until
from tests.kit.browser import Site
from tests.trained import FILLER, Artifacts

SignIn = Callable[..., Page]

pytestmark = pytest.mark.usefixtures("standing")

WORDS = ["iceberg", "moraine", "fjord", "crevasse"]
N_GLACIERS = 24


def glacier(number: int) -> Document:
    """Return a document about a glacier."""
    draw = Random(number)
    words = [*draw.choices(FILLER, k=6), *draw.choices(WORDS, k=3)]
    draw.shuffle(words)
    return Document(f"glacier {number}", " ".join(words))


@pytest.fixture
def site(served: Path, artifacts: Artifacts) -> Iterator[Site]:
    """Serve an installation that may train on the documents of a model."""
    site = Site(served, training_data=artifacts.text.parent)
    yield site
    site.stop()


def test_a_new_code_is_added_accepted_counted_learnt_and_predicted(
    sign_in: SignIn, site: Site
) -> None:
    services = site.services
    audit = site.audited(glacier(0))
    assert site.task(audit).kind is ReviewKind.AUDIT
    desk = opened(sign_in, audit)
    choose(desk, "glacier", "Add “glacier” as a new label", "✓glacier new")
    desk.keyboard.press("Enter")
    until(desk, lambda: site.task(audit).decision)
    desk.close()
    services.reviews.submit_decisions_of(site.caller("reviewer").id)
    with services.reviews.begin(read_only=True) as transaction:
        *_, newest = transaction.reviews.tasks_of(site.task(audit).prediction.id)
    ruling = services.queue.claim(site.caller("lead"), only=newest.id)
    assert ruling is not None
    assert ruling.kind is ReviewKind.ADJUDICATION
    services.reviews.complete(site.caller("lead"), ruling.id, ["glacier"], None, ruling.version)

    board = sign_in("lead", "/board/labels")
    waiting = board.get_by_role("region", name="Proposed labels")
    expect(waiting.get_by_role("row").nth(1)).to_contain_text("Rosa Reyes")
    waiting.get_by_role("link", name="Decide").click()
    board.get_by_role("button", name="Accept").click()
    expect(board.get_by_text("The label is accepted.")).to_be_visible()

    for number in range(1, N_GLACIERS):
        site.answer("reviewer", site.come_in(glacier(number)), ["glacier"])
    board.goto("/cockpit")
    expect(board.locator("#lacking")).to_contain_text(f"glacier ({N_GLACIERS})")
    assert_accessible(board)
    board.close()

    models = sign_in("admin", "/board/models/retrain")
    models.get_by_label("File of earlier training documents").fill("text.jsonl")
    models.get_by_role("button", name="Retrain").click()
    models.wait_for_url("**/board/jobs/*")
    job_id = models.url.rpartition("/")[2]
    states = {JobState.SUCCEEDED, JobState.FAILED}
    until(models, lambda: services.jobs.get(SYSTEM, job_id).state in states)
    job = services.jobs.get(SYSTEM, job_id)
    assert job.state is JobState.SUCCEEDED, job.error
    services.models.activate(SYSTEM, str((job.result or {})["model_id"]))

    models.goto("/try")
    models.get_by_label("Text").fill("near the moraine and the fjord an iceberg")
    models.get_by_role("button", name="Try").click()
    expect(models.get_by_role("main").get_by_text("glacier", exact=True).first).to_be_visible()


@pytest.mark.parametrize(
    "width", [390, *(pytest.param(width, marks=pytest.mark.verify) for width in (1440, 820))]
)
def test_a_label_much_like_a_new_one_is_shown_before_it_is_added(
    sign_in: SignIn, site: Site, width: int
) -> None:
    task_id = site.come_in(Document(f"storm {width}", "the gale and the hail said today"))
    page = opened(sign_in, task_id)
    page.set_viewport_size({"width": width, "height": 900})
    page.keyboard.press("/")
    page.keyboard.type("finance")
    page.keyboard.press("Shift+Enter")
    finance = page.locator("#chips .chip[data-label=finance][aria-pressed=true]")
    expect(finance).not_to_contain_text("new")
    page.keyboard.type("STO-rm")
    locator = page.locator("#found [role=option]")
    expect(locator).to_have_text(["Add “STO-rm” as a new label⇧⏎"])
    page.keyboard.press("Shift+Enter")
    expect(locator).to_have_count(2)
    expect(page.locator("#found")).to_contain_text("Is one of these meant?")
    expect(locator.first).to_have_attribute("data-label", "storm")
    assert_accessible(page)
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#pick").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    new = page.locator("#chips .chip[data-label='STO-rm']")
    expect(new).to_contain_text("new")
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    expect(page.locator("#missing")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#chips")).to_contain_text("a label that is in no list")
    assert_accessible(page)
    for _ in range(3):
        page.keyboard.press("u")
    expect(new).to_have_attribute("aria-pressed", "false")


def test_an_answer_without_a_name_survives_a_reload_and_an_undo(
    sign_in: SignIn, site: Site
) -> None:
    task_id = site.come_in(Document("nameless", "people met near the town again"))
    page = opened(sign_in, task_id)
    page.keyboard.press("m")
    page.reload()
    expect(page.locator("#missing")).to_have_attribute("aria-pressed", "true")
    settle(page)
    page.keyboard.press("Enter")
    until(page, lambda: site.task(task_id).decision)
    decision = site.task(task_id).decision
    assert decision is not None
    assert UNNAMED in decision.labels
    expect(page.locator("#undo-text")).to_contain_text("a label that is in no list")
    page.locator("#undo").click()
    expect(page.locator("#work")).to_have_attribute("data-task", task_id)
    expect(page.locator("#missing")).to_have_attribute("aria-pressed", "true")
    assert shown(page) == task_id
    assert site.annotation(task_id) is None


def test_a_late_correction_asks_before_it_adds_a_label(sign_in: SignIn, site: Site) -> None:
    task = site.answer("reviewer", site.come_in(Document("late", "judge again")), ["storm"])
    page = sign_in("reviewer", f"/recent/{task.prediction.id}")
    box = page.locator("textarea#labels")
    box.fill("court")
    locator = page.get_by_label("Add a label")
    locator.fill("Mu-sic")
    locator.press("Enter")
    page.get_by_role("button", name="Use “music”").click()
    expect(box).to_have_value("court\nmusic")
    locator.fill("heat wave")
    locator.press("Enter")
    # What is typed on presses none of the buttons that appear.
    expect(page.get_by_role("button", name="Add it as a new label")).to_be_visible()
    page.keyboard.type(" of May")
    expect(locator).to_have_value("heat wave of May")
    expect(box).to_have_value("court\nmusic")
    page.get_by_role("button", name="Add it as a new label").click()
    expect(box).to_have_value("court\nmusic\nheat wave")
    expect(locator).to_have_value("heat wave of May")
    locator.fill("")
    assert_accessible(page)
    page.get_by_label("Why").fill("a new code")
    page.get_by_role("button", name="Correct", exact=True).click()
    decided_locator = page.get_by_role("region", name="What was decided")
    expect(decided_locator).to_contain_text("heat wave")


def test_a_label_is_merged_in_its_row_and_fifty_take_two_screens(
    sign_in: SignIn, site: Site, faults: Faults
) -> None:
    faults.expect("status of 422")
    lead = site.caller("lead")
    site.services.labels.add(lead, "\n".join(f"W{number:02} weather" for number in range(60)))
    page = sign_in("lead", "/board/labels?query=weather")
    page.set_viewport_size({"width": WIDE, "height": 900})
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    assert all(30 <= each.bounding_box()["height"] <= 36 for each in rows.all())
    assert rows.first.bounding_box()["y"] < 200
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 900
    menu, last = page.locator("details.menu[open]"), page.locator("summary", has_text="Change W49")
    last.click()
    expect(menu).to_have_count(1)
    expect(menu.get_by_role("button", name="Merge")).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(last).to_be_focused()
    for into in ("W0", "W01 weather"):
        last.click() if into == "W0" else None
        menu.get_by_label("The label that stands for it").fill(into)
        menu.get_by_role("button", name="Merge").click()
        page.get_by_role("button", name="Merge").click()
        if into == "W0":
            expect(menu.get_by_text("is not a label")).to_be_in_viewport()
            expect(menu.get_by_label("The label that stands for it")).to_be_focused()
            assert_accessible(page)
    expect(page.get_by_role("status")).to_contain_text("The label is merged")
    expect(page).to_have_url(re.compile("/board/labels[?]query=weather"))
    assert site.services.labels.get(SYSTEM, "W49 weather").merged_into == "W01 weather"


def test_a_label_that_may_name_a_person_is_removed_everywhere_after_an_erasure(
    sign_in: SignIn, site: Site
) -> None:
    task_id = site.come_in(Document("private", "the gale and the hail said today"))
    labels = ["storm", "Quuxword, Jane"]
    prediction_id = site.answer("reviewer", task_id, labels, Additions(labels)).prediction.id
    site.services.texts.erase(SYSTEM, prediction_id=prediction_id)
    page = sign_in("lead", "/board/labels")
    expect(page.get_by_role("heading", name="May name a person")).to_be_visible()
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.get_by_role("link", name="Board", exact=True)).to_be_in_viewport(ratio=0.95)
        assert_accessible(page)
    page.get_by_role("link", name="Decide").first.click()
    page.get_by_role("button", name="Remove everywhere").click()
    expect(page.get_by_text("cannot be undone")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("The label is removed.")).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("Quuxword")
    page.goto(f"/documents/{prediction_id}")
    expect(page.get_by_role("main")).to_contain_text("a label that is in no list")
    expect(page.get_by_role("main")).not_to_contain_text("Quuxword")
