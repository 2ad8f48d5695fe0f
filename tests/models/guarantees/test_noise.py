"""Noise rates from gold labels: estimates, pooling, and what forbids their use."""

import json

import numpy as np
import pytest
from scipy import stats

from setwise.models.guarantees.noise import (
    MIN_GOLD_RIGHT,
    MIN_GOLD_WRONG,
    NoiseFault,
    NoiseRates,
    estimate_noise,
)
from setwise.models.guarantees.proportions import (
    Proportion,
    WeightSums,
    selected_bounds,
    shrink_proportions,
    weighted_proportion,
)
from tests.models.bounds import share_error


def gold(seed, n, alpha, beta, accuracy=0.8):
    """Return blind answers and truth of one group; alpha may differ from row to row."""
    rng = np.random.default_rng(seed)
    right = rng.random(n) < accuracy
    return np.where(right, rng.random(n) >= alpha, rng.random(n) < beta), right


def faults(group):
    return {finding.fault for finding in group.findings}


def test_without_weights_the_interval_is_clopper_and_pearsons():
    found = weighted_proportion([1] * 7 + [0] * 23, level=0.9)
    exact = stats.binomtest(7, 30).proportion_ci(0.9, "exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert found.effective == pytest.approx(30)


@pytest.mark.parametrize("runs", [100, pytest.param(1000, marks=pytest.mark.verify)])
def test_the_interval_of_a_weighted_share_covers_it(runs):
    # Disagreements are all adjudicated, a tenth of the agreements are read again.
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(runs):
        disagreed = rng.random(500) < 0.2
        kept = disagreed | (rng.random(500) < 0.1)
        found = weighted_proportion(disagreed[kept], np.where(disagreed, 1.0, 10.0)[kept])
        covered.append(found.low <= 0.2 <= found.high)
    assert np.mean(covered) >= 0.9 - 3 * share_error(0.9, runs)


def test_equal_weights_do_not_change_a_share():
    hit = np.arange(40) < 9
    plain, weighted = weighted_proportion(hit), weighted_proportion(hit, np.full(40, 3.0))
    assert (weighted.estimate, weighted.low, weighted.high) == pytest.approx(
        (plain.estimate, plain.low, plain.high)
    )


def test_no_row_means_that_nothing_is_known():
    nothing = weighted_proportion([])
    assert (nothing.low, nothing.high, nothing.effective) == (0.0, 1.0, 0.0)


def test_rates_are_those_of_the_counts():
    agreed, right = gold(0, 2000, 0.2, 0.1)
    found = estimate_noise(["a"] * 2000, ["g"] * 2000, agreed, right).groups["g"]
    assert found.usable
    assert found.rates.alpha == pytest.approx(np.mean(~agreed[right]))
    assert found.rates.beta == pytest.approx(np.mean(agreed[~right]))
    assert found.alpha.low < 0.2 < found.alpha.high
    assert found.beta.low < 0.1 < found.beta.high


def test_an_estimate_is_json():
    agreed, right = gold(0, 300, 0.2, 0.1)
    found = estimate_noise(["a"] * 300, ["g"] * 300, agreed, right)
    stored = json.loads(json.dumps(found.to_json()))
    assert stored["groups"]["g"]["alpha"]["estimate"] == found.groups["g"].alpha.estimate
    assert stored["groups"]["g"]["usable"] is True
    assert stored["annotators"][0]["name"] == "a"


def test_weights_undo_that_agreements_are_seldom_read_again():
    agreed, right = gold(1, 40_000, 0.2, 0.05)
    kept = ~agreed | (np.random.default_rng(2).random(40_000) < 0.1)
    weight = np.where(agreed, 10.0, 1.0)[kept]
    who = ["a"] * int(kept.sum())
    raw = estimate_noise(who, who, agreed[kept], right[kept]).groups["a"]
    weighted = estimate_noise(who, who, agreed[kept], right[kept], weight=weight).groups["a"]
    assert raw.alpha.estimate > 0.6
    assert weighted.alpha.estimate == pytest.approx(0.2, abs=0.02)
    assert weighted.beta.estimate == pytest.approx(0.05, abs=0.02)
    assert weighted.alpha.effective < 40_000 * 0.8  # fewer than if all had been read again


def test_short_groups_are_put_together_and_each_long_one_stands_alone():
    agreed, right = gold(3, 700, 0.2, 0.02)
    group = np.array(["long"] * 500 + ["short"] * 100 + ["brief"] * 100)
    right[500:600] = np.arange(100) < 85  # 15 wrong: too few
    right[600:] = np.arange(100) < 40  # 40 right: too few
    agreed[500:] = right[500:] & (np.arange(200) % 5 > 0)
    found = estimate_noise(group, group, agreed, right).groups
    assert found["long"].pooled == ("long",)
    assert found["short"].pooled == found["brief"].pooled == ("brief", "short")
    assert found["short"].alpha == found["brief"].alpha
    assert found["short"].alpha.n == 125
    assert found["short"].usable


def test_too_few_gold_labels_block_and_say_how_many_are_needed():
    agreed, right = np.ones(40), np.arange(40) < 35
    found = estimate_noise(["a"] * 40, ["g"] * 40, agreed, right).groups["g"]
    needed = {finding.fault: finding.needed for finding in found.findings}
    assert needed[NoiseFault.TOO_FEW_GOLD_RIGHT] == MIN_GOLD_RIGHT - 35
    assert needed[NoiseFault.TOO_FEW_GOLD_WRONG] == MIN_GOLD_WRONG - 5
    assert not found.usable


@pytest.mark.parametrize(
    ("alpha", "beta", "fault"),
    [(0.6, 0.5, NoiseFault.NOT_SEPARATED), (0.5, 0.25, NoiseFault.TOO_NOISY)],
)
def test_answers_that_say_too_little_are_blocked(alpha, beta, fault):
    agreed, right = gold(4, 3000, alpha, beta)
    found = estimate_noise(["a"] * 3000, ["g"] * 3000, agreed, right).groups["g"]
    assert faults(found) == {fault}
    assert not found.usable


def test_audits_that_all_agree_say_nothing_of_beta():
    found = estimate_noise(["a"] * 200, ["g"] * 200, np.ones(200), np.ones(200)).groups["g"]
    assert NoiseFault.TOO_FEW_GOLD_WRONG in faults(found)
    assert found.alpha.estimate == 0.0


def test_an_alpha_that_varies_with_confidence_is_taken_by_half():
    rng = np.random.default_rng(5)
    confidence = rng.random(4000)
    agreed, right = gold(6, 4000, np.where(confidence < 0.5, 0.35, 0.1), 0.02)
    who = ["g"] * 4000
    found = estimate_noise(who, who, agreed, right, confidence=confidence).groups["g"]
    assert faults(found) == {NoiseFault.ALPHA_VARIES}
    assert found.usable
    alpha, beta = found.training_rates([0.2, 0.9])
    assert alpha == pytest.approx([0.35, 0.1], abs=0.04)
    assert beta == pytest.approx([0.02, 0.02], abs=0.015)
    even = estimate_noise(who, who, *gold(7, 4000, 0.2, 0.02), confidence=confidence)
    assert even.groups["g"].split is None


def test_rates_for_training_understate_alpha():
    agreed, right = gold(8, 400, 0.2, 0.1)
    found = estimate_noise(["a"] * 400, ["g"] * 400, agreed, right).groups["g"]
    alpha, beta = found.training_rates([0.5])
    assert found.alpha.low < alpha[0] < found.alpha.estimate
    assert beta[0] == found.beta.estimate


def test_annotators_are_drawn_towards_their_group():
    names = np.repeat([f"a{i}" for i in range(12)], 60)
    agreed, right = gold(10, 720, 0.25, 0.05)
    found = estimate_noise(names, ["g"] * 720, agreed, right)
    group = found.groups["g"].alpha.estimate
    assert [one.name for one in found.annotators] == sorted(set(names))
    for annotator in found.annotators:
        raw = np.mean(~agreed[right & (names == annotator.name)])
        shrunk = annotator.alpha.estimate
        assert min(raw, group) - 0.01 <= shrunk <= max(raw, group) + 0.01


def test_shrinking_beats_raw_and_pooled_rates_of_different_annotators():
    rng = np.random.default_rng(11)
    errors = {"raw": [], "pooled": [], "shrunk": []}
    for _ in range(20):
        truth = rng.beta(4, 12, 20)
        hits = rng.binomial(30, truth)
        sources = [weighted_proportion(np.arange(30) < k) for k in hits]
        raw = hits / 30
        shrunk = np.array([one.estimate for one in shrink_proportions(sources)])
        for name, guess in (("raw", raw), ("pooled", raw.mean()), ("shrunk", shrunk)):
            errors[name].append(np.mean((guess - truth) ** 2))
    assert np.mean(errors["shrunk"]) < 0.8 * np.mean(errors["raw"])
    assert np.mean(errors["shrunk"]) < 0.8 * np.mean(errors["pooled"])


def test_sources_that_know_nothing_take_the_common_rate():
    known = weighted_proportion(np.arange(100) < 20)
    unknown = Proportion(0.5, 0.0, 1.0, 0.9, 0, 0.0)
    shrunk = shrink_proportions([known, known, known, unknown])
    assert shrunk[3].estimate == pytest.approx(0.2, abs=0.02)
    assert shrunk[3].high - shrunk[3].low > shrunk[0].high - shrunk[0].low
    assert shrink_proportions([unknown]) == [unknown]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agreed": [1]}, "one value a row"),
        ({"right": [1, 2]}, "right is 0 or 1"),
        ({"weight": [1.0, 0.0]}, "positive"),
    ],
)
def test_bad_rows_are_named(change, words):
    rows = {"annotator": ["a", "b"], "group": ["g", "g"], "agreed": [1, 0], "right": [1, 1]}
    with pytest.raises(ValueError, match=words):
        estimate_noise(**{**rows, **change})


