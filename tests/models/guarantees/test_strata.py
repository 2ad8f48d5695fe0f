"""Two strata with different chances of an audit: the test against enumeration, and its power."""

import numpy as np
import pytest
from scipy import stats

from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.joint import Sample
from setwise.models.guarantees.strata import ThinSample, two_strata_p_value


def triples(n, m, rate):
    return np.array(
        [
            (k, j, e)
            for k in range(n + 1)
            for j in range(n + 1 - k if rate < 1 else 1)
            for e in range(m + 1)
        ]
    )


@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize(
    ("n", "m", "documents", "of", "wrong", "risk"),
    [
        (10, 4, 200, 1_000, 0.4, 0.1),
        pytest.param(12, 5, 40, 200, 0.3, 0.1, marks=pytest.mark.verify),
        pytest.param(12, 6, 30, 300, 0.4, 0.05, marks=pytest.mark.verify),
    ],
)
def test_a_true_hypothesis_is_rejected_with_at_most_the_risk(
    n, m, documents, of, wrong, risk, rate
):
    rows = triples(n, m, rate)
    rejected = np.array(
        [
            two_strata_p_value(Sample(n, k, j, rate), ThinSample(m, e, documents, of), wrong, risk)
            <= risk
            for k, j, e in rows.tolist()
        ]
    )
    k, j, e = rows.T
    low, high = ThinSample(m, 0, documents, of).weights(0.01 * risk)
    for weight in np.linspace(low, high, 5):
        for thin in np.linspace(0, 1, 21):
            rich = (wrong - weight * thin) / (1 - weight)
            if not 0 <= rich <= 1:
                continue
            for share in np.linspace(0, 1, 11) if rate < 1 else [0.0]:
                cells = [rich * (1 - share), rate * rich * share]
                law = stats.multinomial.pmf(
                    np.column_stack([k, j, n - k - j]), n, [*cells, 1 - sum(cells)]
                ) * stats.binom.pmf(e, m, thin)
                assert law[rejected].sum() <= 0.99 * risk + 1e-9


def test_unknown_weights_are_part_of_the_test():
    """With the share of the sample in place of the true one, the level would be above the risk."""
    draw = np.random.default_rng(0)
    false, runs, n, m = 0, 300, 60, 30
    seen = {}
    for _ in range(runs):
        documents = draw.binomial(100, 0.3)
        counts = draw.binomial(n, 0.03), draw.binomial(m, 0.265), documents
        if counts not in seen:
            sample, thin = Sample(n, counts[0], 0, 1.0), ThinSample(m, counts[1], documents, 100)
            seen[counts] = two_strata_p_value(sample, thin, 0.1, 0.1)
        false += seen[counts] <= 0.1
    assert false <= 0.1 * runs + 3 * np.sqrt(runs * 0.09)


@pytest.mark.parametrize("documents", [500, 2_500])
def test_one_error_more_never_makes_a_proof(documents):
    def value(found, missed, thin):
        sample = Sample(120, found, missed, 0.5)
        return two_strata_p_value(sample, ThinSample(30, thin, documents, 2_500), 0.1, 0.1)

    for counts in [(0, 0, 0), (2, 0, 0), (2, 1, 0), (3, 0, 1)]:
        here = value(*counts) <= 0.1
        for place in range(3):
            more = [count + (at == place) for at, count in enumerate(counts)]
            assert here or not value(*more) <= 0.1


def test_strata_alike_lose_little_to_one_sample():
    one = float(upper_tail(283, 300, 0.9))
    two = two_strata_p_value(Sample(250, 14, 0, 1.0), ThinSample(50, 3, 8_000, 48_000), 0.1, 0.1)
    assert one <= two <= 0.09


def test_what_is_unknown_of_a_stratum_counts_as_wrong():
    nothing = ThinSample(0, 0, 600, 1_000)
    assert two_strata_p_value(Sample(500, 0, 0, 1.0), nothing, 0.1, 0.1) == 1.0
    little = ThinSample(0, 0, 20, 1_000)
    assert two_strata_p_value(Sample(500, 0, 0, 1.0), little, 0.1, 0.1) < 0.01
