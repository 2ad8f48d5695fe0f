"""What counts as an audit, and when audits are too old."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.breaker import (
    Freshness,
    Unvouched,
    ends_audit,
    would_be_sent,
)
from setwise.service.domain.evidence import one_of_each
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import READING_TIME
from tests.fakes import START
from tests.samples import annotation, checked, prediction, task

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("kind", "settles", "ends"),
    [
        (ReviewKind.AUDIT, True, True),
        (ReviewKind.AUDIT, False, False),  # a lead is to decide
        (ReviewKind.ADJUDICATION, True, True),
        (ReviewKind.REVIEW, True, False),
        (ReviewKind.OVERLAP, False, False),
    ],
)
def test_an_audit_ends_with_the_last_word_on_it(
    kind: ReviewKind, settles: bool, ends: bool
) -> None:
    assert ends_audit(replace(annotation(task()), kind=kind, settles=settles)) is ends


@pytest.mark.parametrize(
    ("decision", "reason", "sent"),
    [
        (Decision.AUTO, Reason.ABOVE_THRESHOLD, True),
        (Decision.AUTO, Reason.AUDIT, True),
        (Decision.REVIEW, Reason.AUDIT, True),  # held for its audit
        (Decision.REVIEW, Reason.BELOW_THRESHOLD, False),
        (Decision.REVIEW, Reason.NO_THRESHOLD, False),
        (Decision.REVIEW, Reason.BREAKER, False),
    ],
)
def test_only_what_the_policy_would_send_is_watched(
    decision: Decision, reason: Reason, sent: bool
) -> None:
    assert would_be_sent(prediction(decision=decision, reason=reason)) is sent


@pytest.mark.parametrize(
    ("right", "predicted_days_ago", "counts_as_right"),
    [(True, 9, True), (False, 1, False), (None, 6.9, True), (None, 7, False)],
)
def test_an_unfinished_audit_counts_as_right_until_it_is_overdue(
    right: bool | None, predicted_days_ago: float, counts_as_right: bool
) -> None:
    predicted_at = START - predicted_days_ago * DAY
    lead = None if right is None else ("a",) if right else ("b",)
    audit = checked("1", None if right is None else ("a",), lead, created_at=predicted_at)
    assert audit.counts_as_right(START - READING_TIME) is counts_as_right


def test_an_agreement_read_again_stands_for_those_that_were_not() -> None:
    check = checked("1", ("a",), ("b",), reread_rate=0.125, reread_draw=0.1)
    assert (check.stands_for, check.overlooked, check.errors) == (8.0, True, (False, True))
    contradicted_check = checked("1", ("b",), ("b",), reread_rate=0.125, reread_draw=0.1)
    assert (contradicted_check.stands_for, contradicted_check.overlooked) == (1.0, False)
    assert contradicted_check.errors == (True, False)


def test_of_copies_the_first_with_an_answer_counts_although_a_lead_is_to_read_it() -> None:
    waits = checked("1", ("a",), cluster=0.5, reread_rate=0.3, reread_draw=0.1)
    check = checked("2", ("a",), cluster=0.5, reread_rate=0.3, created_at=START + DAY)
    assert (waits.found_right, check.found_right) == (None, True)
    assert one_of_each([waits, check]) == [waits]


def test_copies_of_a_document_are_one_bet_placed_with_the_first() -> None:
    checks = [
        checked(
            name,
            None if said is None else (said,),
            said and ("a",) if said == "a" else None,
            cluster=cluster,
            created_at=START + place * DAY,
            id=str(place),
        )
        for place, (said, name, cluster) in enumerate(
            [(None, "1", 0.1), ("b", "2", 0.2), ("b", "3", 0.1), ("a", "1", 0.4)]
        )
    ]
    one, two = one_of_each(checks)
    assert (one.id, one.created_at, one.contradiction_waits) == ("0", START, True)
    assert (two.id, two.contradiction_waits) == ("1", True)


@pytest.mark.parametrize(
    ("freshness", "documents", "age", "lost"),
    [
        (Freshness(100, DAY), 100, DAY, False),
        (Freshness(100, DAY), 101, timedelta(0), True),
        (Freshness(100, DAY), 1, 1.01 * DAY, True),
        (Freshness(0, DAY), 10**9, DAY, False),
        (Freshness(100, None), 1, 1000 * DAY, False),
        (Freshness(0, None), 10**9, 1000 * DAY, False),
    ],
)
def test_audits_are_stale_once_too_much_or_too_old_rests_on_none(
    freshness: Freshness, documents: int, age: timedelta, lost: bool
) -> None:
    assert freshness.lost(Unvouched(documents, START), START + age) is lost


def test_where_nothing_is_sent_nothing_grows_stale() -> None:
    assert not Freshness(1, timedelta(0)).lost(Unvouched(0, None), START)
