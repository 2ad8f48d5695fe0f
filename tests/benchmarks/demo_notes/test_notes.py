"""The generated notes: reproducible, consistent, readable and hard enough."""

import re
from collections import Counter
from itertools import islice
from math import sqrt
from random import Random

import pytest

from benchmarks.demo_notes import ANNOTATORS, CODES, annotate, generate_notes
from benchmarks.demo_notes.catalogue import BY_LABEL, EXCLUSIVE
from setwise.models.demo_notes import Note

pytestmark = pytest.mark.verify

N_NOTES = 3000


@pytest.fixture(scope="module")
def notes() -> list[Note]:
    return list(generate_notes(N_NOTES, seed=20))


def test_equal_seeds_give_equal_streams_and_other_seeds_do_not() -> None:
    stream = list(generate_notes(50, seed=4))
    assert list(generate_notes(50, seed=4)) == stream
    assert {n.text for n in generate_notes(50, seed=5)}.isdisjoint(n.text for n in stream)


def test_a_note_depends_on_seed_and_place_alone() -> None:
    assert list(generate_notes(5, seed=4, start=40)) == list(generate_notes(45, seed=4))[40:]


def test_notes_come_one_by_one() -> None:
    assert len(list(islice(generate_notes(10**12, seed=1), 3))) == 3


def test_a_patient_too_young_for_any_further_code_has_a_note_too() -> None:
    (note,) = generate_notes(1, seed=77, start=365)
    assert note.text


@pytest.mark.parametrize(("n", "start"), [(-1, 0), (1, -1)])
def test_negative_counts_are_refused(n: int, start: int) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        generate_notes(n, seed=1, start=start)


def test_no_note_carries_codes_that_exclude_each_other(notes: list[Note]) -> None:
    for note in notes:
        ids = {BY_LABEL[label].id for label in note.labels}
        assert len(ids) == len(note.labels)
        assert all(len(ids & group) <= 1 for group in EXCLUSIVE)


def test_codes_that_need_another_have_it(notes: list[Note]) -> None:
    for note in notes:
        codes = [BY_LABEL[label] for label in note.labels]
        ids = {code.id for code in codes}
        assert all(ids.intersection(code.requires) for code in codes if code.requires)


def test_codes_come_together_far_more_often_than_by_chance(notes: list[Note]) -> None:
    ids = [{BY_LABEL[label].id for label in note.labels} for note in notes]

    def lift(first: str, second: str) -> float:
        both = sum(first in s and second in s for s in ids)
        return both * len(ids) / (sum(first in s for s in ids) * sum(second in s for s in ids))

    assert lift("END-11", "END-14") > 3
    assert lift("RES-14", "RES-30") > 3
    assert lift("INJ-60", "INJ-10") > 3


def test_most_notes_carry_one_to_four_codes_some_five_to_eight_none_nothing(
    notes: list[Note],
) -> None:
    sizes = Counter(len(note.labels) for note in notes)
    assert set(sizes) == set(range(1, 9))
    assert 0.80 < sum(sizes[k] for k in range(1, 5)) / N_NOTES < 0.93
    assert max(sizes[k] for k in range(1, 9)) < 0.35 * N_NOTES


def test_every_code_occurs_often_enough_to_be_learnt(notes: list[Note]) -> None:
    counts = Counter(label for note in notes for label in note.labels)
    assert min(counts[code.label] for code in CODES) >= 8
    assert max(counts.values()) < 0.3 * N_NOTES


def test_negated_names_stand_in_notes_without_the_code(notes: list[Note]) -> None:
    negation = re.compile(
        r"no (?:evidence|sign) of (?:community-acquired|lobar|bacterial) pneumonia"
    )
    hits = [note for note in notes if negation.search(note.text.lower())]
    assert hits
    assert not any("RES-14" in label for note in hits for label in note.labels)
    # All in all about a third of the notes rule something out.
    ruled_out = re.compile(r"no evidence of|no sign of|nothing to suggest|excluded|unlikely")
    assert 0.15 < sum(bool(ruled_out.search(note.text.lower())) for note in notes) / N_NOTES < 0.5


