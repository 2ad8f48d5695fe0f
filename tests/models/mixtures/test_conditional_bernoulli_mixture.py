"""Conditional Bernoulli mixtures: EM, inference against enumeration, bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture, ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.experts.mixture_learners import (
    GateSettings,
    SeparateLearner,
    SharedLearner,
)
from setwise.models.mixtures.experts.separate_experts import SeparateSettings
from setwise.models.mixtures.experts.shared_experts import SharedSettings
from setwise.models.mixtures.mixture_em import (
    StoppingRule,
    WeightedDocuments,
    responsibilities,
    run_em,
    warn_of_missing,
)
from tests.models.bounds import beats
from tests.models.enumeration import assert_inference_equals_enumeration

KINDS = ["shared", "separate"]


def documents(seed: int, n: int = 150, d: int = 8, n_labels: int = 5) -> WeightedDocuments:
    """Two kinds of documents whose labels come together."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.7)
    kind = X[:, 0] + 0.5 * rng.normal(size=n) > 0
    p = np.where(kind[:, None], [0.8, 0.7, 0.1, 0.1, 0.3], [0.1, 0.2, 0.7, 0.8, 0.3])[:, :n_labels]
    p = expit(np.log(p / (1 - p)) + X[:, 1:2])
    Y = (rng.uniform(size=p.shape) < p).astype(np.uint8)
    Y[0], Y[1] = 1, 0
    weight = rng.uniform(0.5, 2.0, size=n)
    return WeightedDocuments(sp.csr_array(X.astype(np.float32)), sp.csr_array(Y), weight)


def learner_of(
    kind: str, rows: WeightedDocuments, **separate: float
) -> SharedLearner | SeparateLearner:
    """A learner without shortcuts: every document and every label counts."""
    alpha = np.full(rows.Y.shape[1], 5e-3)
    gate = GateSettings(1e-2, 0.5)
    if kind == "shared":
        settings = SharedSettings(0.5, bias_penalty=1e-3, membership_floor=0.0)
        return SharedLearner(rows, alpha, gate, settings, n_jobs=1)
    chosen = {"membership_floor": 0.0, "rate_floor": 0.0, **separate}
    return SeparateLearner(rows, alpha, gate, SeparateSettings(0.5, **chosen), n_jobs=1)