@pytest.mark.parametrize("rates", [(-0.1, 0.0), (0.0, 1.1), (float("nan"), 0.0)])
def test_a_noise_rate_is_a_probability(rates):
    with pytest.raises(ValueError, match="between 0 and 1"):
        NoiseRates(*rates)


def adjudicated(rng, n, beta, reread, *, wrong=0.25, alpha=0.15):
    """Return the gold labels of n audits: all contradictions, and some agreements."""
    right = rng.random(n) >= wrong
    agreed = np.where(right, rng.random(n) >= alpha, rng.random(n) < beta)
    read = ~agreed | (rng.random(n) < reread)
    return agreed[read], right[read], np.where(agreed, 1 / reread, 1.0)[read]


@pytest.mark.parametrize(
    ("beta", "wrong", "reread", "runs"),
    [
        (0.1, 0.6, 0.5, 25),
        *(
            pytest.param(*world, 200, marks=pytest.mark.verify)
            for world in ((0.05, 0.25, 0.1), (0.3, 0.25, 0.1), (0.1, 0.6, 0.5))
        ),
    ],
)
def test_intervals_of_both_rates_cover_from_300_audits_on(beta, wrong, reread, runs):
    rng = np.random.default_rng(12)
    covered = np.zeros(2)
    for _ in range(runs):
        agreed, right, weight = adjudicated(rng, 300, beta, reread, wrong=wrong)
        names = ["g"] * len(agreed)
        found = estimate_noise(names, names, agreed, right, weight=weight).groups["g"]
        for place, (one, truth) in enumerate(((found.alpha, 0.15), (found.beta, beta))):
            covered[place] += one.low <= truth <= one.high
    assert (covered / runs >= 0.9 - 3 * share_error(0.9, runs)).all()


