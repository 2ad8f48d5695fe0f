"""Certified thresholds: exact violation probabilities, refusals, what the owner is told."""

import json
from itertools import product

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.rival_thresholds import certify_clean
from setwise.models.guarantees import sequence
from setwise.models.guarantees.certificates import (
    Certificate,
    CertificateRefusal,
    RefusalReason,
)
from setwise.models.guarantees.sequence import plan_sequence
from setwise.models.guarantees.thresholds import CountedOnce, certify_adjudicated
from tests.models.bounds import share_error


def world(seed, n, bias=0.0):
    """Return confidences and correctness; with a bias, confidences are too high."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(2.2, 0.75, n)
    return confidence, rng.random(n) < np.clip(confidence - bias, 0, 1)


@pytest.mark.parametrize(
    ("accuracy", "target"),
    [
        ((0.75, 0.75, 0.1), 0.75),
        *(
            pytest.param(accuracy, target, marks=pytest.mark.verify)
            for accuracy, target in (
                ((0.9, 0.6, 0.3), 0.6),
                ((0.9, 0.6, 0.3), 0.75),
                ((0.75, 0.75, 0.1), 0.6),
            )
        ),
    ],
)
def test_the_probability_of_a_false_certificate_is_at_most_the_risk(accuracy, target):
    # Three confidences, five audits: all 6**5 samples, each with its probability.
    levels, share, risk, n = np.array([0.9, 0.6, 0.3]), np.array([0.4, 0.3, 0.3]), 0.3, 5
    predicted = np.repeat(levels, [40, 30, 30])
    above = np.cumsum(share * accuracy) / np.cumsum(share)
    # A sample matters only by how many audits of each of six kinds it holds.
    chance = np.concatenate([share * accuracy, share * (1 - np.array(accuracy))])
    false = total = 0.0
    for counts in product(range(n + 1), repeat=5):
        if sum(counts) > n:
            continue
        kinds = np.array([*counts, n - sum(counts)])
        factorial = np.array([1, 1, 2, 6, 24, 120])
        probability = 120 / np.prod(factorial[kinds]) * np.prod(chance**kinds)
        found = certify_clean(
            predicted,
            np.repeat(np.tile(levels, 2), kinds),
            np.repeat([1, 1, 1, 0, 0, 0], kinds),
            target=target,
            risk=risk,
        )
        total += probability
        if isinstance(found, Certificate):
            step = int(np.flatnonzero(levels == found.threshold)[0])
            false += probability * (above[step] <= target)
    assert total == pytest.approx(1.0)
    assert false <= risk + 1e-12


def test_a_certificate_carries_evidence_that_can_be_checked_again():
    predicted, _ = world(1, 4000)
    confidence, right = world(2, 2000)
    none = np.zeros(2000)
    found = certify_adjudicated(
        predicted,
        confidence,
        ~right,
        none,
        1.0,
        none,
        target=0.9,
        risk=0.1,
        excluded={"not-blind": 3},
    )
    assert isinstance(found, Certificate)
    above = confidence >= found.threshold
    assert (found.n_above, found.n_good) == (above.sum(), right[above].sum())
    assert found.coverage == np.mean(predicted >= found.threshold)
    assert found.accuracy == pytest.approx(right[above].mean())
    assert 0.9 <= found.accuracy_bound <= found.accuracy
    proved = [step for step in found.steps if step.p_value <= found.test_risk]
    assert found.proved == tuple(step.threshold for step in proved)
    assert found.proved[-1] == found.threshold
    assert len(found.steps) - len(proved) == 1
    assert [step.threshold for step in found.steps] == sorted(
        (step.threshold for step in found.steps), reverse=True
    )
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["certified"] is True
    assert stored["excluded"] == {"not-blind": 3}
    assert stored["method"] == "adjudicated"
    assert stored["steps"][0]["n_audits"] == found.steps[0].n_audits


def test_the_start_of_the_sequence_knows_no_label():
    predicted, _ = world(1, 4000)
    confidence, right = world(2, 300)
    first = [
        certify_clean(predicted, confidence, outcome, target=0.9, risk=0.1).steps[0].threshold
        for outcome in (right, ~right, np.zeros_like(right))
    ]
    assert len(set(first)) == 1


@pytest.mark.parametrize("runs", [120, pytest.param(400, marks=pytest.mark.verify)])
def test_the_start_allows_for_confidences_that_promise_too_few_errors(runs, monkeypatch):
    predicted, _ = world(1, 3000)

    def shares(assumed, bias):
        monkeypatch.setattr(sequence, "ASSUMED_ERRORS", assumed)
        proofs = (
            certify_clean(predicted, *world(500 + seed, 4000, bias), target=0.9, risk=0.05)
            for seed in range(runs)
        )
        return np.array([proof.coverage if proof.certified else 0.0 for proof in proofs])

    allowed = sequence.ASSUMED_ERRORS
    gained = shares(allowed, 0.06) - shares((1.0,), 0.06)
    assert gained.mean() > 2 * gained.std() / runs**0.5
    lost = shares((1.0,), 0.0).mean() - shares(allowed, 0.0).mean()
    assert lost < 0.005, "where they are right, little is lost"


def test_thresholds_are_quantiles_with_their_shares_and_means():
    predicted, _ = world(3, 1000)
    planned = plan_sequence(predicted)
    assert (np.diff(planned.thresholds) < 0).all()
    for step in (0, 70, 149):
        above = predicted[predicted >= planned.thresholds[step]]
        assert planned.share[step] == pytest.approx(len(above) / 1000)
        assert planned.confidence[step] == pytest.approx(above.mean())
    assert planned.share[-1] == 1.0


def test_no_audits_are_refused_with_the_number_that_would_do():
    predicted, _ = world(1, 4000)
    found = certify_clean(predicted, [], [], target=0.9, risk=0.1)
    assert isinstance(found, CertificateRefusal)
    assert found.reason is RefusalReason.NO_AUDITS
    # If the confidences are right, that number proves the threshold four times in five.
    proved, runs = 0, 40
    for seed in range(runs):
        confidence, right = world(100 + seed, found.further_audits)
        proved += certify_clean(predicted, confidence, right, target=0.9, risk=0.1).certified
    error = 3 * share_error(0.8, runs)
    assert 0.8 - error <= proved / runs <= 0.9 + error


def test_too_few_audits_name_the_number_still_needed():
    confidence, right = np.full(10, 0.97), np.ones(10)
    found = certify_clean(np.full(100, 0.97), confidence, right, target=0.9, risk=0.1)
    assert isinstance(found, CertificateRefusal)
    assert found.reason is RefusalReason.TOO_FEW_AUDITS
    assert found.further_if_all_good == 12
    assert found.planned_threshold == 0.97
    enough = certify_clean(np.full(100, 0.97), np.full(22, 0.97), np.ones(22), target=0.9, risk=0.1)
    assert enough.certified


def test_accuracy_below_the_target_is_not_blamed_on_the_number_of_audits():
    confidence, right = np.full(500, 0.7), np.arange(500) < 350
    found = certify_clean(np.full(100, 0.7), confidence, right, target=0.9, risk=0.1)
    assert isinstance(found, CertificateRefusal)
    assert found.reason is RefusalReason.BELOW_TARGET
    assert found.further_audits is None


def test_a_bad_pocket_at_the_top_is_named():
    top = np.concatenate([np.full(300, 0.99), np.full(700, 0.9)])
    blocked = certify_clean(
        top, top, np.concatenate([np.arange(300) < 200, np.ones(700)]), target=0.85, risk=0.1
    )
    assert isinstance(blocked, CertificateRefusal)
    assert blocked.reason is RefusalReason.BLOCKED_AT_TOP
    assert blocked.steps[0].n_good == 200


def test_a_target_of_one_and_an_empty_stream_are_refused():
    for predicted, target, reason in (
        ([0.9], 1.0, RefusalReason.TARGET_UNPROVABLE),
        ([], 0.9, RefusalReason.NO_PREDICTIONS),
    ):
        found = certify_adjudicated(predicted, [0.9], [0], [0], 0.5, [0.7], target=target, risk=0.1)
        assert isinstance(found, CertificateRefusal)
        assert found.reason is reason


def adjudicated(seed, n, beta, reread, *, predicted, target=0.9, risk=0.1):
    """Certify after audits that miss errors at the rate ``beta`` (a number or a function)."""
    confidence, right = world(seed, n)
    rng = np.random.default_rng([seed, 1])
    overlooked = rng.random(n) < (beta(confidence) if callable(beta) else beta)
    draw = rng.random(n)
    return certify_adjudicated(
        predicted,
        confidence,
        ~right & ~overlooked,
        ~right & overlooked & (draw < reread),
        reread,
        draw,
        target=target,
        risk=risk,
    )


def test_with_every_agreement_read_again_the_proof_is_binomial_whoever_finds_the_errors():
    predicted, _ = world(1, 3000)
    confidence, right = world(2, 1500)
    for beta in (0.0, 0.7):
        found = adjudicated(2, 1500, beta, 1.0, predicted=predicted)
        assert isinstance(found, Certificate)
        above = confidence >= found.threshold
        wrong, n = np.count_nonzero(~right[above]), np.count_nonzero(above)
        assert (found.n_above, found.n_good) == (n, n - wrong)
        assert found.p_value == pytest.approx(stats.binom.cdf(wrong, n, 0.1))
        assert stats.binom.cdf(wrong, n, 1.0 - found.accuracy_bound) == pytest.approx(0.1, rel=1e-3)
        assert found.test_risk == 0.1


def test_second_readings_buy_automation():
    predicted, _ = world(1, 3000)
    sent = [
        adjudicated(2, 1500, 0.05, reread, predicted=predicted).to_dict().get("coverage", 0.0)
        for reread in (0.02, 0.1, 0.5, 1.0)
    ]
    assert 0.0 == sent[0] < 0.9 * sent[3] < sent[2]


@pytest.mark.parametrize("runs", [15, pytest.param(200, marks=pytest.mark.verify)])
def test_errors_that_auditors_miss_where_the_model_is_sure_are_not_hidden(runs):
    # Above .8 nearly all errors are missed. The pooled rate would be a third of that.
    predicted, _ = world(1, 3000)
    big = np.sort(world(7, 200_000)[0])[::-1]
    accuracy = np.cumsum(big) / np.arange(1, len(big) + 1)
    false = 0
    for seed in range(runs):
        found = adjudicated(
            300 + seed, 1500, lambda c: np.where(c > 0.8, 0.95, 0.02), 0.3, predicted=predicted
        )
        if isinstance(found, Certificate):
            false += accuracy[np.count_nonzero(big >= found.threshold) - 1] < 0.9
    assert false / runs <= 0.1 + 3 * share_error(0.1, runs)


def test_a_miss_rate_that_nothing_bounds_is_refused():
    for rate in (0.0, [0.0]):
        found = certify_adjudicated([0.9], [0.9], [0], [0], rate, [0.5], target=0.9, risk=0.1)
        assert isinstance(found, CertificateRefusal)
        assert found.reason is RefusalReason.MISS_RATE_UNKNOWN
    none = certify_adjudicated([0.9], [], [], [], 0.0, [], target=0.9, risk=0.1)
    assert isinstance(none, CertificateRefusal)
    assert none.reason is RefusalReason.MISS_RATE_UNKNOWN


def test_without_second_readings_near_the_top_nothing_is_proved():
    n = 400
    confidence = np.repeat([0.99, 0.8], n // 2)
    found = certify_adjudicated(
        confidence,
        confidence,
        np.zeros(n),
        np.zeros(n),
        np.repeat([0.0, 1.0], n // 2),
        np.full(n, 0.5),
        target=0.9,
        risk=0.1,
    )
    assert isinstance(found, CertificateRefusal)
    assert found.reason is RefusalReason.MISS_RATE_UNKNOWN


def test_fewer_second_readings_need_more_audits_and_the_plan_says_how_many():
    predicted, _ = world(1, 4000)
    further = {}
    for reread in (0.2, 1.0):
        plan = certify_adjudicated(predicted, [], [], [], reread, [], target=0.9, risk=0.1)
        assert isinstance(plan, CertificateRefusal)
        assert plan.reason is RefusalReason.NO_AUDITS
        further[reread] = plan.further_audits
    assert further[0.2] > 2 * further[1.0]
    proved = [
        adjudicated(500 + seed, further[0.2], 0.05, 0.2, predicted=predicted).certified
        for seed in range(15)
    ]
    assert np.mean(proved) >= 0.8 - 3 * share_error(0.8, 15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"missed": [0, 0]}, "as many misses"),
        ({"missed": [2]}, "0 or 1"),
        ({"missed": [1]}, "drawn for a second reading"),
        ({"missed": [1], "found_wrong": [1], "reread_draw": [0.1]}, "drawn for a second"),
        ({"reread_rate": [1.5]}, "rates of second readings"),
        ({"reread_draw": [1.0]}, "draws in"),
    ],
)
def test_bad_second_readings_are_named(change, words):
    good = {
        "predicted": [0.9],
        "confidence": [0.9],
        "found_wrong": [0],
        "missed": [0],
        "reread_rate": [0.5],
        "reread_draw": [0.7],
        "target": 0.9,
        "risk": 0.1,
    }
    with pytest.raises(ValueError, match=words):
        certify_adjudicated(**{**good, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"confidence": [0.9, 0.8]}, "as many outcomes"),
        ({"confidence": [1.2]}, r"\[0, 1\]"),
        ({"right": [2]}, "0 or 1"),
        ({"target": 0.0}, "target"),
        ({"risk": 1.0}, "risk"),
        ({"predicted": [np.nan]}, "predicted"),
    ],
)
def test_bad_arguments_are_named(change, words):
    good = {"predicted": [0.9], "confidence": [0.9], "right": [1], "target": 0.9, "risk": 0.1}
    with pytest.raises(ValueError, match=words):
        certify_clean(**{**good, **change})


def assert_violations_stay_below_the_risk(n, bias, runs):
    pool, _ = world(0, 5000)
    big = np.sort(world(7, 400_000)[0])[::-1]
    accuracy = np.cumsum(np.clip(big - bias, 0, 1)) / np.arange(1, len(big) + 1)
    violated = 0
    for seed in range(runs):
        confidence, right = world(1000 + seed, n, bias)
        found = certify_clean(pool, confidence, right, target=0.9, risk=0.1)
        if isinstance(found, Certificate):
            sent = np.count_nonzero(big >= found.threshold)
            violated += accuracy[sent - 1] < 0.9
    assert violated / runs <= 0.1 + 3 * share_error(0.1, runs)


def test_few_certificates_are_false():
    assert_violations_stay_below_the_risk(200, 0.06, runs=40)


@pytest.mark.verify
@pytest.mark.parametrize("bias", [0.0, 0.06], ids=["calibrated", "over-confident"])
@pytest.mark.parametrize("n", [200, 1000])
def test_violations_in_simulation_stay_below_the_risk(n, bias):
    assert_violations_stay_below_the_risk(n, bias, runs=400)


def test_a_certificate_says_how_many_checks_a_larger_share_would_take():
    pool = np.repeat([0.99, 0.97, 0.5], 200)
    confidence = np.repeat([0.99, 0.97], [70, 10])
    right = np.append(np.ones(70), np.arange(10) >= 2)
    some = certify_clean(pool, confidence, right, target=0.95, risk=0.05)
    assert isinstance(some, Certificate)
    assert some.next_audits is not None
    assert (some.threshold, some.next_audits > 80, some.next_coverage) == (0.99, True, 2 / 3)
    every = certify_clean(pool, confidence, right, target=0.5, risk=0.05)
    assert isinstance(every, Certificate)
    assert (every.threshold, every.next_audits, every.next_coverage) == (0.5, None, None)


@pytest.mark.parametrize(
    ("each_wrong", "once_wrong", "certified"), [(2, 2, True), (30, 2, False), (2, 8, False)]
)
def test_audits_of_copies_prove_a_threshold_by_message_and_by_document(
    each_wrong: int, once_wrong: int, certified: bool
) -> None:
    def columns(n: int, wrong: int) -> tuple[object, ...]:
        return [0.95] * n, np.arange(n) < wrong, np.zeros(n), 1.0, np.zeros(n)

    claim = {"target": 0.9, "risk": 0.05, "looks": [100], "order": [0.95]}
    each, once = columns(200, each_wrong), columns(90, once_wrong)
    different = CountedOnce(*once, looks=[90])  # all that came since are copies
    proof = certify_adjudicated([0.95] * 99, *each, **claim, different=different)
    alone = certify_adjudicated([0.95] * 99, *each, **claim)
    of_once = certify_adjudicated([0.95] * 99, *once, **(claim | {"looks": [89]}))
    (step,) = proof.steps
    assert proof.certified is certified is (alone.certified and of_once.certified)
    assert step.p_value >= alone.steps[0].p_value
    assert (step.n_audits, step.n_good) == (200, 200 - each_wrong)
    assert (step.n_different, step.n_different_good) == (90, 90 - once_wrong)
    assert alone.steps[0].n_different is None
