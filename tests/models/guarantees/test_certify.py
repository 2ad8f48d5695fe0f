"""Proofs for anybody's confidences: equal to the service's, and false as rarely as promised."""

import numpy as np
import pytest

from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.certificates import Certificate
from setwise.models.guarantees.certify import certify
from setwise.models.guarantees.checked import checked_confidences
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


def test_answers_are_thinned_to_the_least_probability_above_each_threshold():
    confidence = np.repeat([0.99, 0.9, 0.5], [1_000, 1_000, 2_000])
    weights = np.repeat([1.0, 3.0, 9.0], [1_000, 1_000, 2_000])
    proof = certify(confidence, np.arange(4_000) < 1_900, target=TARGET, weights=weights)
    assert proof.threshold == 0.9
    for step, expected in zip(proof.steps[-2:], (333 + 1_000, 111 + 333 + 2_000), strict=True):
        assert step.n_audits == pytest.approx(expected, abs=80)


def test_the_share_that_is_sent_is_that_of_the_stream():
    draw = np.random.default_rng(3)
    confidence = draw.beta(5, 1, 40_000)
    chance = np.where(confidence > 0.85, 0.09, 0.01)
    drawn = draw.random(40_000) < chance
    right = draw.random(40_000) < confidence
    proof = certify(confidence[drawn], right[drawn], target=TARGET, weights=1 / chance[drawn])
    assert proof.coverage == pytest.approx((confidence >= proof.threshold).mean(), abs=0.04)
    # Where all were drawn alike, nothing is lost to those that were seldom drawn.
    high = drawn & (confidence > 0.85)
    above = next(step for step in proof.steps if step.threshold > 0.86)
    assert above.n_audits == (confidence[high] >= above.threshold).sum()


def test_nothing_of_a_proof_depends_on_the_order_of_the_checks_or_on_a_seed():
    draw = np.random.default_rng(4)
    confidence = np.round(draw.beta(9, 1, 300), 2)
    right, weights = draw.random(300) < confidence, draw.choice([1.0, 4.0], 300)
    turned = draw.permutation(300)
    assert certify(confidence, right, 0.8, weights) == certify(
        confidence[turned], right[turned], 0.8, weights[turned]
    )


@pytest.mark.parametrize("size", [10, 30])
def test_near_copies_count_once(size):
    assert_copies_prove_little(size, 40)


@pytest.mark.verify
@pytest.mark.parametrize("size", [10, 30])
def test_near_copies_count_once_in_many_runs(size):
    assert_copies_prove_little(size, 1_000)


def assert_copies_prove_little(size, runs):
    """Answers come in groups that are right or wrong together, and a third of them is checked."""
    false = 0
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        group = np.repeat(np.arange(3_000 // size), size)
        right = draw.random(len(group))[group] < TARGET - 0.005
        checked = np.flatnonzero(draw.random(len(group)) < 1 / 3)
        proof = certify(
            np.full(len(checked), 0.95), right[checked], TARGET, clusters=group[checked]
        )
        false += proof.certified
    assert false <= RISK * runs + 3 * np.sqrt(runs * RISK * (1 - RISK))


@pytest.mark.parametrize(("form_right", "certified"), [(0.5, False), (1.0, True)])
def test_a_form_that_fills_the_stream_counts_as_often_as_it_comes(form_right, certified):
    """A fifth of the messages follow one form; of the others .97 are right."""
    draw = np.random.default_rng(5)
    group = np.where(draw.random(1_000) < 0.2, -1, np.arange(1_000))
    right = draw.random(1_000) < np.where(group == -1, form_right, 0.97)
    assert certify([0.95] * 1_000, right, TARGET, clusters=group).certified is certified


def test_a_row_that_is_its_own_cluster_changes_nothing():
    draw = np.random.default_rng(6)
    confidence = draw.beta(9, 1, 400)
    right = draw.random(400) < confidence
    alone = certify(confidence, right, 0.8)
    assert certify(confidence, right, 0.8, clusters=np.arange(400)).steps == alone.steps


def test_answers_without_the_name_of_a_cluster_are_alone():
    confidence, right = [0.99] * 60, [1] * 60
    alone = certify(confidence, right, 0.9)
    assert alone.certified
    for missing in (None, float("nan")):
        clusters = ["a", *[missing] * 59]
        assert certify(confidence, right, 0.9, clusters=clusters).steps == alone.steps
        held = np.array(clusters, dtype=object)
        assert certify(confidence, right, 0.9, clusters=held).steps == alone.steps
    with pytest.raises(ValueError, match=r"clusters has shape \(1,\); 60 confidences need"):
        certify(confidence, right, 0.9, clusters=["a"])


def test_a_confidence_outside_by_rounding_counts_as_the_bound():
    rounded = [np.float32(1.0) + np.float32(1.2e-7), 1.0 - np.float32(1.0000001)]
    assert [float(each) for each in rounded] != [1.0, 0.0]
    assert checked_confidences("confidence", rounded).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"row 0 holds 1\.001: give probabilities"):
        checked_confidences("confidence", [1.001])


def test_several_attempts_on_growing_data_share_the_risk():
    draw = np.random.default_rng(7)
    confidence = draw.beta(9, 1, 900)
    right = draw.random(900) < confidence
    looks = [400, 600, 900]
    attempts = [certify(confidence[:n], right[:n], 0.8, looks=looks) for n in looks]
    assert [round(each.test_risk, 3) for each in attempts] == [0.04, 0.025, 0.015]
    assert len({each.order for each in attempts}) == 1
    alone = certify(confidence, right, 0.8)
    assert attempts[2].threshold >= alone.threshold
    assert certify(confidence[:600], right[:600], 0.8, looks=[400]) == attempts[1]


@pytest.mark.parametrize("world", WORLDS)
def test_few_proofs_of_several_attempts_are_false(world):
    assert_few_paths_are_false(world, 30)


@pytest.mark.verify
@pytest.mark.parametrize("world", WORLDS)
def test_few_proofs_of_several_attempts_are_false_in_many_runs(world):
    assert_few_paths_are_false(world, 1_000)


def assert_few_paths_are_false(world, runs):
    false = 0
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        confidence, chance = world(draw, 600)
        right = draw.random(600) < chance
        looks = [200, 300, 450, 600]
        proofs = (certify(confidence[:n], right[:n], TARGET, looks=looks) for n in looks)
        false += any(
            proof.certified and accuracy_above(world, proof.threshold) < TARGET for proof in proofs
        )
    assert false <= RISK * runs + 3 * np.sqrt(runs * RISK * (1 - RISK))


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
        ({"clusters": [1]}, "clusters has shape"),
        ({"looks": [2, 1]}, "looks must be rising"),
        ({"looks": [0, 2]}, "looks must be rising"),
        ({"looks": [1.5]}, "looks must be rising"),
        ({"looks": [3]}, "the first attempt had 3 checks"),
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