@pytest.mark.parametrize("weight", [1.0, 7.0])
def test_rows_of_one_weight_for_each_outcome_have_exact_bounds(weight):
    hits, others = (WeightSums.of(np.full(n, w), w) for n, w in ((4, weight), (30, 1.0)))
    exact = np.array(weighted_proportion([1] * 4 + [0] * 30).bounds(0.05))
    odds = weight * exact / (1.0 - exact)
    assert selected_bounds(hits, others, 0.05) == pytest.approx(odds / (1.0 + odds))


@pytest.mark.parametrize(
    ("alpha", "beta", "accuracy", "served", "share"),
    [
        pytest.param((0.2, 0.1), (0.1, 0.1), (0.6, 0.9), (0.144, 0.02), (0.5, 0.5), id="served"),
        pytest.param((0.05, 0.4), (0.3, 0.02), (0.5, 0.95), (0.1, 0.5), (0.7, 0.3), id="unlike"),
        pytest.param((0.2, 0.1), (0.1, 0.1), (0.6, 0.9), (0.3, 0.02), (0.8, 0.2), id="small"),
        pytest.param((0.1, 0.5), (0.1, 0.1), (0.8, 0.8), (0.5, 0.02), (0.9, 0.1), id="rare"),
        pytest.param((0.1, 0.1), (0.02, 0.5), (0.5, 0.93), (0.02, 0.144), (0.5, 0.5), id="top"),
        pytest.param(
            *((0.3, 0.2, 0.1), (0.05, 0.1, 0.2), (0.5, 0.7, 0.9), (0.04, 0.2, 0.8)),
            (0.4, 0.3, 0.3),
            id="three",
        ),
    ],
)
@pytest.mark.parametrize("n", [150, 1_000, 3_000])
@pytest.mark.parametrize("runs", [100, pytest.param(2_000, marks=pytest.mark.verify)])
def test_each_bound_of_rates_that_are_read_again_at_several_rates_has_its_risk(
    alpha, beta, accuracy, served, share, n, runs, record_property
):
    """Chances of a second reading, rates and accuracies differ from stratum to stratum."""
    alpha, beta, accuracy, served, share = map(np.array, (alpha, beta, accuracy, served, share))
    right, wrong = share * accuracy, share * (1.0 - accuracy)
    cells = np.array([right * alpha, right * (1.0 - alpha) * served, wrong * beta * served])
    cells = np.append(cells, [wrong * (1.0 - beta)], axis=0)
    chances = np.append(cells, 1.0 - cells.sum())
    rng = np.random.default_rng(64)
    counts = rng.multinomial(n, chances, size=runs)[:, :-1].reshape(runs, *cells.shape)
    once, often = np.ones(len(share)), 1.0 / served
    for number, (truth, hits, others) in enumerate(
        (
            (right @ alpha / right.sum(), (0, once), (1, often)),
            (wrong @ beta / wrong.sum(), (2, often), (3, once)),
        )
    ):
        bounds = np.array(
            [
                selected_bounds(
                    *(
                        WeightSums(row[cell] @ weight, row[cell] @ weight**2, weight.max())
                        for cell, weight in (hits, others)
                    ),
                    0.05,
                )
                for row in counts
            ]
        )
        beyond = np.mean(truth < bounds[:, 0]), np.mean(truth > bounds[:, 1])
        record_property(("alpha", "beta")[number], [float(share) for share in beyond])
        assert max(beyond) <= 0.05 + 4 * share_error(0.05, runs)  # 72 bounds are compared


