"""What is promised of certificates and the breaker, in streams whose truth is known."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pytest

from setwise.models.guarantees.certificates import Certificate
from setwise.models.guarantees.drift import drift_statistic
from setwise.models.guarantees.thresholds import certify_adjudicated
from setwise.service.domain.certification.proofs import gather
from setwise.service.domain.evidence import CheckedDocument, one_of_each
from setwise.service.domain.routing.audits import READING_TIME
from tests.fakes import START
from tests.samples import checked

TARGET, RISK = 0.9, 0.1
NOW = START + timedelta(days=60)
READ_BY = NOW - READING_TIME


def audits(
    right: Sequence[bool], finished: Sequence[bool], days: float = 60
) -> list[CheckedDocument]:
    """Return audits of documents that came evenly until now."""
    n = len(right)
    return [
        audit(
            place,
            good if done else None,
            confidence=0.95,
            draw=place / (2 * n),
            created_at=NOW - timedelta(days=days * (n - place) / n),
        )
        for place, (good, done) in enumerate(zip(right, finished, strict=True))
    ]


def audit(place: int, right: bool | None, **fields: object) -> CheckedDocument:
    """Return an audit that a lead has read; None is not read yet."""
    said = None if right is None else ("a",) if right else ("b",)
    return checked(f"{place:06}", said, said, **{"reread_rate": 1.0, **fields})


def certified(found: Sequence[CheckedDocument]) -> bool:
    """Return whether one attempt at the whole risk certifies a threshold."""
    gathered = gather(found, {"p": ()}, rules=(), read_by=READ_BY)
    result = certify_adjudicated(
        [0.95] * 100,
        [one.confidence for one in gathered.audits],
        [one.errors[0] for one in gathered.audits],
        [one.errors[1] for one in gathered.audits],
        1.0,
        [one.reread_draw for one in gathered.audits],
        target=TARGET,
        risk=RISK,
    )
    return isinstance(result, Certificate)


@pytest.mark.parametrize("days", [60, 6])
def test_wrong_sets_that_nobody_reads_do_not_make_a_certificate(days: float) -> None:
    # A share of .88 is right. Of the wrong ones 60 % are never read, of the right ones 10 %: of
    # those that are read, .945 are right.
    random = np.random.default_rng(21)
    count = 0
    for _ in range(40):
        right = random.random(400) < 0.88
        mask = random.random(400) < np.where(right, 0.9, 0.4)
        count += certified(audits(right.tolist(), mask.tolist(), days))
    assert count <= 40 * RISK


def test_audits_that_are_read_in_time_prove_a_good_threshold() -> None:
    # Those of the last days are still being read.
    random = np.random.default_rng(22)
    count = 0
    for _ in range(20):
        right = random.random(400) < 0.97
        late = np.arange(400) > 360
        mask = ~late | (random.random(400) < 0.5)
        count += certified(audits(right.tolist(), mask.tolist()))
    assert count >= 18


def bets(right: Sequence[bool], finished: Sequence[bool], now: datetime) -> list[bool]:
    """Return the detector's bets on audits, ten a day from the start."""
    checks = [
        audit(place, good if done else None, created_at=at)
        for place, (good, done) in enumerate(zip(right, finished, strict=True))
        if (at := START + timedelta(days=place / 10)) <= now
    ]
    return [one.counts_as_right(now - READING_TIME) for one in checks]


def test_the_breaker_finds_a_drop_though_half_of_the_audits_are_never_read() -> None:
    random = np.random.default_rng(23)
    count = 0
    for _ in range(20):
        right = random.random(300) < 0.85
        mask = random.random(300) < 0.5
        now = START + timedelta(days=30)
        count += drift_statistic(bets(right.tolist(), mask.tolist(), now), TARGET).max() >= 5000
    assert count == 20


def test_audits_that_are_read_in_time_raise_no_more_false_alarms_than_promised() -> None:
    # Right ones take a day, wrong ones six: the breaker looks every day.
    random = np.random.default_rng(24)
    alarms = 0
    for _ in range(20):
        right = random.random(400) < TARGET
        alarm = False
        for day in range(1, 41):
            taken = np.where(right, 1.0, 6.0)
            mask = np.arange(400) / 10 + taken <= day
            path = drift_statistic(
                bets(right.tolist(), mask.tolist(), START + timedelta(days=day)), TARGET
            )
            alarm |= bool(path.max(initial=0.0) >= 2000)
        alarms += alarm
    assert alarms <= 20 * 400 / 2000


def test_documents_that_come_twice_raise_no_more_false_alarms_than_promised() -> None:
    # At exactly the target, an alarm within 400 bets has a chance of at most 400 / 2000.
    random = np.random.default_rng(25)
    alarms = 0
    for _ in range(100):
        right = random.random(400) < TARGET
        twice = [
            audit(place, good, draw=place / 400)
            for place, good in enumerate(right.tolist())
            for _ in range(2)
        ]
        single = [one.found_right is True for one in one_of_each(twice)]
        alarms += bool(drift_statistic(single, TARGET).max() >= 2000)
    assert alarms <= 100 * 400 / 2000


def weeks_below_target(random: np.random.Generator, reread_rate: float, beta: float) -> int:
    """Return how many of 15 weeks are sent below the target, 80 audits in each.

    From week 9 on auditors overlook a share ``beta`` of the errors, from week 12 on .84 is right.
    """
    week = np.repeat(np.arange(1, 27), 80)
    right = random.random(len(week)) < np.where(week < 12, 0.97, 0.84)
    mask = right | ((week >= 9) & (random.random(len(week)) < beta))
    reread = mask & (random.random(len(week)) < reread_rate)
    checks = [
        checked(
            f"{place}",
            ("a",) if says else ("b",),
            (("a",) if good else ("b",)) if again or not says else None,
            reread_rate=reread_rate,
            reread_draw=0.0 if again else 1.0,
        )
        for place, (good, says, again) in enumerate(zip(right, mask, reread, strict=True))
    ]
    path = drift_statistic(
        [one.counts_as_right(READ_BY) for one in checks],
        TARGET,
        stands_for=[one.stands_for for one in checks],
    )
    alarms = np.flatnonzero(path >= 5000)
    stopped = week[alarms[0]] if len(alarms) else 27
    return int(np.clip(stopped - 12, 0, 15))


def test_a_drop_that_auditors_overlook_is_found_by_what_leads_read_again() -> None:
    random = np.random.default_rng(26)
    below = [weeks_below_target(random, reread_rate=0.5, beta=0.99) for _ in range(20)]
    assert float(np.median(below)) <= 5
    assert max(below) < 15


def test_overlooked_errors_raise_no_more_false_alarms_than_promised() -> None:
    # At exactly the target, of 400 audits; half of the errors are overlooked.
    random = np.random.default_rng(27)
    alarms = 0
    for _ in range(200):
        wrong = random.random(400) < 1.0 - TARGET
        mask = wrong & (random.random(400) < 0.5)
        again = random.random(400) < 0.1
        right = ~wrong | (mask & ~again)
        stands_for = np.where(~wrong | mask, np.where(again, 10.0, 1.0), 1.0)
        path = drift_statistic(right, TARGET, stands_for=stands_for)
        alarms += bool(path.max() >= 2000)
    assert alarms <= 200 * 400 / 2000
