"""The artificial experiment of the ICML 2016 paper on mixtures.

Does EM recover the mixture behind the data? A true conditional Bernoulli mixture with K = 3
components and logistic gate and experts labels N = 15,000 points with D = 7 Gaussian features in
four ways: by the most probable set or by a drawn set, each with and without Gaussian noise on the
logistic scores. The paper does not state the number of labels or the scales; they are chosen so
that the upper bounds come near the paper's.

    python -m benchmarks.artificial_mixture [--documents 15000] [--seeds 3] [--first 0]
        [--methods "ROW;ROW"] [--json] [--limits]

``--limits`` asks instead why the likeliest mixture misses the bound of the first column; see
`compare_limits`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.experts.gating import fit_gate
from setwise.models.mixtures.support.mixture_support import distinct_sets

N_FEATURES = 7
N_LABELS = 4
N_COMPONENTS = 3
TEST_SHARE = 1 / 3
N_STARTS = 6

# Penalty of gate and experts.
ALPHA = 1e-5

# Scales of the true model's weights and of the noise, found by matching the upper bounds.
GATE_SCALE = 5.0
EXPERT_SCALE = 0.7
EXPERT_BIAS_SCALE = 8.0
NOISE_SCALE = 1.3

# Scenario: (labels drawn instead of the mode, noise on the scores), and Table 1 of the paper.
SCENARIOS = {
    "argmax": (False, False),
    "argmax, noise": (False, True),
    "sample": (True, False),
    "sample, noise": (True, True),
}
PAPER = {
    "upper bound": (100.0, 76.4, 65.2, 48.1),
    "CBM, K=2": (89.9, 69.3, 60.2, 45.8),
    "CBM, K=3": (98.4, 75.8, 65.0, 48.0),
    "binary relevance": (82.0, 49.9, 48.0, 40.0),
    "power set": (97.5, 74.1, 64.6, 47.3),
}

# Of `compare_limits`: how sharp sets are made, ridges that keep the weights of separable labels
# finite, and steps of L-BFGS at most. Sharpened modes of large weights have no slope to follow, so
# that those start at weights that a stronger ridge keeps small.
SHARPNESS = 16.0
RIDGE, STRONGER_RIDGE = 1e-6, 1e-4
STEPS_TO_LIKELIEST, STEPS_TO_SHARPENED = 1500, 300


@dataclass(frozen=True, eq=False)
class TrueMixture:
    """A conditional Bernoulli mixture with known parameters."""

    gate: NDArray[np.float64]  # (K, D + 1)
    experts: NDArray[np.float64]  # (K, L, D + 1)

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "TrueMixture":
        """Draw weights of the gate and the experts."""
        gate = GATE_SCALE * rng.normal(size=(N_COMPONENTS, N_FEATURES + 1))
        experts = EXPERT_SCALE * rng.normal(size=(N_COMPONENTS, N_LABELS, N_FEATURES + 1))
        experts[:, :, -1] *= EXPERT_BIAS_SCALE / EXPERT_SCALE
        return cls(gate, experts)

    def log_joint(
        self, X: NDArray[np.float64], noise: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the log-probabilities of all 2^L sets, shape (n, 2^L), in nats."""
        padded = np.column_stack([X, np.ones(len(X))])
        z = padded @ self.gate.T
        logits = np.einsum("nd,kld->nkl", padded, self.experts)
        z = z + noise * rng.normal(size=z.shape)
        logits = logits + noise * rng.normal(size=logits.shape)
        log_weights = z - logsumexp(z, axis=1, keepdims=True)
        sets = every_set()
        none = -np.logaddexp(0.0, logits).sum(axis=2)
        inside = none[:, :, None] + logits @ sets.T
        joint: NDArray[np.float64] = logsumexp(log_weights[:, :, None] + inside, axis=1)
        return joint


def every_set() -> NDArray[np.int64]:
    """Return all label sets as rows of zeros and ones."""
    sets: NDArray[np.int64] = (np.arange(2**N_LABELS)[:, None] >> np.arange(N_LABELS)) & 1
    return sets


