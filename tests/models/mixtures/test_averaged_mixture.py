"""The mean of several mixtures: a mixture whose joint is the mean of theirs."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from tests.models.enumeration import all_joints, assert_inference_equals_enumeration


def documents(seed: int, n: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Two kinds of documents whose labels come together; some carry none."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    kind = X[:, 0] + 0.5 * rng.normal(size=n) > 0
    p = np.where(kind[:, None], [0.8, 0.7, 0.1, 0.1, 0.3], [0.1, 0.2, 0.7, 0.8, 0.3])
    return X, (rng.uniform(size=p.shape) < p).astype(np.uint8)


def template(**given: object) -> ConditionalBernoulliMixture:
    chosen = {"alpha": 1e-2, "gate_alpha": 1e-2, "tol": 0.0, "max_iter": 3, **given}
    return ConditionalBernoulliMixture(3, **chosen)


@pytest.fixture(
    scope="module",
    params=[{}, {"experts": "separate"}, {"features": "kernel"}],
    ids=["shared", "separate", "kernel"],
)
def model(request: pytest.FixtureRequest) -> AveragedMixture:
    return AveragedMixture(template(**request.param), 3, random_state=1).fit(*documents(0))


def test_the_joint_is_the_mean_of_the_joints(model: AveragedMixture) -> None:
    X, _ = documents(1)
    own = np.stack([all_joints(fit, X[:20], 5) for fit in model.fits_])
    expected = logsumexp(own, axis=0) - np.log(3)
    np.testing.assert_allclose(all_joints(model, X[:20], 5), expected, atol=1e-12)
    assert np.abs(own[0] - own[1]).max() > 1e-3  # the fits do differ


def test_inference_equals_enumeration(model: AveragedMixture) -> None:
    assert_inference_equals_enumeration(model, documents(2)[0][:60], 5)


def test_its_likelihood_is_not_below_the_mean_of_the_fits(model: AveragedMixture) -> None:
    X, Y = documents(3)
    fits = [fit.log_probability(X, Y) for fit in model.fits_]
    assert (model.log_probability(X, Y) >= np.mean(fits, axis=0) - 1e-12).all()


def test_what_all_fits_share_is_stored_once(model: AveragedMixture) -> None:
    arrays, settings = model.get_state()
    assert sum(name == "scale" for name in arrays) == 1
    again = AveragedMixture.from_state(arrays, settings)
    assert again.describe_components() == model.describe_components()


def test_components_of_all_fits_are_described(model: AveragedMixture) -> None:
    summaries = model.describe_components()
    assert sorted(s.component for s in summaries) == list(range(model.n_components_))
    shares = [s.share for s in summaries]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)
    last = model.fits_[-1]
    own = {s.component: s for s in last.describe_components()}
    first = model.n_components_ - last.n_components_
    for summary in summaries:
        if summary.component >= first:
            alone = own[summary.component - first]
            assert summary.labels == alone.labels
            assert summary.share == pytest.approx(alone.share / 3)


def test_the_first_fit_chooses_penalties_for_all() -> None:
    X, Y = documents(7)
    model = AveragedMixture(ConditionalBernoulliMixture(2), 3).fit(X, Y)
    for fit in model.fits_[1:]:
        np.testing.assert_array_equal(fit.alpha_, model.fits_[0].alpha_)
        assert fit.gate_alpha_ == model.fits_[0].gate_alpha_
    assert len({fit.random_state for fit in model.fits_}) == 3


def test_penalties_that_are_chosen_are_scaled_and_given_ones_are_not() -> None:
    X, Y = documents(7)
    mixture = ConditionalBernoulliMixture(2, gate_alpha=0.02, early_stopping=False)
    plain, freer = (
        AveragedMixture(mixture, 1, penalty_scale=scale).fit(X, Y).fits_[0] for scale in (1.0, 0.5)
    )
    np.testing.assert_allclose(freer.alpha_, 0.5 * plain.alpha_)
    assert freer.gate_alpha_ == plain.gate_alpha_ == 0.02


def test_too_many_components_warn_once() -> None:
    X, _ = documents(8)
    Y = np.tile([[1, 0], [0, 1]], (80, 1))
    mixture = ConditionalBernoulliMixture(9, alpha=1e-2, gate_alpha=1e-2)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        AveragedMixture(mixture, 3).fit(X, Y)
    said = [w for w in records if issubclass(w.category, ComponentWarning)]
    assert len(said) == 1
    assert "only 2 distinct label sets" in str(said[0].message)


def test_what_has_no_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="no mixture to average"):
        AveragedMixture.from_state({}, {"fits": []})
    one = template().fit(*documents(0))
    for other in (template().fit(*documents(9)), template(weighting="none").fit(*documents(0))):
        with pytest.raises(ValueError, match="have no mean"):
            AveragedMixture.of([one, other])


def test_the_empty_set_is_predicted_only_if_training_has_it() -> None:
    X, Y = documents(10)
    Y[:] = 0
    Y[:40, 0] = 1
    Y[40:50, 1] = 1
    some = AveragedMixture(template(), 2).fit(X, Y)
    assert some.allow_empty_
    assert (some.predict(X).sum(axis=1) == 0).any()
    with_label = Y.copy()
    with_label[50:, 2] = 1
    never = AveragedMixture(template(), 2).fit(sp.csr_array(X), sp.csr_array(with_label))
    assert never.predict(X).any(axis=1).all()
