"""Several looks at growing audits: the law of the path against enumeration, and its level."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from setwise.models.guarantees import paths
from setwise.models.guarantees.joint import Sample
from setwise.models.guarantees.paths import Look, path_p_value
from setwise.models.guarantees.paths.spending import (
    risk_of_family,
    risk_on_demand,
    risk_spent,
)

WRONG = 0.3


def counts(n):
    return [(k, j) for k in range(n + 1) for j in range(n + 1 - k)]


def block_law(n, found, missed, rate):
    """Return the probability of each pair of counts of a block of audits."""
    pairs = np.array(counts(n))
    cells = np.column_stack([pairs, n - pairs.sum(axis=1)])
    law = stats.multinomial.pmf(cells, n, [found, rate * missed, 1 - found - rate * missed])
    return dict(zip(map(tuple, pairs.tolist()), law, strict=True))


def rejections(looks, rate):
    """Return the pairs of counts with which each look rejects."""
    found = []
    for place, look in enumerate(looks):
        before = looks[:place]
        part = look.spent - (before[-1].spent if before else 0.0)
        found.append(
            {
                pair
                for pair in counts(look.n)
                if path_p_value(Sample(look.n, *pair, rate), before, WRONG, look.spent) <= part
            }
        )
    return found


def level(looks, rejected, rate, shares):
    """Return the probability that some look rejects; ``shares`` are those missed, by look."""
    law, total = {(0, 0): 1.0}, 0.0
    for (before, look), pairs, share in zip(
        pairwise([Look(0, 0.0), *looks]), rejected, shares, strict=True
    ):
        block = block_law(look.n - before.n, WRONG * (1 - share), WRONG * share, rate)
        later = {}
        for (k, j), (more, again) in product(law, block):
            pair = k + more, j + again
            later[pair] = later.get(pair, 0.0) + law[k, j] * block[more, again]
        total += sum(chance for pair, chance in later.items() if pair in pairs)
        law = {pair: chance for pair, chance in later.items() if pair not in pairs}
    return total


@pytest.mark.parametrize("rate", [0.3, 0.6, 1.0])
def test_brute_force_no_path_rejects_a_true_hypothesis_with_more_than_the_risk(rate):
    looks = [Look(7, 0.1), Look(10, 0.2), Look(14, 0.3)]
    rejected = rejections(looks, rate)
    assert any(rejected)
    shares = np.linspace(0, 1, 21 if rate < 1 else 1)
    levels = [level(looks, rejected, rate, [share] * 3) for share in shares]
    assert max(levels) <= 0.3 + 1e-12
    # What auditors miss may change from one look to the next.
    for changing in product((0.0, 0.5, 1.0), repeat=3):
        assert level(looks, rejected, rate, changing) <= 0.3 + 1e-12


def test_a_path_spends_nearly_all_of_the_risk_and_more_than_the_sum_of_its_looks():
    spent = [risk_spent(0.1, look) for look in range(1, 5)]
    sizes = [191, 287, 430, 645]
    looks = [Look(*each) for each in zip(sizes, spent, strict=True)]
    rng = np.random.default_rng(0)
    wrong = rng.random((20_000, sizes[-1])) < 0.1
    errors = np.cumsum(wrong, axis=1)[:, np.array(sizes) - 1]
    path, alone = np.zeros(len(wrong), bool), np.zeros(len(wrong), bool)
    for place, look in enumerate(looks):
        part = look.spent - (spent[place - 1] if place else 0.0)
        values = [
            path_p_value(Sample(look.n, k, 0, 1.0), looks[:place], 0.1, look.spent)
            for k in range(look.n // 8)
        ]
        most = sum(value <= part for value in values) - 1
        path |= errors[:, place] <= most
        alone |= stats.binom.cdf(errors[:, place], look.n, 0.1) <= part
    error = 3 * np.sqrt(0.09 / len(wrong))
    assert alone.mean() + error < path.mean() <= spent[-1] + error


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_an_error_more_never_makes_a_proof(rate):
    looks = [Look(60, 0.04), Look(90, 0.065)]
    values = [path_p_value(Sample(140, k, 1, rate), looks, 0.1, 0.08) for k in range(12)]
    # Where it decides nothing, it is only as sharp as needed.
    decides = [value <= 0.08 - 0.065 for value in values]
    assert decides == sorted(decides, reverse=True)


def test_long_paths_are_left_to_the_share_of_their_look(monkeypatch):
    looks = [Look(60, 0.04), Look(90, 0.065)]
    sample = Sample(140, 6, 0, 0.5)
    exact = path_p_value(sample, looks, 0.1, 0.08)
    monkeypatch.setattr(paths, "MOST_COUNTS", 1)
    assert path_p_value(sample, looks, 0.1, 0.08) >= exact


def test_no_more_than_the_risk_is_spent():
    shares = [risk_of_family(0.1, family) for family in range(1, 3_000)]
    reserve = [risk_on_demand(0.1, attempt) for attempt in range(1, 60)]
    assert 0.0999 < sum(shares) + sum(reserve) <= 0.1
    spent = [risk_spent(0.1, look) for look in range(60)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert 0.0999 < spent[-1] <= 0.1
    for share in (risk_of_family, risk_on_demand):
        with pytest.raises(ValueError, match="count from 1"):
            share(0.1, 0)