def label(
    truth: TrueMixture,
    X: NDArray[np.float64],
    *,
    drawn: bool,
    noisy: bool,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Label documents by the true mixture: its mode, or a draw, with or without noise."""
    joint = truth.log_joint(X, NOISE_SCALE if noisy else 0.0, rng)
    chosen = joint.argmax(axis=1)
    if drawn:
        below = np.exp(joint).cumsum(axis=1) < rng.uniform(size=(len(X), 1))
        chosen = below.sum(axis=1).clip(max=joint.shape[1] - 1)
    sets: NDArray[np.int64] = every_set()[chosen]
    return sets


Floats = NDArray[np.float64]
Predict = Callable[[NDArray[np.float64]], NDArray[np.int64]]


def fit_mixture(n_components: int, seed: int) -> Callable[..., Predict]:
    """Return a fitter of mixtures with experts of their own, as in the paper."""

    def fit(X: NDArray[np.float64], Y: NDArray[np.int64]) -> Predict:
        starts = [
            ConditionalBernoulliMixture(
                n_components,
                experts="separate",
                alpha=ALPHA,
                gate_alpha=ALPHA,
                l1_ratio=0.0,
                weighting="none",
                early_stopping=False,
                max_iter=300,
                tol=5e-5,
                n_init=1,
                random_state=N_STARTS * seed + start,
            ).fit(X, Y)
            for start in range(N_STARTS if n_components > 1 else 1)
        ]
        # EM ends in different optima; the likelihood of the training rows tells which is best.
        model = max(starts, key=lambda start: start.reports_[-1].log_likelihood)
        return lambda new: model.predict(new).astype(np.int64)

    return fit


def fit_power_set(X: NDArray[np.float64], Y: NDArray[np.int64]) -> Predict:
    """Fit a multinomial logistic regression whose classes are the label sets seen."""
    support = distinct_sets(sp.csr_array(Y.astype(np.uint8))).toarray().astype(np.int64)
    codes = {tuple(row): i for i, row in enumerate(support)}
    targets = np.zeros((len(Y), len(support)))
    targets[np.arange(len(Y)), [codes[tuple(row)] for row in Y]] = 1.0
    columns = sp.csc_array(X.astype(np.float32))
    gate, _ = fit_gate(columns, targets, alpha=1e-5, l1_ratio=0.0, max_passes=60, tol=1e-6)
    return lambda new: support[
        np.argmax(new.astype(np.float32) @ gate.coef.T + gate.intercept, axis=1)
    ]


def methods(seed: int) -> dict[str, Callable[..., Predict]]:
    """Return the methods of the table."""
    return {
        "CBM, K=2": fit_mixture(2, seed),
        "CBM, K=3": fit_mixture(3, seed),
        "binary relevance": fit_mixture(1, seed),
        "power set": fit_power_set,
    }


def run(
    n_documents: int,
    seed: int,
    scenarios: Iterable[str] = SCENARIOS,
    wanted: Container[str] = PAPER,
) -> Iterator[tuple[str, str, float]]:
    """Yield (scenario, method, set accuracy in percent) of one draw of model and data."""
    for scenario in scenarios:
        drawn, noisy = SCENARIOS[scenario]
        rng = np.random.default_rng(seed)
        truth = TrueMixture.draw(rng)
        X = rng.normal(size=(n_documents, N_FEATURES))
        Y = label(truth, X, drawn=drawn, noisy=noisy, rng=rng)
        n_test = round(TEST_SHARE * n_documents)
        new, expected = X[:n_test], Y[:n_test]
        bound = every_set()[truth.log_joint(new, 0.0, rng).argmax(axis=1)]
        yield scenario, "upper bound", _accuracy(bound, expected)
        for name, fit in methods(seed).items():
            if name in wanted:
                predict = fit(X[n_test:], Y[n_test:])
                yield scenario, name, _accuracy(predict(new), expected)


def _accuracy(predicted: NDArray[np.int64], expected: NDArray[np.int64]) -> float:
    return 100.0 * float((predicted == expected).all(axis=1).mean())


def as_mixture(theta: Floats) -> TrueMixture:
    """Return the mixture with these parameters."""
    rows = theta.reshape(-1, N_FEATURES + 1)
    experts = rows[N_COMPONENTS:].reshape(N_COMPONENTS, N_LABELS, N_FEATURES + 1)
    return TrueMixture(rows[:N_COMPONENTS], experts)


def as_vector(mixture: TrueMixture, factor: float = 1.0) -> Floats:
    """Return a mixture's parameters, all times a factor."""
    theta: Floats = factor * np.concatenate([mixture.gate.ravel(), mixture.experts.ravel()])
    return theta


def loss(
    theta: Floats,
    padded: Floats,
    Y: NDArray[np.int64],
    sharpness: float = 1.0,
    ridge: float = RIDGE,
) -> tuple[float, Floats]:
    """Return the mean of -log q over documents, with a ridge, and its gradient.

    Parameters
    ----------
    theta : ndarray of shape (n_components * (1 + n_labels) * (n_features + 1),)
        Rows of the gate, then of the experts; the last entry of each is its bias.
    padded : ndarray of shape (n, n_features + 1)
        Features and a one.
    Y : ndarray of shape (n, n_labels)
    sharpness : float
        1 for the likelihood.
    ridge : float
        On all weights but biases.
    """
    mixture, n = as_mixture(theta), len(padded)
    z = padded @ mixture.gate.T
    log_weights = z - logsumexp(z, axis=1, keepdims=True)
    logits = np.einsum("nd,kld->nkl", padded, mixture.experts, optimize=True)
    none = log_weights - np.logaddexp(0.0, logits).sum(axis=2)  # (n, K): component and no label
    joint = none + np.einsum("nkl,nl->nk", logits, Y)
    log_p = logsumexp(joint, axis=1)
    gate = np.exp(joint - log_p[:, None])  # memberships: weight of each set in the gradient
    experts = gate[:, :, None] * Y[:, None, :]
    value = log_p
    if sharpness != 1.0:
        sets = every_set()
        of_sets = none[:, :, None] + logits @ sets.T  # (n, K, 2^L)
        log_sets = logsumexp(of_sets, axis=1)
        total = logsumexp(sharpness * log_sets, axis=1)
        value = sharpness * log_p - total
        q = np.exp(sharpness * log_sets - total[:, None])
        expected = np.exp(of_sets - log_sets[:, None, :]) * q[:, None, :]
        gate = sharpness * (gate - expected.sum(axis=2))
        experts = sharpness * (experts - expected @ sets)
    slope_experts = experts - gate[:, :, None] * expit(logits)
    slope_gate = gate - np.exp(log_weights) * gate.sum(axis=1, keepdims=True)
    slopes = np.concatenate([slope_gate, slope_experts.reshape(n, -1)], axis=1).T @ padded / n
    weights = theta.reshape(slopes.shape).copy()
    weights[:, -1] = 0.0  # biases are free
    penalised = -float(value.mean()) + 0.5 * ridge * float((weights**2).sum())
    return penalised, (ridge * weights - slopes).ravel()


def climb(
    start: Floats,
    X: Floats,
    Y: NDArray[np.int64],
    sharpness: float = 1.0,
    ridge: float = RIDGE,
) -> Floats:
    """Return the optimum that L-BFGS reaches from a start."""
    steps = STEPS_TO_LIKELIEST if sharpness == 1.0 else STEPS_TO_SHARPENED
    found = minimize(
        loss,
        start,
        args=(with_one(X), Y, sharpness, ridge),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 30, "ftol": 1e-12, "gtol": 1e-9},
    )
    theta: Floats = found.x
    return theta


