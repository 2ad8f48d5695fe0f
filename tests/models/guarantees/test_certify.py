"""Proofs for anybody's confidences: equal to the service's, and false as rarely as promised."""

import numpy as np
import pytest

from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.certificates import Certificate
from setwise.models.guarantees.certify import certify
from setwise.models.guarantees.thresholds import certify_adjudicated

TARGET, RISK = 0.9, 0.1


def calibrated(draw, n):
    confidence = draw.beta(5, 1, n)
    return confidence, confidence


def overconfident(draw, n):
    confidence = draw.beta(8, 1, n)
    return confidence, np.clip(confidence - 0.06, 0, 1)


def constant(draw, n):
    return np.full(n, 0.95), np.full(n, TARGET - 0.001)


def tied(draw, n):
    level = draw.integers(4, size=n)
    return np.array([0.99, 0.95, 0.9, 0.8])[level], np.array([0.899, 0.9, 0.93, 0.5])[level]


def worthless(draw, n):
    """Confidences that say nothing, of answers that just miss the target."""
    return draw.beta(5, 1, n), np.full(n, TARGET - 0.001)


PEOPLE = ("right", "overlook", "drawn")
WORLDS = (calibrated, overconfident, constant, tied, worthless)


def accuracy_above(world, threshold):
    confidence, chance = world(np.random.default_rng(99), 200_000)
    return chance[confidence >= threshold].mean()


@pytest.mark.parametrize("people", PEOPLE)
def test_few_proofs_are_false(people):
    assert_few_proofs_are_false(worthless, people, 40)


@pytest.mark.verify
@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("world", WORLDS)
def test_few_proofs_are_false_in_many_runs(world, people):
    assert_few_proofs_are_false(world, people, 1_000)


def assert_few_proofs_are_false(world, people, runs):
    false = 0
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        confidence, chance = world(draw, 300)
        right, more = draw.random(300) < chance, {}
        if people == "overlook":  # every third error, and half of what they accept is read again
            agreed = right | (draw.random(300) < 1 / 3)
            more = {"agreed": agreed, "reread": draw.random(300) < 0.5, "reread_rate": 0.5}
        elif people == "drawn":  # the less confident answers are checked three times as often
            probability = np.where(confidence < 0.9, 0.6, 0.2)
            drawn = draw.random(300) < probability
            confidence, right = confidence[drawn], right[drawn]
            more = {"weights": 1 / probability[drawn]}
        proof = certify(confidence, right, target=TARGET, risk=RISK, **more)
        false += proof.certified and accuracy_above(world, proof.threshold) < TARGET
    # Three standard errors above the risk.
    assert false <= RISK * runs + 3 * np.sqrt(runs * RISK * (1 - RISK))


def test_it_is_the_proof_of_the_service():
    draw = np.random.default_rng(1)
    predicted, confidence = draw.beta(9, 1, 2_000), draw.beta(9, 1, 800)
    right = draw.random(800) < confidence
    agreed = right | (draw.random(800) < 0.3)
    reread = draw.random(800)
    proof = certify(
        confidence,
        np.where(~agreed | (reread < 0.4), right, np.nan),
        target=0.8,
        agreed=agreed,
        reread=reread < 0.4,
        reread_rate=0.4,
        predicted=predicted,
    )
    assert isinstance(proof, Certificate)
    assert proof == certify_adjudicated(
        predicted,
        confidence,
        ~right & ~agreed,
        ~right & agreed & (reread < 0.4),
        0.4,
        reread,
        target=0.8,
        risk=0.1,
    )


def test_known_truth_is_tested_by_the_binomial_test():
    proof = certify([0.97] * 100, [0] * 3 + [True] * 96 + [None], target=TARGET)
    assert (proof.threshold, proof.n_above, proof.n_good) == (0.97, 100, 96)
    assert proof.p_value == pytest.approx(float(upper_tail(96, 100, TARGET)))


def test_answers_that_were_likelier_drawn_are_thinned():
    confidence = np.repeat([0.5, 0.99], [3_000, 1_000])
    weights = np.repeat([1.0, 3.0], [3_000, 1_000])
    proof = certify(confidence, confidence > 0.9, target=TARGET, weights=weights)
    assert proof.n_above == 1_000
    assert proof.excluded["thinned"] == pytest.approx(2_000, abs=4 * np.sqrt(3_000 * 2 / 9))


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"confidence": [0.5, 1.2]}, r"must lie in \[0, 1\]"),
        ({"confidence": [[0.5], [0.2]]}, "must be a list"),
        ({"right": [1]}, "right has shape"),
        ({"right": [1, 2]}, "right must hold 0 and 1"),
        ({"target": 1.1}, "target is 1.1"),
        ({"risk": 0.0}, "risk is 0.0"),
        ({"weights": [1, 0]}, "weights must be positive"),
        ({"weights": [1]}, "weights has shape"),
        ({"agreed": [1, 1]}, "give reread"),
        ({"reread": [1, 1]}, "give agreed"),
        ({"agreed": [1, 1], "reread": [1, 0]}, "reread_rate is needed"),
        ({"agreed": [1, 1], "reread": [1, 0], "reread_rate": 0.0}, "reread_rate is 0.0"),
    ],
)
def test_what_cannot_be_read_is_refused(arguments, fault):
    usual = {"confidence": [0.5, 0.9], "right": [0, 1], "target": TARGET}
    with pytest.raises(ValueError, match=fault):
        certify(**usual | arguments)
