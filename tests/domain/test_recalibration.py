"""What is believed of a reviewed prediction, and how far."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.annotators import Rates
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.policy import ThresholdMode, first_policy
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.recalibration import (
    EXACT,
    LEAST_ROWS,
    LEAST_ROWS_WITHOUT_HISTORY,
    NO_RATES,
    NOT_ANSWERED,
    SAME_DOCUMENT,
    TO_CERTIFY,
    UNKNOWN_TO_THE_MODEL,
    WAITS_FOR_A_LEAD,
    BestAnswer,
    LearningRow,
    Lessons,
    Noise,
    answer_of,
    gather,
    shortage,
)
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import AuditPlan, AuditRole, Selection
from setwise.service.domain.routing.segments import ALL, GateState
from setwise.service.domain.truth import Check, check
from tests.fakes import START
from tests.samples import annotation, document_of, outcome, prediction, task

NOISY = Rates(0.2, 0.1)
PLAN = AuditPlan(certification_rate=0.25, training_rate=0.05)
POLICY = replace(first_policy(START), audits=PLAN)


def said(of: Prediction, kind: ReviewKind, *, agreed: bool) -> Annotation:
    labels = of.scored.labels if agreed else ("c",)
    return replace(annotation(task(of), *labels), kind=kind)


def spoken(*kinds: tuple[ReviewKind, bool]) -> Check:
    new_prediction = prediction()
    return known(
        new_prediction, *(said(new_prediction, kind, agreed=agreed) for kind, agreed in kinds)
    )


def known(made: Prediction, *answers: Annotation, outcomes: Sequence[Outcome] = ()) -> Check:
    found_check = check(made.id, answers, outcomes)
    assert found_check is not None
    return found_check


AUDIT, LEAD = ReviewKind.AUDIT, ReviewKind.ADJUDICATION
REVIEW, OVERLAP = ReviewKind.REVIEW, ReviewKind.OVERLAP


def rates_of(answer: BestAnswer | str) -> Rates | str:
    assert isinstance(answer, BestAnswer)
    return answer.rates(lambda *_: NOISY, 0.5)


def test_an_outcome_goes_before_all_and_is_the_truth() -> None:
    new_prediction = prediction()
    late = outcome(new_prediction, "c")
    check = known(new_prediction, said(new_prediction, REVIEW, agreed=True), outcomes=[late])
    answer = answer_of(check, Noise.KNOWN)
    assert answer == BestAnswer(False, "outcome", None)
    assert rates_of(answer) == EXACT


def test_an_auditor_who_agrees_cannot_have_called_a_right_set_wrong() -> None:
    """Every contradiction goes to a lead, so alpha is none; beta stays."""
    answer = answer_of(spoken((AUDIT, True)), Noise.KNOWN)
    assert isinstance(answer, BestAnswer)
    assert (answer.agreed, answer.source) == (True, "audit")
    assert rates_of(answer) == Rates(0.0, NOISY.beta)


@pytest.mark.parametrize("agreed", [True, False])
def test_a_contradiction_is_what_the_lead_says_with_the_auditors_beta(agreed: bool) -> None:
    answer = answer_of(spoken((AUDIT, False), (LEAD, agreed)), Noise.KNOWN)
    assert isinstance(answer, BestAnswer)
    assert answer.agreed is agreed
    assert rates_of(answer) == Rates(0.0, NOISY.beta)


def test_what_was_read_again_whatever_the_auditor_said_is_the_truth() -> None:
    answer = answer_of(spoken((AUDIT, True), (LEAD, False)), Noise.KNOWN)
    assert isinstance(answer, BestAnswer)
    assert answer.agreed is False
    assert rates_of(answer) == EXACT


@pytest.mark.parametrize("noise", list(Noise))
def test_a_contradiction_that_waits_for_a_lead_is_no_answer(noise: Noise) -> None:
    assert answer_of(spoken((AUDIT, False)), noise) == WAITS_FOR_A_LEAD


def test_the_first_reviewer_counts_where_errors_are_corrected_for() -> None:
    check = spoken((REVIEW, False), (OVERLAP, True), (LEAD, True))
    answer = answer_of(check, Noise.ESTIMATED)
    assert isinstance(answer, BestAnswer)
    assert answer.agreed is False
    assert rates_of(answer) == NOISY
    assert answer_of(check, Noise.NONE) == BestAnswer(True, "review", None)


def test_without_an_answer_there_is_none() -> None:
    """Nor where somebody doubted what nobody had drawn."""
    assert answer_of(spoken((ReviewKind.REOPENED, True)), Noise.NONE) == NOT_ANSWERED


def learn(*reviewed: CheckedDocument, noise: Noise = Noise.NONE) -> Lessons:
    policies = {one.policy_version: POLICY for one in reviewed}
    return gather(reviewed, policies, lambda *_: NO_RATES, noise=noise, learnt_until=None)


def reviewed_as(name: str, **fields: object) -> CheckedDocument:
    new_prediction = prediction(document=Document(id=name, text="x"))._replace(**fields)
    return document_of(
        new_prediction, known(new_prediction, said(new_prediction, REVIEW, agreed=True))
    )


def test_each_row_stands_for_the_documents_of_its_kind() -> None:
    ordinary = reviewed_as("1")
    check = reviewed_as("2", selection=Selection(AuditRole.TRAINING, 0.3, 0.3))
    sent_check = reviewed_as("3", decision=Decision.AUTO)
    lessons = learn(ordinary, check, sent_check)
    assert [row.inclusion_probability for row in lessons.rows] == [0.75, 0.05, 1.0]


def test_while_nothing_is_sent_fewer_reviews_are_left_to_learn_from() -> None:
    ramp = replace(POLICY, audits=replace(PLAN, ramp_up_rate=0.6))
    threshold = replace(ramp, threshold_mode=ThresholdMode.FIXED, fixed_threshold=0.9)
    tripped_policy = threshold.with_gate(GateState(ALL, trip_id="t"))
    for policy, share in ((ramp, 0.4), (threshold, 0.75), (tripped_policy, 0.4)):
        one = reviewed_as("1")
        (row,) = gather(
            [one],
            {one.policy_version: policy},
            lambda *_: EXACT,
            noise=Noise.NONE,
            learnt_until=None,
        ).rows
        assert row.inclusion_probability == pytest.approx(share)


def test_what_is_not_learnt_from_is_counted_by_reason() -> None:
    check = reviewed_as("1", selection=Selection(AuditRole.CERTIFICATION, 0.1, 1.0))
    strange = reviewed_as("2", reason=Reason.OUT_OF_DOMAIN)
    newest, older = reviewed_as("3"), reviewed_as("3")
    silent = reviewed_as("4")._replace(check=spoken((ReviewKind.REOPENED, True)))
    lessons = learn(check, strange, newest, older, silent)
    assert [row.document for row in lessons.rows] == [newest]
    counted = {why: count for why, count in lessons.excluded.items() if count}
    assert counted == dict.fromkeys(
        (TO_CERTIFY, UNKNOWN_TO_THE_MODEL, SAME_DOCUMENT, NOT_ANSWERED), 1
    )
    assert learn(newest, noise=Noise.KNOWN).excluded[NO_RATES] == 1


def test_copies_of_a_document_that_proves_the_threshold_teach_nothing() -> None:
    audit = reviewed_as("1", selection=Selection(AuditRole.CERTIFICATION, 0.1, 1.0))
    copy = reviewed_as("1")
    assert learn(copy).rows
    lessons = learn(copy, audit)
    assert lessons.rows == ()
    assert lessons.excluded[TO_CERTIFY] == 2


def test_a_contradiction_that_waits_does_not_vanish_behind_an_older_copy() -> None:
    training = Selection(AuditRole.TRAINING, 0.5, 0.3)
    older, newer = (prediction()._replace(selection=training) for _ in range(2))
    waiting = document_of(newer, known(newer, said(newer, AUDIT, agreed=False)))
    check = document_of(older, known(older, said(older, AUDIT, agreed=True)))
    lessons = learn(waiting, check)
    assert lessons.rows == ()
    assert {why: n for why, n in lessons.excluded.items() if n} == {
        WAITS_FOR_A_LEAD: 1,
        SAME_DOCUMENT: 1,
    }


def test_what_was_said_before_the_present_calibrator_was_learnt_is_known_to_it() -> None:
    early = reviewed_as("1")
    late = early._replace(
        check=replace(early.check, answered_at=early.check.answered_at + timedelta(days=1)),
        name="2",
    )
    lessons = gather(
        [early, late],
        {early.policy_version: POLICY},
        lambda *_: EXACT,
        noise=Noise.NONE,
        learnt_until=START + timedelta(hours=1),
    )
    assert [row.seen_before for row in lessons.rows] == [True, False]


def lessons(right: int, wrong: int) -> Lessons:
    new_prediction = prediction()
    rows = [
        LearningRow(
            new_prediction, BestAnswer(agreed, "review", None), EXACT, 1.0, START, seen_before=False
        )
        for agreed, count in ((True, right), (False, wrong))
        for _ in range(count)
    ]
    return Lessons(tuple(rows), {TO_CERTIFY: 7, NOT_ANSWERED: 0})


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (0, 0, "training_rate in the policy"),
        (LEAST_ROWS - 5, 2, "Complete 3 more reviews"),
        (LEAST_ROWS, 9, "9 are called wrong; it takes 10"),
        (3, LEAST_ROWS, "3 are called right"),
    ],
)
def test_a_shortage_says_how_much_is_missing_and_what_to_do(
    right: int, wrong: int, says: str
) -> None:
    found = shortage(lessons(right, wrong), LEAST_ROWS)
    assert found is not None
    assert says in found
    if right + wrong < LEAST_ROWS:
        assert f"7 left out: {TO_CERTIFY}" in found


def test_enough_is_enough() -> None:
    assert shortage(lessons(LEAST_ROWS - 10, 10), LEAST_ROWS) is None
    assert shortage(lessons(47, 3), LEAST_ROWS_WITHOUT_HISTORY) is None
