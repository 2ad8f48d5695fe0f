"""The tree of labels: which parents can be asked for, and how near a wrong set is."""

import pytest

from setwise.service.domain.labels import UNNAMED, CatalogueLabel, LabelState
from setwise.service.domain.labels.tree import nearest_parents, wrong_sets

HEADING = CatalogueLabel("J")
BLOCK = CatalogueLabel("J18", parent="J")
LEAF = CatalogueLabel("J18.9", parent="J18")


def of_model(label: CatalogueLabel) -> CatalogueLabel:
    return CatalogueLabel(label.label, parent=label.parent, in_model=True)


@pytest.mark.parametrize(
    ("labels", "needed"),
    [
        ([HEADING, BLOCK, LEAF], {"J18": "J", "J18.9": "J18"}),
        ([HEADING, of_model(BLOCK), of_model(LEAF)], {"J18.9": "J18"}),
        ([of_model(HEADING), BLOCK, of_model(LEAF)], {"J18": "J", "J18.9": "J"}),
        ([HEADING, BLOCK, of_model(LEAF)], {}),
        (
            [HEADING, CatalogueLabel("J18", parent="J", state=LabelState.RETIRED), LEAF],
            {"J18": "J", "J18.9": "J"},
        ),
        ([CatalogueLabel("a", parent="b"), CatalogueLabel("b", parent="a")], {"a": "b", "b": "a"}),
    ],
    ids=["no model", "headings", "a gap", "a leaf alone", "retired", "a ring"],
)
def test_a_label_needs_the_nearest_one_above_that_can_be_given(
    labels: list[CatalogueLabel], needed: dict[str, str]
) -> None:
    assert nearest_parents(labels) == needed


@pytest.mark.parametrize(
    ("own", "right", "near"),
    [
        (["J18.9"], ["J18", "J18.9"], 1),
        (["J18.9", "I10"], ["J18", "I10"], 1),
        (["J18.9"], ["J18", "I10"], 0),
        (["J18.9"], [], 0),
        (["J18.9"], ["J18.9", UNNAMED], 0),
    ],
)
def test_a_wrong_set_is_near_if_its_top_branches_are_those_of_the_right_one(
    own: list[str], right: list[str], near: int
) -> None:
    parents = {"J18": "J", "J18.9": "J18"}
    assert wrong_sets([(own, right), (right, right)], parents) == (1, near)
    assert wrong_sets([(own, right)], {}) == (1, None)