def test_relatives_are_ill_of_what_the_patient_has_not(notes: list[Note]) -> None:
    family = re.compile(r"(?:mother|father|brother|sister)(?: had)? (?:t2dm|type 2 diabetes)")
    hits = [note for note in notes if family.search(note.text.lower())]
    assert hits
    assert not any("END-11" in label for note in hits for label in note.labels)


def test_some_notes_cannot_be_decided(notes: list[Note]) -> None:
    """The same vague words stand for codes that exclude each other."""
    told = {
        "smoking history": ("PSY-30", "PSY-31"),
        "knee oa": ("MSK-10", "MSK-13"),
    }
    for words, codes in told.items():
        ids = {
            BY_LABEL[label].id
            for note in notes
            if words in note.text.lower()
            for label in note.labels
        }
        assert ids.issuperset(codes), words


def test_authors_slip_yet_stay_readable(notes: list[Note]) -> None:
    by_author = {note.metadata["author"] for note in notes}
    assert len(by_author) >= 10
    sloppy = [n for n in notes if n.metadata["author"] == "mjp"]
    assert all(note.text == note.text.lower() for note in sloppy)
    counts = Counter(word for n in notes for word in re.findall(r"[a-z]{5,}", n.text.lower()))
    rare = sum(sum(counts[w] == 1 for w in re.findall(r"[a-z]{5,}", n.text)) for n in sloppy)
    words = sum(len(re.findall(r"[a-z]{5,}", n.text)) for n in sloppy)
    assert 0.005 < rare / words < 0.05


def test_texts_are_printable_filled_in_and_distinct(notes: list[Note]) -> None:
    for note in notes:
        assert note.text.replace("\n", "").isprintable()
        assert note.text == note.text.strip()
        assert not re.search(r"[\[\]{}|]|NAME|  |\.\.|,,| \.| ,", note.text), note.text
        assert 20 <= len(note.text) <= 2500
    assert len({note.text for note in notes}) == N_NOTES
    assert len({note.id for note in notes}) == N_NOTES


def test_metadata_tells_where_a_note_comes_from(notes: list[Note]) -> None:
    assert {key for note in notes for key in note.metadata} == {
        "site",
        "department",
        "note_type",
        "author",
    }
    assert len({note.metadata["site"] for note in notes}) >= 3
    assert len({note.metadata["note_type"] for note in notes}) >= 5


@pytest.mark.parametrize("annotator", ANNOTATORS, ids=lambda a: a.name)
def test_annotators_err_as_often_as_they_say(annotator, notes: list[Note]) -> None:
    rng = Random(9)
    wrong = sum(set(annotate(note.labels, annotator, rng)) != set(note.labels) for note in notes)
    rate = annotator.set_error_rate
    # Four standard errors, and a tenth of the rate for its tuning on another stream.
    slack = 4 * sqrt(rate * (1 - rate) / N_NOTES) + 0.1 * rate
    assert abs(wrong / N_NOTES - rate) < slack


def test_annotators_mostly_miss_codes(notes: list[Note]) -> None:
    rng = Random(9)
    count = added_count = confused_count = 0
    for note in notes:
        if len(note.labels) == 1:
            continue
        given, true = set(annotate(note.labels, ANNOTATORS[2], rng)), set(note.labels)
        lost_count, gained_count = len(true - given), len(given - true)
        confused_count += min(lost_count, gained_count)
        count += max(lost_count - gained_count, 0)
        added_count += max(gained_count - lost_count, 0)
    assert count > 3 * confused_count > 3 * added_count > 0


def test_annotators_answer_with_distinct_known_labels(notes: list[Note]) -> None:
    rng = Random(9)
    for note in notes[:500]:
        given = annotate(note.labels, ANNOTATORS[2], rng)
        assert given
        assert len(set(given)) == len(given)
        assert BY_LABEL.keys() >= set(given)
