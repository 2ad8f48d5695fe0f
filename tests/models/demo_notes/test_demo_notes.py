"""The file of generated notes: complete, readable, and as the generator writes it."""

import json
from collections import Counter
from math import sqrt

import pytest

from benchmarks.demo_notes import __main__ as writer
from benchmarks.demo_notes import generate_notes
from benchmarks.demo_notes.annotators import ANNOTATORS as SKILLS
from setwise.models.data.dataset_files import read_dataset
from setwise.models.demo_notes import ANNOTATORS, read_notes, write_jsonl

NOTES = read_notes()


def test_notes_are_those_of_the_generator_in_its_order() -> None:
    for start in range(0, len(NOTES), 250):
        assert NOTES[start : start + 2] == tuple(
            generate_notes(2, seed=writer.SEED, start=start)
        ), start


@pytest.mark.verify
def test_the_generator_writes_the_same_file_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(writer, "NOTES", tmp_path / "notes.jsonl.gz")
    writer.write_file()
    monkeypatch.setattr("setwise.models.demo_notes.NOTES", writer.NOTES)
    assert read_notes.__wrapped__() == NOTES
    assert len(NOTES) == writer.N_NOTES


def test_every_note_has_an_id_a_text_and_labels_of_its_own() -> None:
    assert len({note.id for note in NOTES}) == len({note.text for note in NOTES}) == len(NOTES)
    for note in NOTES:
        assert 0 < len(set(note.labels)) == len(note.labels)
        assert note.metadata.keys() == {"site", "department", "note_type", "author"}


def test_every_label_occurs_often_enough_to_be_learnt() -> None:
    counts = Counter(label for note in NOTES[:4000] for label in note.labels)
    assert counts.keys() == {label for note in NOTES for label in note.labels}
    assert min(counts.values()) >= 8


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_annotators_err_as_often_as_they_should(skill) -> None:
    assert ANNOTATORS[skill.name] == skill.group
    rate = skill.set_error_rate
    wrong = sum(set(note.answers[skill.name]) != set(note.labels) for note in NOTES)
    # Four standard errors, and a tenth of the rate for its tuning on another stream.
    slack = 4 * sqrt(rate * (1 - rate) / len(NOTES)) + 0.1 * rate
    assert abs(wrong / len(NOTES) - rate) < slack
    assert all(note.answers[skill.name] for note in NOTES)


def test_written_notes_can_be_read_as_a_dataset(tmp_path) -> None:
    path = tmp_path / "notes.jsonl"
    assert write_jsonl(NOTES[:300], path) == 300
    dataset = read_dataset(path)
    assert dataset.ids == tuple(note.id for note in NOTES[:300])
    assert dataset.texts == tuple(note.text for note in NOTES[:300])
    assert dataset.Y.sum() == sum(len(note.labels) for note in NOTES[:300])
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first.keys() == {"id", "text", "labels", "metadata"}
