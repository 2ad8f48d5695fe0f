"""What checked predictions stand for."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.evidence import Cell, confident
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import InView, standing
from setwise.service.services.analysis.accuracy import share

DAY = date(2026, 1, 2)


def cell(
    reason: Reason,
    documents: int,
    *,
    reviewer_agreed: bool | None = None,
    outcome_agreed: bool | None = None,
    chance: float | None = 1.0,
    shown: bool | None = None,
    reread: bool | None = None,
    in_rest: bool = False,
) -> Cell:
    return Cell(
        DAY,
        Decision.REVIEW,
        reason,
        chance,
        in_rest,
        reviewer_agreed,
        outcome_agreed,
        reread,
        None,
        shown,
        documents,
        0.9 * documents,
    )


SENT, AUDIT, READ = Reason.ABOVE_THRESHOLD, Reason.AUDIT, Reason.BELOW_THRESHOLD


def test_an_audit_stands_for_all_that_might_have_been_drawn() -> None:
    cells = [
        cell(SENT, 90, chance=0.1),
        cell(AUDIT, 6, reviewer_agreed=True, chance=0.1),
        cell(AUDIT, 4, chance=0.1),  # not read yet
    ]
    known = standing(cells)
    assert known.drawn
    assert [known.of(one) for one in cells] == [0.0, pytest.approx(100 / 6), 0.0]


def test_audits_at_another_rate_are_a_kind_of_their_own() -> None:
    cells = [
        cell(SENT, 95, chance=0.05),
        cell(AUDIT, 5, reviewer_agreed=True, chance=0.05),
        cell(SENT, 50, chance=0.5),
        cell(AUDIT, 50, reviewer_agreed=False, chance=0.5),
    ]
    known = standing(cells)
    assert [known.of(one) for one in cells] == [0.0, 20.0, 0.0, 2.0]


def test_confident_ones_from_before_there_were_audits_are_spread_over_those_with_audits() -> None:
    cells = [cell(SENT, 100, chance=None), cell(AUDIT, 10, reviewer_agreed=True, chance=0.1)]
    assert standing(cells).of(cells[1]) == 11.0


def test_what_people_read_anyway_stands_for_what_waits() -> None:
    cells = [
        cell(READ, 30, reviewer_agreed=True),
        cell(READ, 10, reviewer_agreed=False),
        cell(READ, 40),
    ]
    known = standing(cells)
    assert [known.of(one) for one in cells] == [2.0, 2.0, 0.0]


def test_reports_on_sent_documents_count_only_while_there_is_no_audit() -> None:
    reported_cell = cell(SENT, 10, outcome_agreed=False, chance=0.1)
    without = [reported_cell, cell(SENT, 30, chance=0.1)]
    known = standing(without)
    assert (known.drawn, known.of(reported_cell)) == (False, 4.0)
    with_audit = [*without, cell(AUDIT, 2, reviewer_agreed=True, chance=0.1)]
    known = standing(with_audit)
    assert (known.drawn, known.of(reported_cell), known.of(with_audit[-1])) == (True, 0.0, 21.0)


def test_of_confident_ones_that_nobody_checked_nothing_is_known() -> None:
    cells = [cell(SENT, 10, chance=0.0), cell(READ, 5, reviewer_agreed=True)]
    known = standing(cells)
    assert known.unseen == 10
    assert [known.hides(one) for one in cells] == [True, False]


def test_an_outcome_is_believed_before_a_person() -> None:
    assert cell(READ, 1, reviewer_agreed=True, outcome_agreed=False).right is False
    assert cell(READ, 1, reviewer_agreed=True).right is True
    assert cell(READ, 1).right is None


cells = st.builds(
    cell,
    st.sampled_from([SENT, AUDIT, READ, Reason.RULE]),
    st.integers(1, 50),
    reviewer_agreed=st.sampled_from([None, True, False]),
    outcome_agreed=st.sampled_from([None, True, False]),
    chance=st.sampled_from([None, 0.05, 0.2, 1.0]),
)


@given(st.lists(cells, max_size=12))
def test_weights_add_up_to_all_of_which_something_is_known(found: list[Cell]) -> None:
    known = standing(found)
    for sure in (True, False):
        inside = [one for one in found if confident(one) is sure]
        weights = sum(one.documents * known.of(one) for one in inside)
        everyone = sum(one.documents for one in inside)
        assert weights == pytest.approx(everyone) or weights == 0.0
        assert (weights == 0.0) == all(known.of(one) == 0.0 for one in inside)


def seen(documents: int, *, agreed: bool, reread: bool | None = None) -> Cell:
    """Return documents read with the suggestion in view."""
    return cell(READ, documents, reviewer_agreed=agreed, shown=True, reread=reread)


def test_an_agreement_in_view_that_was_read_again_stands_for_the_others() -> None:
    cells = [
        seen(160, agreed=True, reread=False),
        seen(30, agreed=True, reread=True),
        seen(10, agreed=False, reread=True),
        seen(50, agreed=False),
    ]
    known = standing(cells)
    assert known.in_view is InView.REPEATED
    assert [known.of(each) for each in cells] == [0.0, 5.0, 5.0, 1.0]


def test_answers_in_view_do_not_count_beside_enough_blind_ones() -> None:
    cells = [
        seen(60, agreed=True, reread=False),
        seen(20, agreed=True, reread=True),
        cell(READ, 40, reviewer_agreed=True, shown=False),
    ]
    known = standing(cells)
    assert known.in_view is InView.IGNORED
    assert [known.of(each) for each in cells] == [0.0, 0.0, 3.0]


def test_without_blind_readings_answers_in_view_count_and_bound_nothing() -> None:
    cells = [seen(990, agreed=True, reread=False), seen(10, agreed=False)]
    accuracy = share(cells, 0.1)
    assert (accuracy.value, accuracy.low, accuracy.in_view) == (0.99, 0.0, 990)
    assert accuracy.high is not None
    assert accuracy.high < 1.0
    assert "overlap rate" in accuracy.correction
