"""When certification looks at audits, and what each look spends."""

from dataclasses import replace

import numpy as np
import pytest

from setwise.models.guarantees.paths.spending import risk_of_family, risk_on_demand
from setwise.service.domain.certification import Certification
from setwise.service.services.analysis.proofs import SCHEDULE, ProofQuestion, answer, once_each
from tests.simulation.evidence import (
    GATE,
    Audits,
    certification,
    looks_by_schedule,
    question_of,
)

PREDICTED = [0.95] * 100
FIRST = SCHEDULE.first(GATE)
TIMES = [FIRST, SCHEDULE.after(FIRST), SCHEDULE.after(SCHEDULE.after(FIRST))]


def drawn(n: int, right: float = 0.88) -> list:
    """Return audits of which every eighth or so is wrong, found at once."""
    return list(Audits(np.arange(n) * (1.0 - right) % 1.0 < right))


def due(audits: list, *attempts: Certification) -> ProofQuestion | None:
    return question_of(audits, attempts).due(SCHEDULE, attempts[-1] if attempts else None)


def stored(asked: ProofQuestion | None, attempt: int) -> Certification:
    assert asked is not None
    return certification(answer(asked, PREDICTED), attempt)


def test_a_look_has_the_audits_that_the_schedule_names_however_many_came() -> None:
    audits = drawn(TIMES[1] + 30)
    assert due(audits[: FIRST - 1]) is None
    first = stored(due(audits[: FIRST + 9]), 1)
    assert (first.evidence.n_drawn, first.evidence.n_audits) == (FIRST, FIRST)
    assert due(audits[: TIMES[1] - 1], first) is None
    second = stored(due(audits, first), 2)
    assert second.evidence.n_drawn == TIMES[1]
    assert second.evidence.excluded["left to a later look"] == 30


def test_looks_of_a_family_have_one_order_and_one_risk() -> None:
    audits = drawn(TIMES[1])
    first = stored(due(audits[:FIRST]), 1)
    second = certification(answer(due(audits, first), [0.5] * 400), 2)
    assert second.evidence.order == first.evidence.order
    assert second.evidence.looks == (FIRST,)
    assert first.evidence.risk == second.evidence.risk == risk_of_family(GATE.risk, 1)
    assert first.evidence.family == second.evidence.family == 1
    assert [each.id for each in once_each([first, second])] == ["2"], "the risk is spent once"


def test_a_look_that_was_not_made_counts_as_one() -> None:
    """Whether it was made may depend on what was found, such as an earlier proof."""
    audits = drawn(TIMES[2])
    first = stored(due(audits[:FIRST]), 1)
    third = stored(due(audits, first), 2)
    assert third.evidence.looks == tuple(TIMES[:2])
    certification = stored(due(audits, first, stored(due(audits[: TIMES[1]], first), 2)), 3)
    assert certification.evidence.test_risk == third.evidence.test_risk


def test_the_last_look_again_spends_nothing() -> None:
    waits = Audits(np.ones(FIRST), reread_draws=0.0, led=False)
    unread = stored(due(list(waits)), 1)
    assert unread.evidence.unfinished == FIRST
    assert due(list(waits), unread) is None
    again = question_of(list(replace(waits, led=True)), [unread]).again
    proof = stored(again, 2)
    assert proof.threshold == 0.95
    assert (proof.evidence.family, proof.evidence.looks) == (1, ())
    assert len(once_each([unread, proof])) == 1
    assert question_of(list(replace(waits, led=True)), [unread, proof]).again is None


def test_an_attempt_on_demand_spends_from_the_reserve_and_is_no_look() -> None:
    audits = drawn(TIMES[1])
    first = stored(due(audits[:FIRST]), 1)
    question = question_of(audits[: FIRST + 50], [first]).on_demand
    early = stored(question, 2)
    assert early.evidence.risk == risk_on_demand(GATE.risk, 1)
    assert (early.evidence.looks, early.evidence.n_drawn) == (None, FIRST + 50)
    assert question_of(audits, [first, early]).on_demand.risk == risk_on_demand(GATE.risk, 2)
    second = stored(due(audits, first, early), 3)
    assert (second.evidence.looks, second.evidence.family) == ((FIRST,), 1)


def test_another_target_begins_another_family_and_the_old_one_goes_on_later() -> None:
    audits = drawn(TIMES[2])
    first = stored(due(audits[:FIRST]), 1)
    laxer = replace(GATE, policy=replace(GATE.policy, target_accuracy=0.85))
    question = question_of(audits[: TIMES[1]], [first], laxer)
    assert (question.place, question.last) == (2, None)
    assert question.risk == risk_of_family(GATE.risk, 2)
    other = replace(certification(answer(question, PREDICTED), 2), target_accuracy=0.85)
    back = question_of(audits[: TIMES[1]], [first, other])
    assert (back.place, back.last) == (1, first.evidence)


def test_audits_that_are_no_longer_the_first_ones_begin_another_family() -> None:
    audits = drawn(TIMES[1])
    first = stored(due(audits[:FIRST]), 1)
    assert question_of(audits[1:], [first]).last is None
    assert question_of([*audits[:9], *audits[10:]], [first]).place == 2


def test_all_families_and_attempts_on_demand_spend_the_risk_at_most() -> None:
    audits, attempts = drawn(60), []
    for _ in range(30):
        attempts.append(stored(question_of(audits, attempts).on_demand, len(attempts) + 1))
        audits = audits[1:]
        question = question_of(audits, attempts).due(SCHEDULE, None, at_once=True)
        attempts.append(stored(question, len(attempts) + 1))
    assert sum(each.evidence.risk for each in once_each(attempts)) <= GATE.risk


@pytest.mark.parametrize(
    ("runs", "n"), [(30, 900), pytest.param(400, 2_000, marks=pytest.mark.verify)]
)
@pytest.mark.parametrize("reread_rate", [1.0, 0.3])
def test_looks_at_confidences_that_promise_too_much_keep_the_risk(
    reread_rate: float, runs: int, n: int, record_property
) -> None:
    """From .95 up .97 are promised and .895 right: a threshold below .99 is false."""
    random, false = np.random.default_rng(46), 0
    for _ in range(runs):
        confidence = random.choice([0.99, 0.95, 0.91], n)
        right = random.random(n) < np.select(
            [confidence == 0.99, confidence == 0.95], [0.95, 0.84], 0.8
        )
        audits = Audits(
            right,
            overlooked=~right & (random.random(n) < 0.3),
            reread_rate=reread_rate,
            reread_draws=random.random(n),
            confidence=confidence,
        )
        attempts = looks_by_schedule(audits, random.choice([0.99, 0.95, 0.91], 300).tolist())
        proved = min((each.threshold or 1.0 for each in attempts), default=1.0)
        false += proved < 0.99
    record_property("share", false / runs)
    assert false <= runs * GATE.risk + 3.0 * (runs * GATE.risk) ** 0.5
