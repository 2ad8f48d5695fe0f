"""The data files of the generated notes name only what exists."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from benchmarks.demo_notes.catalogue import CHAPTERS, CODES, EXCLUSIVE, read_toml, siblings
from benchmarks.demo_notes.charts import SECTIONS, WORDING
from benchmarks.demo_notes.phrases import say
from benchmarks.demo_notes.writing import AUTHORS, FORMS, Part

pytestmark = pytest.mark.verify

IDS = {code.id for code in CODES}
PHRASES = ("names", "short", "vague", "presenting", "denied", "findings", "tests", "treatment",
           "medicines")  # fmt: skip
PART_SLOTS = {"age", "sex", "he", "his", "him", "patient", *SECTIONS}


def phrases_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from phrases_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from phrases_in(inner)


def test_the_catalogue_is_a_hierarchy_of_unique_codes() -> None:
    assert len(CODES) >= 60
    assert len(IDS) == len({code.label for code in CODES}) == len(CODES)
    assert len({code.title for code in CODES}) == len(CODES)
    assert all(code.chapter == chapter.id for chapter in CHAPTERS for code in chapter.codes)
    assert len({(code.chapter, code.group) for code in CODES}) >= 2 * len(CHAPTERS)


def test_relations_of_the_catalogue_name_codes_that_exist_and_agree() -> None:
    for code in CODES:
        assert IDS.issuperset(code.company)
        assert IDS.issuperset(code.requires)
        assert siblings(code.id).isdisjoint(code.requires)
        assert code.id not in code.company
    assert all(IDS.issuperset(group) and len(group) > 1 for group in EXCLUSIVE)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.id)
def test_the_fields_of_a_code_have_the_right_types_and_ranges(code) -> None:
    assert re.fullmatch(r"[A-Z]{3}-\d\d", code.id)
    assert code.care in {"home", "any", "hospital"}
    youngest, oldest = code.ages
    assert 0 <= youngest < oldest <= 120
    assert min(code.weight, code.background) >= 0
    assert code.weight + code.background > 0
    assert all(weight > 0 for weight in code.company.values())
    assert isinstance(code.social, bool)
    for kind in PHRASES:
        assert isinstance(getattr(code, kind), (list, tuple)), kind
    assert code.names
    assert all(": " in test for test in code.tests)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.id)
def test_every_phrase_of_a_code_can_be_filled_in(code) -> None:
    for kind in PHRASES:
        for phrase in getattr(code, kind):
            for register in ("terse", "full"):
                assert not re.search(r"[\[\]{}|]", say(phrase, Random(1), register)), phrase


def test_every_phrase_that_belongs_to_no_code_can_be_filled_in() -> None:
    for phrase in phrases_in({**WORDING, "patient": {}}):
        assert not re.search(r"[\[\]{}|]", say(phrase, Random(1), "terse")), phrase


def test_codes_named_by_the_wording_exist() -> None:
    assert IDS.issuperset(WORDING["heritable"])
    assert IDS.issuperset(WORDING["memorable"])
    assert IDS.issuperset(WORDING["social"]["denies"].values())
    assert {chapter.id for chapter in CHAPTERS}.issuperset(WORDING["normal"])


@pytest.mark.parametrize("name", FORMS)
def test_the_parts_of_a_form_name_sections_paragraphs_and_slots_that_exist(name: str) -> None:
    form = FORMS[name]
    assert form.register in {"terse", "full"}
    assert {"home", "any", "hospital"}.issuperset(form.care)
    known = set(PART_SLOTS)
    for part in form.parts:
        assert part.kind in Part.__annotations__["kind"].__args__
        assert set(SECTIONS).issuperset(part.of)
        assert not part.joins or part.joins in SECTIONS
        assert part.layout in {"", "lines", "running"}
        assert part.paragraph in (form.paragraphs or {"story"})
        assert 0 <= part.chance <= 1
        assert 0 <= part.extra_chance <= 1
        assert bool(part.extra) == bool(part.extra_chance)
        if part.none:
            assert part.none.keys() == {"unless", "words"}
            assert part.none["unless"] in SECTIONS
        for phrase in phrases_in([part.words, part.otherwise, part.extra, part.none or {}]):
            for slot in re.findall(r"\{([A-Za-z_]+)\}", phrase):
                assert slot.lower() in known | {"days", "weeks", "months", "year"}, phrase
            # A patient is described only where a phrase is chosen from several.
            assert "{patient}" not in phrase or not isinstance(part.words, str)
        known.add(part.name)


def test_authors_use_forms_that_exist() -> None:
    assert {author.form for author in AUTHORS} == set(FORMS)
    for author in AUTHORS:
        assert author.layout in {"lines", "running"}
        assert 0 <= author.short_rate <= 1
        assert 0 <= author.slip_rate <= 1
        assert author.share > 0
    assert len({author.initials for author in AUTHORS}) == len(AUTHORS)


def test_data_files_have_no_keys_that_are_not_read() -> None:
    assert read_toml("people.toml").keys() == {"authors", "annotators"}
    assert WORDING.keys() == {
        "relatives", "innocent_medicines", "heritable", "memorable", "mentions", "normal", "past",
        "social", "patient", "tests", "body_parts",
    }  # fmt: skip