def bound(state, memberships: np.ndarray, rows: WeightedDocuments) -> float:
    """The penalised bound (thesis, eq. 3.5 plus the penalty) at given memberships."""
    share = rows.weight / rows.weight.sum()
    joint = state.mixture.log_joint(rows.X, rows.Y)
    entropy = np.where(memberships > 0, memberships * np.log(np.maximum(memberships, 1e-300)), 0.0)
    return state.penalty + float(share @ (entropy - memberships * joint).sum(axis=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_penalised_bound_and_objective_fall_at_each_step(kind: str, seed: int) -> None:
    rows = documents(seed)
    learner = learner_of(kind, rows)
    memberships = BernoulliMixture(4, random_state=seed).fit(rows.Y).predict_proba(rows.Y)
    state, objectives = None, []
    for _ in range(12):
        after = learner.maximise(memberships, state)
        if state is not None:
            assert bound(after, memberships, rows) <= bound(state, memberships, rows) + 1e-10
        state = after
        memberships, log_likelihood = responsibilities(state.mixture.log_joint(rows.X, rows.Y))
        mean = float(rows.weight @ log_likelihood / rows.weight.sum())
        objectives.append(state.penalty - mean)
        # The bound is tight where the memberships were computed.
        assert bound(state, memberships, rows) == pytest.approx(objectives[-1], abs=1e-10)
    assert np.all(np.diff(objectives) <= 1e-10)
    assert objectives[-1] < objectives[0] - 1e-3


def test_sparse_shortcuts_change_little_and_are_watched() -> None:
    """Descent is not promised with them; the likelihood must still come out close."""
    rows = documents(1, n=400)
    memberships = BernoulliMixture(4, random_state=0).fit(rows.Y).predict_proba(rows.Y)
    rule = StoppingRule(8, 0.0, 8)
    runs = {}
    for floor, rate in [(0.0, 0.0), (1e-3, 2e-3), (0.3, 0.3)]:
        learner = learner_of("separate", rows, membership_floor=floor, rate_floor=rate)
        runs[floor] = run_em(learner, memberships, rows, rule)
    dense, sparse, coarse = (runs[f].reports[-1].log_likelihood for f in (0.0, 1e-3, 0.3))
    assert abs(dense - sparse) < 0.01
    assert coarse < dense - 0.05
    few = runs[0.3].state.experts
    assert len(few.label) < len(runs[0.0].state.experts.label)
    # Skipped experts are constants strictly inside (0, 1): nothing becomes impossible.
    assert np.isfinite(few.constants).all()


@pytest.mark.parametrize("kind", KINDS)
def test_inference_equals_enumeration(kind: str) -> None:
    rows = documents(2)
    model = ConditionalBernoulliMixture(
        3, experts=kind, alpha=1e-2, gate_alpha=1e-2, tol=0.0, max_iter=4, random_state=0
    ).fit(rows.X, rows.Y)
    assert_inference_equals_enumeration(model, rows.X[:20], 5)


def test_the_empty_set_is_predicted_only_if_training_has_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = (rng.uniform(size=(200, 6)) < 0.12).astype(int)
    some = Y.any(axis=1)
    with_empty = ConditionalBernoulliMixture(3, random_state=0).fit(X, Y)
    assert with_empty.allow_empty_
    assert not with_empty.predict(X).any(axis=1).all()
    without = ConditionalBernoulliMixture(3, random_state=0).fit(X[some], Y[some])
    assert without.predict(X).any(axis=1).all()


def test_components_are_described_by_their_labels_and_features() -> None:
    X = np.repeat(np.eye(3), 40, axis=0)
    Y = np.repeat([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 40, axis=0)
    model = ConditionalBernoulliMixture(3, alpha=1e-3, random_state=0).fit(X, Y)
    about = model.describe_components(n_labels=2, n_features=1)
    assert len(about) == 3
    assert sum(c.share for c in about) == pytest.approx(1.0)
    found = {c.labels[0][0]: c.features[0][0] for c in about}
    assert found in ({0: 0, 2: 1, 3: 2}, {1: 0, 2: 1, 3: 2})


def test_a_component_is_described_by_what_tells_it_from_the_rest() -> None:
    """Label 3 is everywhere and says nothing of a component, however frequent."""
    X = np.repeat(np.eye(2), 60, axis=0)
    Y = np.repeat([[1, 0, 0, 1], [0, 0, 1, 1]], 60, axis=0)
    model = ConditionalBernoulliMixture(2, alpha=1e-3, random_state=0).fit(X, Y)
    about = model.describe_components(n_labels=1)
    assert {component.labels[0][0] for component in about} == {0, 2}


def crossed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels that depend on the product of two measurements: no linear score finds them."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    same = X[:, 0] * X[:, 1] > 0
    return X, np.where(same[:, None], [1, 1, 0], [0, 0, 1])


def test_a_kernel_finds_what_no_linear_score_does() -> None:
    X, Y = crossed(400, 0)
    new, expected = crossed(300, 1)
    linear = ConditionalBernoulliMixture(2, features="linear", random_state=0).fit(X, Y)
    kernel = ConditionalBernoulliMixture(2, random_state=0).fit(X, Y)
    assert linear.kernel_ is None
    assert kernel.kernel_ is not None
    assert beats(expected, kernel.predict(new), linear.predict(new))


def test_only_dense_measurements_of_few_documents_get_a_kernel_by_themselves() -> None:
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, size=(60, 2))
    words = rng.poisson(0.1, size=(60, 40)).astype(float)
    unit = rng.normal(size=(60, 4))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for X in (words, unit):
        model = ConditionalBernoulliMixture(2, alpha=1e-2, gate_alpha=1e-2, random_state=0)
        assert model.fit(X, Y).kernel_ is None
    mixture = ConditionalBernoulliMixture(
        2, features="kernel", alpha=1e-2, gate_alpha=1e-2, random_state=0
    )
    assert mixture.fit(unit, Y).kernel_ is not None


def test_behind_a_kernel_components_are_described_by_the_measurements() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + np.column_stack([4.0 * kind, -4.0 * kind, 0.0 * kind])
    Y = np.where(kind[:, None], [1, 0], [0, 1])
    model = ConditionalBernoulliMixture(2, random_state=0).fit(X, Y)
    assert model.kernel_ is not None
    found = {c.labels[0][0]: c.features[0] for c in model.describe_components(1, 1)}
    assert (found[0][0], found[1][0]) == (0, 1)
    # Between two kinds of the same number and a gap of four the mean lies two away from each.
    assert found[0][1] == pytest.approx(2.0 / X[:, 0].std(), rel=0.25)


# Bad input


def test_more_components_than_documents_or_sets_are_reduced_with_a_warning() -> None:
    with pytest.warns(
        UserWarning, match="2 of 30 components remain; there are only 2 distinct label sets"
    ):
        model = ConditionalBernoulliMixture(30, alpha=1e-2, random_state=0).fit(
            np.repeat(np.eye(2), 6, axis=0), np.repeat([[1, 0], [0, 1]], 6, axis=0)
        )
    assert model.n_components_ == 2
    assert model.predict(np.eye(2)).tolist() == [[1, 0], [0, 1]]


def test_one_document_and_one_label() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = ConditionalBernoulliMixture(2, random_state=0).fit([[1.0, 0.0]], [[1, 0]])
    assert np.isfinite(alone.predict_proba([[0.0, 3.0]])).all()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    single = ConditionalBernoulliMixture(2, random_state=0).fit(X, (X[:, :1] > 0).astype(int))
    assert single.score(X, (X[:, :1] > 0).astype(int)) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_identical_documents_with_different_sets_share_the_mass(kind: str) -> None:
    X = np.ones((60, 2))
    Y = np.tile([[1, 1, 0], [0, 0, 1]], (30, 1))
    model = ConditionalBernoulliMixture(
        2, experts=kind, alpha=1e-3, weighting="none", random_state=0
    ).fit(X, Y)
    p = np.exp(model.most_probable_sets(X[:1], 2).candidates.log_score)
    np.testing.assert_allclose(p, 0.5, atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_separable_constant_and_unseen_labels_stay_finite(kind: str) -> None:
    X = np.repeat(np.eye(4), 25, axis=0)
    Y = np.repeat([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]], 25, axis=0)
    model = ConditionalBernoulliMixture(3, experts=kind, alpha=0.0, random_state=0).fit(X, Y)
    assert np.isfinite(model.log_probability(X, Y)).all()
    assert model.score(X, Y) == 1.0
    assert (model.predict_proba(X)[:, 3] < 0.1).all()
    assert (model.predict_proba(X)[:, 0] > 0.9).all()


def test_a_component_that_dies_is_dropped_with_a_warning() -> None:
    rows = documents(0)
    memberships = np.zeros((150, 3))
    memberships[:, 0] = rows.X[:, [0]].toarray().ravel() > 0
    memberships[:, 1] = 1.0 - memberships[:, 0]
    memberships[:, :2] -= 5e-9
    memberships[:, 2] = 1e-8
    with pytest.warns(UserWarning, match=r"1 of 3 components died .* were dropped"):
        run = run_em(learner_of("shared", rows), memberships, rows, StoppingRule(2, 0.0, 2))
    assert len(run.state.gate.intercept) == 2
    assert np.isfinite(run.reports[-1].objective)


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_that_is_empty_from_the_start_is_dropped_with_a_warning(kind: str) -> None:
    rows = documents(1)
    memberships = np.zeros((150, 3))
    memberships[np.arange(150), np.arange(150) % 2] = 1.0
    with pytest.warns(UserWarning, match=r"1 of 3 components died"):
        run = run_em(learner_of(kind, rows), memberships, rows, StoppingRule(2, 0.0, 2))
    assert len(run.state.gate.intercept) == 2
    assert np.isfinite(run.state.mixture.log_joint(rows.X, rows.Y)).all()


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((3, 9, 3), "3 of 9 components remain; there are only 3 distinct label sets"),
        ((4, 6, 8), r"4 of 6 components remain; 2 died: fewer than 0\.1 documents"),
        ((2, 6, 5), r"there are only 5 distinct label sets, and 3 died"),
    ],
)
def test_the_warning_of_missing_components_names_what_happened(counts, reason: str) -> None:
    with pytest.warns(ComponentWarning, match=reason):
        warn_of_missing(*counts)


def test_no_warning_where_every_component_remains() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_missing(6, 6, 8)


def test_bad_arguments_are_refused() -> None:
    X, Y = np.eye(4), np.eye(4, dtype=int)
    for arguments, match in [
        ({"experts": "none"}, "experts must be shared or separate, got 'none'"),
        ({"features": "deep"}, "auto, linear or kernel"),
        ({"alpha": "best"}, "alpha must be a number"),
    ]:
        with pytest.raises(ValueError, match=match):
            ConditionalBernoulliMixture(**arguments).fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ConditionalBernoulliMixture(2).fit(X, Y[:3])
    with pytest.raises(ValueError, match="0 and 1"):
        ConditionalBernoulliMixture(2).fit(X, 0.5 * Y)
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        ConditionalBernoulliMixture(2).fit(X, Y, np.zeros(4))
