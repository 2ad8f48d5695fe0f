"""Figures of errors: whom a rate describes."""

from setwise.models.guarantees.noise import estimate_noise
from setwise.service.domain.annotators import AnnotatorGroup
from setwise.service.pages.figures.errors import noise
from setwise.service.services.analysis.noise import GroupReport
from tests.fakes import START


def reports(**answers: int) -> list[GroupReport]:
    """Return groups with so many answers about right sets, and as many about wrong ones."""
    groups = [name for name, n in answers.items() for _ in range(2 * n)]
    right = [place % 2 == 0 for place in range(len(groups))]
    found_groups = estimate_noise(groups, groups, right, right).groups
    return [
        GroupReport(
            AnnotatorGroup(name, name.title(), None, 1, START, "ann"),
            found_groups[name],
            found_groups[name].findings,
        )
        for name in answers
    ]


def test_a_pooled_rate_is_shown_once_as_that_of_all_its_groups() -> None:
    figure = noise(reports(coders=200, nurses=4, students=3))
    assert [(row[0], row[1], row[5]) for row in figure.rows] == [
        ("Coders", "alpha", 200),
        ("Coders", "beta", 200),
        ("Nurses and Students", "alpha", 7),
        ("Nurses and Students", "beta", 7),
    ]
    assert "each of Nurses and Students, so their rates are of all of them together" in figure.says


def test_a_rate_of_one_group_is_its_own() -> None:
    figure = noise(reports(coders=200))
    assert {row[0] for row in figure.rows} == {"Coders"}
    assert "together" not in figure.says
