"""The cockpit's numbers are those of a plain walk through everything that is stored."""

import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine

from setwise.models.guarantees.corrected import ErrorSums, bound_accuracies
from setwise.service.domain.predictions import (
    Decision,
    Document,
    Prediction,
    PredictionFilter,
    Reason,
)
from setwise.service.domain.reports import Share
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan, AuditRole, Selection
from setwise.service.domain.truth import deciding
from setwise.service.services.analysis.cockpit import Cockpit
from setwise.service.services.analysis.over_time import Granularity, Period
from setwise.service.services.analysis.what_if import WhatIf
from setwise.service.services.policy import Policies
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import START, FakeClock
from tests.kit.databases import ON_BOTH
from tests.samples import (
    ADMIN,
    LEAD,
    add_predictions,
    annotate_all,
    annotation,
    change,
    outcome,
    prediction,
    task,
)

SENT_AT, RISK, DAYS = 0.8, 0.05, 10
ODDS = {0.1: 0.1, 0.3: 0.3}
"""Probability that a person reads a confident document, by the inclusion probability stored."""
REREAD = (0.4, 0.8)
"""Probabilities that a lead reads an agreement again, by policy."""


@dataclass(frozen=True)
class Known:
    """One document, and what is known of it."""

    one: Prediction
    reviewer_agreed: bool | None
    outcome_agreed: bool | None
    agreed: bool
    """Whether nothing but an auditor's agreement, and perhaps a lead's reading, speaks of it."""
    reread: bool
    rate: float

    @property
    def sure(self) -> bool:
        return self.one.reason in {Reason.ABOVE_THRESHOLD, Reason.AUDIT}

    @property
    def kind(self) -> float | None:
        return self.one.selection.inclusion_probability if self.sure else None

    @property
    def checked(self) -> bool:
        return self.reviewer_agreed is not None or (
            not self.sure and self.outcome_agreed is not None
        )

    @property
    def right(self) -> bool:
        return bool(self.reviewer_agreed if self.outcome_agreed is None else self.outcome_agreed)

    @property
    def day(self) -> date:
        return self.one.created_at.date()


@pytest.fixture(scope="module")
def database(module_engine: Engine) -> Transactions:
    """Return a database that no test changes."""
    begin = Transactions(module_engine)
    fill(begin, 300)
    return begin


def fill(begin: Transactions, n: int) -> None:
    draw = random.Random(3)
    policies = Policies(begin, FakeClock(), new_id)
    versions = {}
    for rate in REREAD:
        audits = AuditPlan(certification_rate=0.1, gold_reread_rate=rate)
        policy = change(threshold=SENT_AT, risk=RISK, audits=audits)
        versions[rate] = policies.change(ADMIN, policy, None).version
    everything, tasks, answers, outcomes = [], [], [], []
    for _ in range(n):
        confidence = draw.betavariate(4, 1)
        probability = draw.choice(sorted(ODDS))
        sure = confidence >= SENT_AT
        audit = sure and draw.random() < ODDS[probability]
        reason = Reason.AUDIT if audit else Reason.ABOVE_THRESHOLD
        at = START - timedelta(days=draw.uniform(0, DAYS + 4))
        new_prediction = prediction(
            confidence=confidence,
            document=Document(text="x", metadata={"site": draw.choice("nsw")}),
            decision=Decision.AUTO if sure and not audit else Decision.REVIEW,
            reason=reason if sure else Reason.BELOW_THRESHOLD,
            created_at=at,
        )
        role = AuditRole.CERTIFICATION if audit else AuditRole.NONE
        rate = draw.choice(REREAD)
        new_prediction = new_prediction._replace(
            selection=Selection(role, 0.5, probability if sure else 1.0),
            policy_version=versions[rate],
        )
        everything.append(new_prediction)
        right = draw.random() < confidence
        if (not sure or audit) and draw.random() < 0.8:
            kind = ReviewKind.AUDIT if audit else ReviewKind.REVIEW
            work = replace(task(new_prediction), kind=kind, created_at=at)
            tasks.append(work)
            said = annotation(work, *(("a", "b") if right else ("c",)), minutes=0)
            again = audit and said.agreed and draw.random() < rate
            settles = said.settles and not again
            # What answers in view count for is told in `tests/domain/test_verdicts.py`.
            said = replace(said, kind=kind, suggestion_shown=False)
            answers.append(replace(said, created_at=at, settles=settles))
            if again and draw.random() < 0.9:
                lead = replace(task(new_prediction), kind=ReviewKind.ADJUDICATION, created_at=at)
                tasks.append(lead)
                labels = ("a", "b") if draw.random() < 0.8 else ("c",)
                word = annotation(lead, *labels, minutes=0)
                answers.append(replace(word, kind=lead.kind, created_at=at))
        if draw.random() < 0.2:
            told = outcome(new_prediction, *(("a", "b") if draw.random() < 0.7 else ("c",)))
            outcomes.append(replace(told, created_at=at))
    with begin() as transaction:
        add_predictions(transaction, *everything)
        transaction.reviews.add_all(tasks)
        annotate_all(transaction, answers)
        for one in outcomes:
            transaction.outcomes.add(one)


def stored(begin: Transactions, since: date) -> list[Known]:
    found: list[Known] = []
    with begin(read_only=True) as transaction:
        after = None
        while True:
            page = transaction.predictions.page(PredictionFilter(), after=after, limit=100)
            for one in page.items:
                annotations = transaction.reviews.annotations_of(one.id)
                annotation, outcome = (
                    deciding(annotations),
                    next(reversed(transaction.outcomes.of(one.id)), None),
                )
                agreed = outcome is None and any(
                    each.kind is ReviewKind.AUDIT and each.agreed for each in annotations
                )
                reread = agreed and any(
                    each.kind is ReviewKind.ADJUDICATION for each in annotations
                )
                rate = transaction.policies.get(one.policy_version).audits.gold_reread_rate
                found.append(
                    Known(
                        one,
                        annotation and annotation.agreed,
                        outcome and outcome.agreed,
                        agreed,
                        reread,
                        rate,
                    )
                )
            if page.next_after is None:
                return [one for one in found if one.day >= since]
            after = page.next_after


