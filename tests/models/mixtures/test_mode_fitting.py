"""Mixtures fitted for their modes: slopes, enumeration, and when they are taken."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from benchmarks import artificial_mixture
from setwise.models.mixtures import mode_fitting
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.experts.gating import Gate
from setwise.models.mixtures.mixture_em import Documents
from setwise.models.mixtures.mixture_scoring import SeparateExperts, SharedExperts
from setwise.models.mixtures.mode_fitting import LinearMixture, Objective, choose_sharpness, sharpen
from setwise.models.sets.candidates import CandidateSets, merge, one_each

KINDS = ["shared", "separate"]
N_LABELS = 3
N_FEATURES = 4


def every_set() -> np.ndarray:
    return (np.arange(2**N_LABELS)[:, None] >> np.arange(N_LABELS)) & 1


def random_mixture(kind: str, rng: np.random.Generator, l1_ratio: float = 0.4) -> LinearMixture:
    """Two components; a third of the coefficients are zero, one label is constant in one."""

    def coefficients(n_rows: int) -> sp.csr_array:
        values = rng.normal(size=(n_rows, N_FEATURES))
        return sp.csr_array(values * (rng.uniform(size=values.shape) < 0.7))

    gate = Gate(coefficients(2), rng.normal(size=2))
    experts: SharedExperts | SeparateExperts
    if kind == "shared":
        bias = rng.normal(size=(2, N_LABELS))
        experts = SharedExperts(coefficients(N_LABELS), rng.normal(size=N_LABELS), bias)
    else:
        component = np.array([0, 0, 1, 1, 1], dtype=np.int32)
        label = np.array([0, 2, 0, 1, 2], dtype=np.int32)
        constants = rng.normal(size=(2, N_LABELS))
        experts = SeparateExperts(coefficients(5), rng.normal(size=5), component, label, constants)
    alpha = np.array([0.01, 0.02, 0.03])
    return LinearMixture(gate, experts, 0.05, alpha, l1_ratio, 0.02, n_jobs=1)


def made_documents(rng: np.random.Generator, n: int = 40) -> Documents:
    X = sp.csr_array(rng.normal(size=(n, N_FEATURES)).astype(np.float32))
    Y = sp.csr_array((rng.uniform(size=(n, N_LABELS)) < 0.4).astype(np.uint8))
    return Documents(X, Y, rng.uniform(0.5, 2.0, size=n))


def with_truth(mixture: LinearMixture, documents: Documents, k: int) -> CandidateSets:
    truth = one_each(documents.Y, np.zeros(documents.Y.shape[0]), 4)
    return merge(truth, mixture.most_probable(documents.X, k, allow_empty=True))


def elastic_net(mixture: LinearMixture) -> float:
    """The penalty, written out row by row."""
    experts = mixture.experts
    labels = np.arange(N_LABELS) if isinstance(experts, SharedExperts) else experts.label
    strengths = [*[mixture.gate_alpha] * 2, *mixture.alpha[labels]]
    rows = [*mixture.gate.coef.toarray(), *experts.coef.toarray()]
    a = mixture.l1_ratio
    total = sum(
        strength * (a * np.abs(row).sum() + 0.5 * (1 - a) * (row**2).sum())
        for strength, row in zip(strengths, rows, strict=True)
    )
    if isinstance(experts, SharedExperts):
        total += 0.5 * mixture.bias_penalty * (experts.bias**2).sum()
    return float(total)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [3, 8])
@pytest.mark.parametrize("sharpness", [1.0, 5.0])
def test_the_gradient_equals_finite_differences(kind: str, k: int, sharpness: float) -> None:
    rng = np.random.default_rng(k)
    mixture, documents = random_mixture(kind, rng), made_documents(rng)
    objective = Objective(mixture, documents, with_truth(mixture, documents, k), sharpness)
    _, gradient = objective(objective.start)
    measured = approx_fprime(objective.start, lambda theta: objective(theta)[0], 1e-7)
    np.testing.assert_allclose(gradient, measured, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharpness", [1.0, 3.0])
def test_the_objective_equals_enumeration(kind: str, sharpness: float) -> None:
    rng = np.random.default_rng(2)
    mixture, documents = random_mixture(kind, rng), made_documents(rng)
    objective = Objective(mixture, documents, with_truth(mixture, documents, 8), sharpness)
    n = documents.X.shape[0]
    log_p = np.column_stack(
        [
            logsumexp(
                mixture.mixture.log_joint(documents.X, sp.csr_array(np.tile(y, (n, 1)))), axis=1
            )
            for y in every_set().astype(np.uint8)
        ]
    )
    np.testing.assert_allclose(logsumexp(log_p, axis=1), 0.0, atol=1e-10)
    own = log_p[np.arange(n), documents.Y.toarray() @ (1 << np.arange(N_LABELS))]
    losses = logsumexp(sharpness * log_p, axis=1) - sharpness * own
    expected = np.average(losses, weights=documents.weight) + elastic_net(mixture)
    assert objective(objective.start)[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_with_sharpness_one_it_is_the_objective_of_em(kind: str) -> None:
    rng = np.random.default_rng(3)
    documents = made_documents(rng, n=200)
    model = ConditionalBernoulliMixture(
        2,
        experts=kind,
        alpha=1e-2,
        gate_alpha=1e-2,
        l1_ratio=0.3,
        weighting="none",
        features="linear",
        early_stopping=False,
        rate_floor=0.0,
        random_state=0,
    ).fit(documents.X, documents.Y, documents.weight)
    fitted = LinearMixture(model.gate_, model.experts_, 1e-2, model.alpha_, 0.3, 1e-4, 1)
    objective = Objective(fitted, documents, with_truth(fitted, documents, 8), 1.0)
    assert objective(objective.start)[0] == pytest.approx(model.reports_[-1].objective, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_lowers_its_objective_and_keeps_zeros_and_signs(kind: str) -> None:
    rng = np.random.default_rng(4)
    before, documents = random_mixture(kind, rng), made_documents(rng)
    for stage in sharpen(before, documents, allow_empty=True):
        candidates = with_truth(before, documents, 2**N_LABELS)
        objective = Objective(before, documents, candidates, stage.sharpness)
        after = Objective(stage.mixture, documents, candidates, stage.sharpness)
        assert after(after.start)[0] < objective(objective.start)[0]
        for old, new in [
            (before.gate.coef, stage.mixture.gate.coef),
            (before.experts.coef, stage.mixture.experts.coef),
        ]:
            assert (old.toarray() * new.toarray() >= 0.0).all()
            assert (new.toarray()[old.toarray() == 0.0] == 0.0).all()
        before = stage.mixture


def test_later_rounds_add_what_has_become_probable(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    mixture, documents = random_mixture("shared", rng), made_documents(rng, n=200)
    sizes = []

    class Recorded(Objective):
        def __init__(self, *given) -> None:
            super().__init__(*given)
            sizes.append(len(given[2]))

    monkeypatch.setattr(mode_fitting, "Objective", Recorded)
    monkeypatch.setattr(mode_fitting, "N_COMPETITORS", 1)
    *_, last = sharpen(mixture, documents, allow_empty=True, most=mode_fitting.STAGES[0])
    assert last.sharpness == mode_fitting.STAGES[0]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_without_an_l1_penalty_signs_may_change() -> None:
    rng = np.random.default_rng(5)
    mixture, documents = random_mixture("shared", rng, l1_ratio=0.0), made_documents(rng)
    candidates = with_truth(mixture, documents, 8)
    assert Objective(mixture, documents, candidates, 2.0).bounds is None
    some_l1 = replace(mixture, l1_ratio=0.1)
    assert Objective(some_l1, documents, candidates, 2.0).bounds is not None


Labelled = tuple[np.ndarray, np.ndarray]
N_PART = 1000


def labelled_by_a_mixture(scenario: str) -> Labelled:
    """Documents that a mixture of three components labelled by its modes or by draws."""
    drawn, noisy = artificial_mixture.SCENARIOS[scenario]
    rng = np.random.default_rng(2)
    truth = artificial_mixture.TrueMixture.draw(rng)
    X = rng.normal(size=(3 * N_PART, artificial_mixture.N_FEATURES))
    return X, artificial_mixture.label(truth, X, drawn=drawn, noisy=noisy, rng=rng)


@pytest.fixture(scope="module")
def modes() -> Labelled:
    return labelled_by_a_mixture("argmax")


def estimator(objective: str, **given: object) -> ConditionalBernoulliMixture:
    return ConditionalBernoulliMixture(
        3,
        objective=objective,
        experts="separate",
        alpha=1e-4,
        gate_alpha=1e-4,
        l1_ratio=0.0,
        weighting="none",
        early_stopping=False,
        max_iter=20,
        tol=0.0,
        n_init=1,
        n_jobs=1,
        random_state=1,
    ).set_params(**given)


def fit_parts(
    model: ConditionalBernoulliMixture, labelled: Labelled
) -> ConditionalBernoulliMixture:
    """Fit on the first part, choose on the second."""
    X, Y = labelled
    aside = slice(N_PART, 2 * N_PART)
    return model.fit(X[:N_PART], Y[:N_PART], validation=(X[aside], Y[aside]))


@pytest.fixture(scope="module")
def fitted_for_modes(modes: Labelled) -> ConditionalBernoulliMixture:
    return fit_parts(estimator("mode"), modes)


@pytest.mark.slow
def test_modes_are_fitted_where_labels_are_modes(modes, fitted_for_modes) -> None:
    X, Y = modes
    likeliest = fit_parts(estimator("likelihood"), modes)
    assert likeliest.sharpness_ == 1.0
    assert fitted_for_modes.sharpness_ in mode_fitting.STAGES
    new = X[2 * N_PART :], Y[2 * N_PART :]
    assert fitted_for_modes.score(*new) > likeliest.score(*new) + 0.01
    # What is gained in modes is paid for in likelihood.
    assert fitted_for_modes.log_probability(*new).mean() < likeliest.log_probability(*new).mean()


@pytest.mark.slow
def test_the_likelihood_is_kept_where_labels_are_drawn() -> None:
    X, Y = labelled_by_a_mixture("sample")
    likeliest = estimator("likelihood", max_iter=40).fit(X, Y)
    model = estimator("mode", max_iter=40).fit(X, Y)
    assert model.sharpness_ == 1.0
    np.testing.assert_array_equal(model.gate_.coef.data, likeliest.gate_.coef.data)
    np.testing.assert_array_equal(model.experts_.coef.data, likeliest.experts_.coef.data)


def test_equal_seeds_give_equal_fits_on_any_number_of_threads(modes) -> None:
    X, Y = (part[:300] for part in modes)
    one, two = (estimator("mode", n_jobs=n, max_iter=3).fit(X, Y) for n in (1, 2))
    assert one.sharpness_ == two.sharpness_
    np.testing.assert_array_equal(one.gate_.coef.data, two.gate_.coef.data)
    np.testing.assert_array_equal(one.experts_.intercept, two.experts_.intercept)


@pytest.mark.slow
def test_a_model_fitted_for_its_modes_survives_its_state(modes, fitted_for_modes) -> None:
    X, _ = modes
    again = ConditionalBernoulliMixture.from_state(*fitted_for_modes.get_state())
    assert again.sharpness_ == fitted_for_modes.sharpness_
    assert again.objective == "mode"
    np.testing.assert_array_equal(again.predict(X), fitted_for_modes.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), fitted_for_modes.predict_proba(X))


@pytest.mark.slow
def test_sets_of_other_documents_choose_the_likelihood(modes) -> None:
    X, Y = modes
    model = fit_parts(estimator("mode"), (X, np.concatenate([Y[:N_PART], np.roll(Y[N_PART:], 1)])))
    assert model.sharpness_ == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_integer_weights_equal_repeated_documents(kind: str) -> None:
    rng = np.random.default_rng(7)
    mixture, documents = random_mixture(kind, rng), made_documents(rng)
    counts = rng.integers(1, 4, size=documents.X.shape[0])
    rows = np.repeat(np.arange(len(counts)), counts)
    weighted = replace(documents, weight=counts.astype(np.float64))
    repeated = Documents(documents.X[rows], documents.Y[rows], np.ones(len(rows)))
    values = []
    for each in (weighted, repeated):
        objective = Objective(mixture, each, with_truth(mixture, each, 8), 4.0)
        values.append(objective(objective.start))
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-10)
    np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-10)


@pytest.mark.parametrize(
    ("better", "worse", "expected"), [(0, 0, 1.0), (3, 2, 1.0), (9, 1, 4.0), (1, 9, 1.0)]
)
def test_a_gain_within_chance_keeps_the_likelihood(
    monkeypatch: pytest.MonkeyPatch, better: int, worse: int, expected: float
) -> None:
    rng = np.random.default_rng(8)
    mixture, documents = random_mixture("shared", rng), made_documents(rng, n=100)
    other = replace(mixture, gate=Gate(mixture.gate.coef, np.array([50.0, 0.0])))
    before, after = (
        each.most_probable(documents.X, 1, allow_empty=True).first().toarray()
        for each in (mixture, other)
    )
    differ = np.flatnonzero((before != after).any(axis=1))[: better + worse]
    assert len(differ) == better + worse
    same = np.flatnonzero((before == after).all(axis=1))
    truth = before.copy()
    truth[differ[:better]] = after[differ[:better]]
    aside = replace(documents, Y=sp.csr_array(truth)).take(np.concatenate([same, differ]))
    stages = [mode_fitting.Stage(4.0, other)]
    monkeypatch.setattr(mode_fitting, "sharpen", lambda *_, **__: iter(stages))
    assert choose_sharpness(mixture, documents, aside, allow_empty=True) == expected


def test_one_document_is_fitted_by_likelihood_alone() -> None:
    model = ConditionalBernoulliMixture(
        1, objective="mode", alpha=1e-2, gate_alpha=1e-2, tol=0.0, max_iter=2
    ).fit([[1.0, 0.0]], [[1, 0]])
    assert model.sharpness_ == 1.0
    assert model.predict([[1.0, 0.0]]).tolist() == [[1, 0]]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="objective must be likelihood or mode, got 'f1'"):
        ConditionalBernoulliMixture(2, objective="f1").fit(np.eye(4), np.eye(4, dtype=int))
    with pytest.raises(ValueError, match="per_component"):
        ConditionalBernoulliMixture(
            2, objective="mode", experts="separate", per_component=True
        ).fit(np.eye(4), np.eye(4, dtype=int))
