"""The board lists the model's labels, and takes what is known of them as a file."""

import csv
import io

import pytest

from setwise.service.domain.callers import SYSTEM, Role
from tests.browsing import Browser
from tests.edge import Service

LABELS = "/board/labels"
NAMES = [f"L{number:03}" for number in range(60)] + ["=risky"]


@pytest.fixture
def board(service: Service) -> Browser:
    service.predictors.predictor.labels = NAMES
    service.person("ada", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in("ada")
    return browser


def test_every_label_of_the_model_is_listed_and_found(board: Browser) -> None:
    first = board.get(LABELS).text
    assert "Described: 0 of the model&#39;s 61 labels." in first
    assert [f">{name}</th>" in first for name in (NAMES[0], NAMES[-1])] == [True, False]
    assert 'href="/board/labels?after=50" rel="next">More</a>' in first
    assert ">=risky</th>" in board.get(f"{LABELS}?after=50").text
    found = board.get(f"{LABELS}?query=l059").text
    assert ">L059</th>" in found
    assert ">L000</th>" not in found


def test_the_template_is_filled_in_and_uploaded(service: Service, board: Browser) -> None:
    template = board.get(f"{LABELS}/template.csv")
    rows = list(csv.DictReader(io.StringIO(template.text)))
    assert [row["label"] for row in rows] == [*NAMES[:-1], "'=risky"]
    assert list(rows[0]) == ["label", "name", "guideline", "parent"]
    filled = (
        template.text.replace("L000,,,", "L000,First,Only if first,H").rstrip() + "\r\nH,,,\r\n"
    )
    sent = board.send(
        "POST",
        LABELS,
        data={"csrf": board.token(LABELS)},
        files={"file": ("labels.csv", filled.encode("utf-8-sig"), "text/csv")},
    )
    assert sent.status_code == 303, sent.text
    notes = {note.label: note for note in service.services.labels.notes(SYSTEM)}
    assert notes["L000"][1:] == ("First", "Only if first", "H")
    assert "=risky" not in notes  # nothing is said of it
    shown = board.get(LABELS).text
    assert "Described: 1 of the model&#39;s 61 labels." in shown
    assert "1 described label unknown to the model" in shown


def test_an_empty_form_removes_no_description(service: Service, board: Browser) -> None:
    form = {"csrf": board.token(LABELS)}
    assert board.submit(LABELS, {**form, "text": "label,name\nL000,First"}).status_code == 303
    assert board.submit(LABELS, form).status_code == 422
    assert len(service.services.labels.notes(SYSTEM)) == 1
    assert "of 1 label are removed" in board.get(f"{LABELS}/remove").text
    assert board.submit(f"{LABELS}/remove", form).status_code == 303
    assert service.services.labels.notes(SYSTEM) == []
