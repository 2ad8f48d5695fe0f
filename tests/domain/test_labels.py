"""What people may give beyond the labels of the model, and what a lead may decide on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain import labels as catalogue
from setwise.service.domain.errors import InvalidRequest, SimilarLabels
from setwise.service.domain.labels import (
    UNNAMED,
    Additions,
    Catalogue,
    CatalogueLabel,
    LabelChange,
    LabelSet,
    LabelState,
    MissingLabels,
    check_change,
    folded,
    shown_set,
    stands_for,
)
from setwise.spelling import spelled

MODEL = ("J18.9", "R50.9")
PROPOSED = CatalogueLabel("J12.82", state=LabelState.PROPOSED, version=1)
RETIRED = CatalogueLabel("old", state=LabelState.RETIRED, version=2)
MERGED = CatalogueLabel("J1282", state=LabelState.MERGED, merged_into="J12.82", version=2)
CATALOGUE = Catalogue(MODEL, [PROPOSED, RETIRED, MERGED])


def test_a_set_may_have_labels_that_the_model_lacks() -> None:
    resolved = CATALOGUE.resolve(["J12.82", "R50.9", UNNAMED, "J18.9"])
    assert resolved.labels == ("J18.9", "R50.9", "J12.82", UNNAMED)
    assert resolved.proposed == ()


def test_a_label_that_was_merged_reads_as_the_one_that_stands_for_it() -> None:
    assert CATALOGUE.resolve(["J1282"]).labels == ("J12.82",)


def test_a_label_marked_as_new_is_proposed() -> None:
    resolved = CATALOGUE.resolve(["U09.9", "J18.9"], Additions(new_labels=["U09.9"]))
    assert resolved == (("J18.9", "U09.9"), ("U09.9",))


@pytest.mark.parametrize(
    ("labels", "additions", "pointer", "reason"),
    [
        (["J18,9"], Additions(), "/labels/0", "is `J18.9` meant?"),
        (["zebra"], Additions(), "/labels/0", "not a label of the model or the catalogue"),
        (["old"], Additions(), "/labels/0", "is retired"),
        (["old"], Additions(["old"]), "/labels/0", "is retired"),
        (["J18.9", "J18.9"], Additions(), "/labels/1", "given twice"),
        (["J1282", "J12.82"], Additions(), "/labels/1", "given twice"),
        (["x" * 501], Additions(["x" * 501]), "/labels/0", "501 characters"),
        (["a\x00"], Additions(["a\x00"]), "/labels/0", "U+0000"),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused(
    labels: list[str], additions: Additions, pointer: str, reason: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        CATALOGUE.resolve(labels, additions)
    (fault,) = error.value.faults
    assert fault.pointer == pointer
    assert reason in fault.detail


@pytest.mark.parametrize(
    ("labels", "additions", "pointer"),
    [
        ([""], Additions(), "/labels/0"),
        ([" "], Additions(label_missing=True), "/labels/0"),
        (["a"], Additions(["b"]), "/new_labels/0"),
    ],
)
def test_what_is_said_of_a_set_fits_the_set(
    labels: list[str], additions: Additions, pointer: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        additions.given(labels)
    assert [fault.pointer for fault in error.value.faults] == [pointer]


@pytest.mark.parametrize("new", ["j12.82", "J12. 82", "J12.82-", "J\u030712.82"])
def test_a_near_duplicate_is_named_unless_the_person_insists(new: str) -> None:
    with pytest.raises(SimilarLabels) as error:
        CATALOGUE.resolve([new], Additions([new]))
    assert error.value.similar == ("J12.82",)
    assert CATALOGUE.resolve([new], Additions([new], insist=True)).proposed == (new,)


@given(st.text())
def test_near_duplicates_share_what_folding_leaves(name: str) -> None:
    for variant in (name.upper(), name.lower(), f" {name}-", name.replace(" ", "_"), spelled(name)):
        if variant.casefold() == name.casefold():
            assert folded(variant) == folded(name)
    assert folded(folded(name)) == folded(name)


def test_a_label_without_a_name_is_shown_beside_the_set() -> None:
    assert shown_set(Additions(label_missing=True).given(["J18.9"])) == LabelSet(("J18.9",), True)
    assert shown_set(()) == LabelSet((), False)


@pytest.mark.parametrize(
    ("stored", "change", "target", "pointers"),
    [
        (PROPOSED, LabelChange(LabelState.ACCEPTED), None, []),
        (PROPOSED, LabelChange(LabelState.RETIRED), None, []),
        (PROPOSED, LabelChange(LabelState.ACCEPTED, "J12.8"), None, []),
        (PROPOSED, LabelChange(LabelState.ACCEPTED, "R50.9"), CatalogueLabel("R50.9"), ["/label"]),
        (PROPOSED, LabelChange(LabelState.ACCEPTED, " "), None, ["/label"]),
        (PROPOSED, LabelChange(LabelState.MERGED), None, ["/merged_into"]),
        (
            PROPOSED,
            LabelChange(LabelState.MERGED, None, "R50.9"),
            CatalogueLabel("R50.9", in_model=True),
            [],
        ),
        (PROPOSED, LabelChange(LabelState.MERGED, None, "no"), None, ["/merged_into"]),
        (PROPOSED, LabelChange(LabelState.MERGED, None, "J12.82"), PROPOSED, ["/merged_into"]),
        (PROPOSED, LabelChange(LabelState.MERGED, None, "old"), RETIRED, ["/merged_into"]),
        (PROPOSED, LabelChange(LabelState.MERGED, "x", "R50.9"), PROPOSED, ["/label"]),
        (PROPOSED, LabelChange(LabelState.ACCEPTED, None, "R50.9"), None, ["/merged_into"]),
        (MERGED, LabelChange(LabelState.ACCEPTED), None, ["/state"]),
        (CatalogueLabel("R50.9", in_model=True), LabelChange(LabelState.RETIRED), None, []),
        (
            CatalogueLabel("R50.9", in_model=True),
            LabelChange(LabelState.ACCEPTED, "fever"),
            None,
            ["/label"],
        ),
    ],
)
def test_a_change_that_contradicts_itself_is_refused(
    stored: CatalogueLabel,
    change: LabelChange,
    target: CatalogueLabel | None,
    pointers: list[str],
) -> None:
    faults: list[str] = []
    try:
        check_change(stored, change, target=target, predicted=False)
    except InvalidRequest as refusal:
        faults = [fault.pointer for fault in refusal.faults]
    assert faults == pointers


def test_a_label_that_a_model_predicted_keeps_its_name() -> None:
    change = LabelChange(LabelState.MERGED, None, "R50.9")
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        check_change(PROPOSED, change, target=CatalogueLabel("R50.9"), predicted=True)


def test_what_was_merged_into_a_label_follows_it() -> None:
    below = CatalogueLabel("J12.820", parent="J12.82", version=1)
    after = {each.label: each for each in stands_for([PROPOSED, MERGED, below], "J12.82", "J12")}
    assert after["J12.82"].merged_into == after["J1282"].merged_into == "J12"
    assert after["J12.820"].parent == "J12"


def test_a_label_that_stands_for_one_above_it_takes_its_place_in_the_tree() -> None:
    tree = [
        CatalogueLabel("J"),
        CatalogueLabel("J12", parent="J"),
        CatalogueLabel("J12.8", parent="J12"),
        CatalogueLabel("J12.82", parent="J12.8"),
    ]
    after = {each.label: each for each in stands_for(tree, "J12", "J12.82")}
    assert (after["J12.82"].parent, after["J12.8"].parent) == ("J", "J12.82")


def test_one_line_says_what_missing_labels_cost() -> None:
    assert MissingLabels().sentence() == ""
    many = MissingLabels(3, 100, {"b": 1, "a": 1, UNNAMED: 2, "c": 1})
    assert many.sentence() == (
        "3 checked documents (3.0 %) have labels that the model lacks: without a name (2), a (1), "
        "b (1) …; they can never be sent right. Retrain."
    )
    assert MissingLabels(1, 8, {"a": 1}).sentence().startswith("1 checked document (12.5 %) has ")


def test_each_name_is_folded_once_for_many_new_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    monkeypatch.setattr(catalogue, "folded", lambda name: names.append(name) or name)
    known = [f"known {place}" for place in range(500)]
    new = [f"new {place}" for place in range(100)]
    resolved = Catalogue(known, []).resolve(new, Additions(new_labels=new))
    assert resolved.proposed == tuple(new)
    assert len(names) <= len(known) + len(new)
