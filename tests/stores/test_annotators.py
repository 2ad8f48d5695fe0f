"""Annotators, groups, and what their answers tell."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.annotators import (
    DEFAULT_GROUP,
    Annotator,
    AnnotatorGroup,
    AnswerCounts,
    Rates,
    ReviewPace,
)
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.policy import FIRST_POLICY_VERSION
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.analysis.noise import contradicted, gold_of_audits
from setwise.service.stores.transaction import Transaction, Transactions
from tests.fakes import START
from tests.samples import ANN, BEN, LEAD, add_predictions, annotation, change, prediction, task

CODERS = AnnotatorGroup(
    "coders", "Coders", Rates(0.1, 0.1 + 0.2), 1, START, "x", Rates(0.1 + 0.2, 0.1)
)


def test_everybody_is_in_the_default_group_at_first(begin: Transactions) -> None:
    with begin(read_only=True) as transaction:
        assert transaction.annotators.group_of(ANN.id) == DEFAULT_GROUP
        assert transaction.annotators.placed() == {}
        (group,) = transaction.annotators.groups()
        assert transaction.annotators.group(DEFAULT_GROUP) == group
        assert transaction.annotators.group("coders") is None
    assert (group.id, group.fixed, group.version) == (DEFAULT_GROUP, None, 1)


def test_groups_come_back_as_they_were_stored_and_by_id(begin: Transactions) -> None:
    later = replace(CODERS, name="Coders, new", fixed=None, fixed_with_suggestion=None, version=2)
    other = replace(CODERS, id="b-team")
    with begin() as transaction:
        for group in (CODERS, other, later):
            transaction.annotators.save_group(group)
    with begin(read_only=True) as transaction:
        groups = transaction.annotators.groups()
        assert [one.id for one in groups] == ["b-team", "coders", "default"]
        assert groups[:2] == [other, later]


@pytest.mark.parametrize("version", [1, 3])
def test_a_group_and_a_place_in_it_are_changed_from_their_present_version_only(
    begin: Transactions, version: int
) -> None:
    with begin() as transaction:
        transaction.annotators.save_group(CODERS)
        transaction.annotators.place(Annotator(ANN.id, "coders", 1))
    with pytest.raises(StaleVersion), begin() as transaction:
        transaction.annotators.save_group(replace(CODERS, version=version))
    with pytest.raises(StaleVersion), begin() as transaction:
        transaction.annotators.place(Annotator(ANN.id, DEFAULT_GROUP, version))
    with begin() as transaction:
        transaction.annotators.place(Annotator(ANN.id, DEFAULT_GROUP, 2))
    with begin(read_only=True) as transaction:
        assert transaction.annotators.placed() == {ANN.id: Annotator(ANN.id, DEFAULT_GROUP, 2)}


def _say(
    transaction: Transaction,
    about: ReviewTask,
    who: str,
    kind: ReviewKind,
    *labels: str,
    group: str = DEFAULT_GROUP,
    minutes: float = 5,
) -> None:
    one = replace(task(about.prediction), kind=kind)
    transaction.reviews.add(one)
    said = annotation(one, *labels, minutes=minutes)
    said = replace(said, reviewer=who, kind=kind, group=group, seconds=minutes, version=3)
    transaction.reviews.annotate(said)
    assert transaction.reviews.annotation_of(one.id) == said


def _predicted(transaction: Transaction, confidence: float, policy: str) -> ReviewTask:
    new_prediction = prediction(confidence=confidence)._replace(policy_version=policy)
    add_predictions(transaction, new_prediction)
    return task(new_prediction)


RIGHT, WRONG = ("a", "b"), ("c",)


def test_gold_answers_are_weighted_by_how_likely_a_lead_read_them(begin: Transactions) -> None:
    quarter = change(audits=AuditPlan(certification_rate=0.5, gold_reread_rate=0.25)).as_policy(
        prediction().id, START, "x"
    )
    audit, lead = ReviewKind.AUDIT, ReviewKind.ADJUDICATION
    with begin() as transaction:
        transaction.policies.add(quarter, replacing=FIRST_POLICY_VERSION)
        for confidence, said, decided in (
            (0.5, RIGHT, WRONG),
            (0.6, WRONG, RIGHT),
            (0.7, WRONG, WRONG),
        ):
            one = _predicted(transaction, confidence, quarter.version)
            _say(transaction, one, ANN.id, audit, *said, group="coders")
            _say(transaction, one, LEAD.id, lead, *decided, minutes=9)
        unread = _predicted(transaction, 0.8, quarter.version)
        _say(transaction, unread, ANN.id, audit, *RIGHT)
        ordinary = _predicted(transaction, 0.9, quarter.version)
        _say(transaction, ordinary, ANN.id, ReviewKind.REVIEW, *RIGHT)
        _say(transaction, ordinary, LEAD.id, lead, *WRONG)
        never = _predicted(transaction, 0.95, FIRST_POLICY_VERSION)  # rereads nothing by chance
        _say(transaction, never, BEN.id, audit, *WRONG)
        _say(transaction, never, LEAD.id, lead, *WRONG)
        waiting = _predicted(transaction, 0.97, quarter.version)
        _say(transaction, waiting, BEN.id, audit, *WRONG)
    with begin(read_only=True) as transaction:
        audits = transaction.evidence.contradicted_or_read_again()
    assert [audit.confidence for audit in audits] == [0.5, 0.6, 0.7, 0.95, 0.97]
    assert contradicted(audits) == {"coders": (2, 2), DEFAULT_GROUP: (2, 1)}
    gold = gold_of_audits(audits)
    assert [
        (of.first_reviewer, of.first_group, of.first_agreed, of.lead_agreed, one.confidence)
        for one, of in gold
    ] == [
        (ANN.id, "coders", True, False, 0.5),
        (ANN.id, "coders", False, True, 0.6),
        (ANN.id, "coders", False, False, 0.7),
        (BEN.id, DEFAULT_GROUP, False, False, 0.95),
    ]
    assert [of.reread_rate for _, of in gold] == [0.25, 0.25, 0.25, 0.0]


def test_pace_is_the_median_of_a_period(begin: Transactions) -> None:
    with begin() as transaction:
        for who, minutes in ((ANN, (1, 5, 6, 90)), (BEN, (9, 7, 30)), (LEAD, (2,))):
            for each in minutes:
                one = _predicted(transaction, 0.5, FIRST_POLICY_VERSION)
                _say(transaction, one, who.id, ReviewKind.REVIEW, *RIGHT, minutes=each)
    with begin(read_only=True) as transaction:
        pace = transaction.annotators.pace
        assert pace(START + timedelta(minutes=5)) == {
            ANN.id: ReviewPace(3, 6.0),
            BEN.id: ReviewPace(3, 9.0),
        }
        assert pace(START)[ANN.id] == ReviewPace(4, 5.5), "the mean of the two in the middle"
        assert pace(START, ANN.id) == {ANN.id: ReviewPace(4, 5.5)}
        assert pace(START + timedelta(days=1)) == {}


def test_answers_are_counted_by_person_and_blind_ones_apart(begin: Transactions) -> None:
    review, overlap = ReviewKind.REVIEW, ReviewKind.OVERLAP
    with begin() as transaction:
        for confidence, group in ((0.5, "coders"), (0.6, DEFAULT_GROUP)):
            one = _predicted(transaction, confidence, FIRST_POLICY_VERSION)
            _say(transaction, one, ANN.id, review, *RIGHT, group="coders", minutes=2)
            _say(transaction, one, BEN.id, overlap, *WRONG, group=group, minutes=4)
    with begin(read_only=True) as transaction:
        store = transaction.annotators
        assert store.answers() == {
            ANN.id: AnswerCounts(2, 0, 2.0, START + timedelta(minutes=2)),
            BEN.id: AnswerCounts(2, 2, 4.0, START + timedelta(minutes=4)),
        }
