"""Documents that can be scored and stored, and those that cannot."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.limits import MOST_SET_LABELS, MOST_SETS
from setwise.service.domain.predictions import (
    LONGEST_DOCUMENT_ID,
    MOST_METADATA_BYTES,
    MOST_SCORES,
    Document,
)
from tests.fakes import scored_set


def pointers(document: Document) -> list[str]:
    return [fault.pointer for fault in document.faults()]


@pytest.mark.parametrize(
    "document",
    [
        Document(text="fever"),
        Document(id="note-17", text="fever", metadata={"ward": {"floor": 3, "beds": [1, None]}}),
        Document(features={"bp": 1.5, "": 0.0, "a/b": -1e300}),
        Document(text="  נפיחות 🤒 \t\x07 \u202e"),
        Document(id="é" * LONGEST_DOCUMENT_ID, text="x"),
        Document(answer={"scores": {"a": 0, "b": 1.0}}),
        Document(text="wheat", answer={"labels": []}),
        Document(answer={"scores": {"a": 0.5}, "labels": ["a"]}),
        Document(features={"bp": 1.5}, answer={"candidates": [{"labels": ["a"], "score": -1e9}]}),
        Document(answer={"candidates": [{"labels": []}, {"labels": ["a", "b"], "score": None}]}),
        Document(answer={"scores": {str(i): 0.1 for i in range(MOST_SCORES)}}),
    ],
)
def test_a_sound_document_has_no_faults(document: Document) -> None:
    assert pointers(document) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Document(), ["/document"]),
        (Document(text="fever", features={"bp": 1.0}), ["/document"]),
        (Document(text=""), ["/document/text"]),
        (Document(text=" \n\t"), ["/document/text"]),
        (Document(text="a\x00b"), ["/document/text"]),
        (Document(text="half \ud83d of a pair"), ["/document/text"]),
        (Document(features={}), ["/document/features"]),
        (Document(features={"bp": math.nan}), ["/document/features/bp"]),
        (Document(features={"a/b~c": math.inf}), ["/document/features/a~1b~0c"]),
        (Document(features={"b\x00p": 1.0}), ["/document/features"]),
        (Document(id="", text="x"), ["/document/id"]),
        (Document(id="i" * (LONGEST_DOCUMENT_ID + 1), text="x"), ["/document/id"]),
        (Document(id="a\x00", text="x"), ["/document/id"]),
        (Document(text="x", metadata={"a": [1, {"b": math.nan}]}), ["/document/metadata/a/1/b"]),
        (Document(text="x", metadata={"a": "\x00"}), ["/document/metadata/a"]),
        (Document(text="x", metadata={"a": {"\ud800": 1}}), ["/document/metadata/a"]),
        (Document(text="x", metadata={"a": "m" * MOST_METADATA_BYTES}), ["/document/metadata"]),
        (Document(answer={"scores": {}}), ["/document/scores"]),
        (Document(answer={"scores": {"": 0.5}}), ["/document/scores"]),
        (Document(answer={"scores": {"a ": 0.5}}), ["/document/scores/a "]),
        (Document(answer={"labels": ["a", ""]}), ["/document/labels/1"]),
        (Document(answer={"scores": {"a/b": 1.01}}), ["/document/scores/a~1b"]),
        (Document(answer={"scores": {"a": -1e-9}}), ["/document/scores/a"]),
        (Document(answer={"scores": {"a": math.nan}}), ["/document/scores/a"]),
        (Document(answer={"scores": {"a\x00": 0.5}}), ["/document/scores"]),
        (
            Document(answer={"scores": {str(i): 0.1 for i in range(MOST_SCORES + 1)}}),
            ["/document/scores"],
        ),
        (Document(answer={"labels": ["a", "b", "a"]}), ["/document/labels/2"]),
        (Document(answer={"labels": ["\ud800"]}), ["/document/labels/0"]),
        (
            Document(answer={"labels": list(map(str, range(MOST_SET_LABELS + 1)))}),
            ["/document/labels"],
        ),
        (
            Document(answer={"labels": ["a"], "candidates": [{"labels": []}]}),
            ["/document/candidates"],
        ),
        (Document(answer={"candidates": []}), ["/document/candidates"]),
        (
            Document(answer={"candidates": [{"labels": []}] * (MOST_SETS + 1)}),
            ["/document/candidates"],
        ),
        (
            Document(
                answer={"candidates": [{"labels": ["a", "a"]}, {"labels": [], "score": -math.inf}]}
            ),
            ["/document/candidates/0/labels/1", "/document/candidates/1/score"],
        ),
        (
            Document(id="", text="", metadata={"a": math.inf}),
            ["/document/id", "/document/text", "/document/metadata/a"],
        ),
    ],
)
def test_every_fault_is_named_with_its_place(document: Document, expected: list[str]) -> None:
    assert pointers(document) == expected


def test_endless_nesting_is_refused_before_it_exhausts_a_stack() -> None:
    nested: object = 1
    for _ in range(100_000):
        nested = [nested]
    (fault,) = Document(text="x", metadata={"a": nested}).faults()
    assert fault.detail == "is nested deeper than 20 levels"


def test_faults_point_into_the_body_that_the_document_came_in() -> None:
    (fault,) = Document(text="").faults("/documents/7")
    assert fault.pointer == "/documents/7/text"


@given(st.text(st.characters(exclude_categories=())))
def test_text_is_refused_exactly_when_it_is_blank_or_cannot_be_kept(text: str) -> None:
    kept = bool(text.strip()) and "\x00" not in text and _encodes(text)
    assert (pointers(Document(text=text)) == []) == kept


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_the_first_candidate_is_the_prediction() -> None:
    score = scored_set(0.625, labels=("c", "d"))
    assert (score.labels, score.confidence) == (("c", "d"), 0.625)