@pytest.mark.parametrize("runs", [8, pytest.param(300, marks=pytest.mark.verify)])
def test_rates_are_known_well_enough_from_the_audits_of_a_service(runs):
    """A true rate lies within 90 % intervals, and is hardly ever refused when set by hand."""
    rng = np.random.default_rng(5)
    alpha, beta, served = np.array([0.2, 0.1]), 0.1, np.array([0.144, 0.02])
    accuracy = np.array([0.6, 0.9])
    truths = float(accuracy @ alpha / accuracy.sum()), beta
    covered, refused, width, usable = np.zeros(2), np.zeros(2), np.zeros(2), 0
    for _ in range(runs):
        place = rng.integers(0, 2, 2_000)
        right = rng.random(2_000) < accuracy[place]
        agreed = np.where(right, rng.random(2_000) >= alpha[place], rng.random(2_000) < beta)
        read = ~agreed | (rng.random(2_000) < served[place])
        names, again = ["g"] * int(read.sum()), served[place][read]
        found = estimate_noise(
            *(names, names, agreed[read], right[read]),
            weight=np.where(agreed[read], 1.0 / again, 1.0),
            read_again=again,
        ).groups["g"]
        for number, (one, truth) in enumerate(zip((found.alpha, found.beta), truths, strict=True)):
            covered[number] += one.low <= truth <= one.high
            refused[number] += not one.possible[0] <= truth <= one.possible[1]
            width[number] += (one.high - one.low) / runs
        usable += found.usable
    assert (covered / runs >= 0.9 - 3 * share_error(0.9, runs)).all()
    assert (refused / runs <= 0.01 + 3 * share_error(0.01, runs)).all()
    assert width[0] < 0.1
    assert width[1] < 0.3
    assert usable / runs > 0.9


def test_contradictions_that_wait_for_a_lead_widen_the_intervals_to_both_extremes():
    agreed, right, weight = adjudicated(np.random.default_rng(3), 400, 0.1, 0.5)
    names = ["g"] * len(agreed)

    def noise(more_right=0, more_wrong=0, **rest):
        extra = more_right + more_wrong
        return estimate_noise(
            names + ["g"] * extra,
            names + ["g"] * extra,
            [*agreed, *[0] * extra],
            [*right, *[1] * more_right, *[0] * more_wrong],
            weight=[*weight, *[1.0] * extra],
            **rest,
        ).groups["g"]

    found = noise(waiting={"g": 30, "other": 5})
    plain, if_right, if_wrong = noise(), noise(more_right=30), noise(more_wrong=30)
    assert (found.alpha.low, found.alpha.high) == (plain.alpha.low, if_right.alpha.high)
    assert (found.beta.low, found.beta.high) == (if_wrong.beta.low, plain.beta.high)
    assert found.alpha.estimate == plain.alpha.estimate
    with pytest.raises(ValueError, match="fewer than 0"):
        noise(waiting={"g": -1})