class Plain:
    """Weighs each document by itself."""

    def __init__(self, found: list[Known]) -> None:
        self.found = found
        everyone = Counter(one.kind for one in found)
        self._everyone, self._checked = everyone, Counter(one.kind for one in found if one.checked)
        sure = [kind for kind in everyone if kind is not None]
        seen = [kind for kind in sure if self._checked[kind]]
        self._spread = sum(everyone[kind] for kind in sure) / sum(everyone[kind] for kind in seen)

    def share(self, found: list[Known]) -> Share:
        checked = [one for one in found if one.checked]
        if not checked:
            return Share(0, 0)
        weight = [
            self._everyone[one.kind]
            / self._checked[one.kind]
            * (1.0 if one.kind is None else self._spread)
            for one in checked
        ]
        rows = [*zip(checked, weight, strict=True)]
        count = sum(each for one, each in rows if one.agreed)
        again = sum(each / one.rate for one, each in rows if one.reread)
        scale = count / again if again else math.inf
        stands = [scale / one.rate if one.agreed else 1.0 for one in checked]
        errors = [0.0 if one.right else each for one, each in zip(checked, stands, strict=True)]
        counted = [each * many for each, many in zip(weight, errors, strict=True)]
        largest = max(
            each * many
            for (one, each), many in zip(rows, stands, strict=True)
            if not one.agreed or one.reread or not again
        )
        value, low, high = bound_accuracies(
            ErrorSums(
                sum(weight),
                sum(each**2 for each in weight),
                sum(counted),
                sum(each**2 for each in counted),
                largest,
            ),
            RISK,
        )
        bounds = float(value[0]), float(low[0]), float(high[0])
        return Share(len(checked), sum(one.right for one in checked), *bounds)


def same(found: Share, expected: Share) -> None:
    assert (found.checked, found.right) == (expected.checked, expected.right)
    # Sums over documents one by one differ in the last digit from those over like ones.
    for name in ("value", "low", "high"):
        value = getattr(expected, name)
        assert getattr(found, name) == (value if value is None else pytest.approx(value, rel=1e-9))


def read(begin: Transactions, pace: Granularity) -> Cockpit:
    return building.reports(begin, FakeClock()).cockpit(LEAD, Period(DAYS, pace))


def what_if(begin: Transactions, **question: float) -> WhatIf:
    return Policies(begin, FakeClock(), new_id).preview(LEAD, **question)


@ON_BOTH
@pytest.mark.parametrize("pace", Granularity)
def test_every_number_is_that_of_a_plain_count(database: Transactions, pace: Granularity) -> None:
    cockpit = read(database, pace)
    plain = Plain(stored(database, cockpit.since.date()))
    assert cockpit.documents == len(plain.found)
    assert cockpit.sent == sum(one.one.decision is Decision.AUTO for one in plain.found)
    assert cockpit.drawn
    same(cockpit.accuracy, plain.share([one for one in plain.found if one.sure]))
    for rows, width in ((cockpit.rows, pace), (cockpit.weeks, Granularity.WEEK)):
        assert sum(row.documents for row in rows) == len(plain.found)
        for row in rows:
            inside = [one for one in plain.found if width.start(one.day) == row.start]
            assert row.sent == sum(one.one.decision is Decision.AUTO for one in inside)
            assert row.audited == sum(one.one.reason is Reason.AUDIT for one in inside)
            assert row.documents == len(inside)
            same(row.accuracy, plain.share([one for one in inside if one.sure]))


def test_every_forecast_is_that_of_a_plain_count(database: Transactions) -> None:
    answer = what_if(database, threshold=0.6)
    plain = Plain(stored(database, date.min))
    for forecast in [*answer.curve, answer.now, answer.then]:
        sent = [one for one in plain.found if one.one.scored.confidence >= forecast.threshold]
        assert forecast.sent == len(sent)
        same(forecast.accuracy, plain.share(sent))
        if sent:
            mean = sum(one.one.scored.confidence for one in sent) / len(sent)
            assert forecast.expected_accuracy == pytest.approx(mean)


def test_shares_by_source_are_those_of_a_plain_count(database: Transactions) -> None:
    cockpit = read(database, Granularity.DAY)
    plain = Plain(stored(database, cockpit.since.date()))
    sites = {one.value: one for one in cockpit.mistakes.sources if one.field == "site"}
    assert sorted(sites) == ["n", "s", "w"]
    for value, errors in sites.items():
        inside = [one for one in plain.found if one.one.document.metadata["site"] == value]
        same(errors.accuracy, plain.share(inside))
    (size,) = cockpit.mistakes.sizes
    assert size.value == "2"
    same(size.accuracy, plain.share(plain.found))


def test_a_target_finds_the_forecast_of_the_threshold_that_meets_it(begin: Transactions) -> None:
    fill(begin, 1500)
    then = what_if(begin, target_accuracy=0.3).then
    assert then.threshold is not None
    again = what_if(begin, threshold=then.threshold).then
    assert (then.threshold, then.sent, then.reviews) == (again.threshold, again.sent, again.reviews)
    same(then.accuracy, again.accuracy)
    nothing = what_if(begin, target_accuracy=0.9999).then
    assert (nothing.threshold, nothing.sent) == (None, 0)