def with_one(X: Floats) -> Floats:
    """Append the feature of the biases."""
    return np.column_stack([X, np.ones(len(X))])


def compare_limits(n_documents: int, seed: int) -> None:
    """Print what modes of mixtures with three components reach where labels are modes.

    Started at the truth, L-BFGS maximises the likelihood of such labels, on the training part and
    on ten times as many documents; then the accuracy of modes, smoothed: the mean of log q(y|x),
    where q(y|x) = p(y|x)^T / sum over all sets of p^T goes to 1 for the mode as T grows.
    """
    rng = np.random.default_rng(seed)
    truth = TrueMixture.draw(rng)
    X = rng.normal(size=(n_documents, N_FEATURES))
    Y = label(truth, X, drawn=False, noisy=False, rng=rng)
    n_test = round(TEST_SHARE * n_documents)
    new, expected, X, Y = X[:n_test], Y[:n_test], X[n_test:], Y[n_test:]
    more = np.random.default_rng(seed + 100).normal(size=(9 * len(X), N_FEATURES))
    many = np.concatenate([X, more])
    of_many = np.concatenate([Y, label(truth, more, drawn=False, noisy=False, rng=rng)])

    def report(name: str, theta: Floats) -> None:
        joint = as_mixture(theta).log_joint(new, 0.0, rng)
        right = (every_set()[joint.argmax(axis=1)] == expected).all(axis=1)
        of_truth = joint[np.arange(n_test), expected @ (1 << np.arange(N_LABELS))]
        print(
            f"  {name:34} set accuracy {100.0 * right.mean():6.2f}   log-likelihood "
            f"{of_truth.mean():7.3f}",
            flush=True,
        )

    print(f"seed {seed}, test part")
    for factor in (1.0, 2.0, 4.0, 8.0):
        report(f"the truth, weights times {factor:g}", as_vector(truth, factor))
    start = as_vector(truth, 2.0)
    report(f"likeliest, {len(X):,} documents", climb(start, X, Y))
    report(f"likeliest, {len(many):,} documents", climb(start, many, of_many))
    smaller = climb(start, X, Y, ridge=STRONGER_RIDGE)
    report("likeliest, stronger ridge", smaller)
    report("sharpened, from that", climb(smaller, X, Y, SHARPNESS))


def main() -> None:
    """Print the table beside the paper's, or write it as JSON."""
    parser = argparse.ArgumentParser(description="The artificial experiment of the ICML paper.")
    parser.add_argument("--documents", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=3, help="number of draws")
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--methods", default=";".join(PAPER), help="rows, with semicolons")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--limits", action="store_true")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.limits:
        for seed in seeds:
            compare_limits(given.documents, seed)
        return
    found: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        wanted = given.methods.split(";")
        for scenario, name, accuracy in run(given.documents, seed, wanted=wanted):
            found.setdefault(name, {}).setdefault(scenario, []).append(accuracy)
            print(f"seed {seed}, {scenario}, {name}: {accuracy:.1f}", file=sys.stderr)
    if given.json:
        json.dump(
            {"command": sys.argv, "set_accuracy": found, "paper": PAPER}, sys.stdout, indent=1
        )
        return
    print(f"{'':19}" + "".join(f"{s:>22}" for s in SCENARIOS) + "   (mean of seeds, paper)")
    for name, row in found.items():
        cells = (f"{np.mean(row[scenario]):14.1f}" for scenario in SCENARIOS)
        of_paper = (f" ({value:5.1f})" for value in PAPER[name])
        pairs = zip(cells, of_paper, strict=True)
        print(f"{name:19}" + "".join(cell + beside for cell, beside in pairs))


if __name__ == "__main__":
    main()
