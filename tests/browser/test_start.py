"""From nothing to a certificate: labels, texts, readings, a model by itself, and a proof."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Browser, Page, expect

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Decision, Document
from setwise.service.domain.retraining import FIRST_TEXTS
from tests.browser.test_desk import choose, shown
from tests.browser.watching import assert_accessible, settle, until
from tests.kit.browser import Site, found
from tests.trained import FILLER, LABELS

pytestmark = [
    pytest.mark.usefixtures("standing"),
    pytest.mark.verify,
    # The first model says that more answers would serve it.
    pytest.mark.filterwarnings("ignore::setwise.models.options.TrainingWarning"),
]

GIVEN = ("harvest", "music", "space")
AUDITED = 160
# One in ten is drawn for an audit; all ten are once in ten thousand million runs.
SENT = 10


@pytest.fixture
def site(chromium: Browser, tmp_path: Path) -> Iterator[Site]:
    """Serve an installation without a model."""
    found(tmp_path / "served")
    site = Site(tmp_path / "served", ready="/readyz")
    yield site
    site.stop()


def texts(n: int, seed: int) -> dict[str, list[str]]:
    """Return texts with their labels, whose words tell them."""
    draw, made = Random(seed), dict[str, list[str]]()
    while len(made) < n:
        labels = sorted(draw.sample(GIVEN, draw.choice([1, 1, 2])))
        words = draw.choices(FILLER, k=8)
        for label in labels:
            words += draw.sample(LABELS[label], 2)
        draw.shuffle(words)
        made[" ".join(words)] = labels
    return made


def read(site: Site, login: str, truth: Mapping[str, list[str]], most: int) -> None:
    """Let one of the people, who knows the truth, read what comes next."""
    reviews, caller = site.services.reviews, site.caller(login)
    for _ in range(most):
        task = reviews.queue.claim(caller)
        if task is None:
            return
        labels = truth[task.prediction.document.text or ""]
        reviews.complete(caller, task.id, labels, None, task.version)


def test_a_newcomer_comes_from_labels_and_texts_to_a_certificate(
    sign_in: Callable[..., Page], site: Site, tmp_path: Path
) -> None:
    first, later = texts(100, seed=1), texts(AUDITED + SENT, seed=2)
    start = sign_in("admin", "/board/start")
    expect(start.get_by_text("No labels yet.")).to_be_visible()
    start.get_by_label("Labels, one a line").fill("\n".join(GIVEN))
    start.get_by_role("button", name="Add labels").click()
    expect(start.get_by_role("status")).to_contain_text("The labels are added")

    file = tmp_path / "texts.txt"
    file.write_text("\n".join(first))
    start.get_by_label("File of texts").set_input_files(file)
    start.get_by_role("button", name="Add texts").click()
    expect(start.locator("dt:text-is('Documents') + dd")).to_have_text("100")

    desk = sign_in("admin", "/desk")
    expect(desk.locator("#work")).to_have_attribute("data-task", re.compile("."))
    task_id = shown(desk)
    expect(desk.locator("#work")).not_to_contain_text("%")
    settle(desk)
    choose(desk, "music", "music", "✓music catalogue")
    desk.keyboard.press("Enter")
    until(desk, lambda: site.task(task_id).decision)
    site.services.reviews.submit_decisions_of(site.caller("admin").id)

    read(site, "reviewer", first, FIRST_TEXTS - 1)
    site.services.retraining.request_if_due()
    until(start, lambda: any(model.active for model in site.services.models.page(SYSTEM)))
    start.goto("/board/start")
    expect(start.get_by_text("60 answers so far.")).to_be_visible()
    assert_accessible(start)

    start.get_by_role("navigation", name="Board").get_by_role("link", name="Policy").click()
    start.get_by_label("Right among what is sent").fill("90")
    start.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    start.get_by_label("Read blind of what could be sent").fill("10")
    start.get_by_label("While nothing is sent, in %").fill("100")
    start.get_by_label("Audits read again, in %").fill("100")
    start.get_by_role("button", name="Preview").click()
    start.get_by_role("button", name="Save policy").click()
    expect(start.get_by_role("status")).to_contain_text("applies from now on")
    audited, sent = list(later)[:AUDITED], list(later)[AUDITED:]
    for text in audited:
        site.predict(Document(text=text))
    read(site, "reviewer", first | later, len(first) + AUDITED)
    read(site, "lead", first | later, len(first) + AUDITED)

    start.goto("/board/certifications")
    start.get_by_role("link", name="Certify now").click()
    start.get_by_role("button", name="Certify now").click()
    until(start, lambda: site.services.certification.in_force(SYSTEM))
    start.goto("/board/certifications")
    expect(start.get_by_text("90 %").first).to_be_visible()
    assert Decision.AUTO in {site.predict(Document(text=text)).decision for text in sent}
