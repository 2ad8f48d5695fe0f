"""Conditional Bernoulli mixtures: rules, time, memory, shortcuts, means of fits.

    python -m benchmarks.bench_mixture [FOLDER] [--part PART] [--seed 0]

FOLDER holds ``train`` and ``test`` parts; the default is BIBTEX in ``SETWISE_TEST_DATA``. PART is
one of these, or ``all`` for the first three:

- ``rules`` fits one model and applies each decision rule to the test part (thesis, Tables 3.4 to
  3.6).
- ``components`` fits with more and more components, each number in its own process, and reports CPU
  seconds, peak memory and microseconds a document for each inference. ``--plot FILE`` draws the
  seconds; ``--experts mean`` fits the mean of two mixtures.
- ``sparsity`` compares separate experts with and without the shortcuts of section 3.5, on
  validation rows of the training part.
- ``means`` cross-validates more components, weaker penalties and the mean of several fits, on the
  training part.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from scipy.special import expit

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.splits import fold_ids
from setwise.models.data.text import TextVectorizer
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_measure import dense
from setwise.models.mixtures.support.mixture_support import support_log_probabilities
from setwise.models.mixtures.support.sized_calibration import (
    SizedMarginalCalibrator,
    SizedMarginals,
    support_sized_marginals,
)
from setwise.models.mixtures.support.support_decider import SupportDecider
from setwise.models.sets.decisions import LabelThresholds, Posterior, SharedThreshold
from setwise.models.sets.f_measure import maximise_expected_f1

COMPONENTS = (5, 10, 20, 50, 100)
EXPERTS = ["shared", "separate", "boosted", "mean"]  # the last: two fits with shared experts

Kind = Literal["shared", "separate", "boosted", "mean"]
Model = ConditionalBernoulliMixture | BoostedBernoulliMixture | AveragedMixture


def make(kind: Kind, n_components: int, seed: int) -> Model:
    """Return an unfitted mixture."""
    if kind == "boosted":
        return BoostedBernoulliMixture(n_components, random_state=seed)
    if kind == "mean":
        return AveragedMixture(ConditionalBernoulliMixture(n_components), random_state=seed)
    return ConditionalBernoulliMixture(n_components, experts=kind, random_state=seed)


def default_folder() -> Path:
    """Return the folder of BIBTEX among the data sets for tests."""
    return Path(os.environ.get("SETWISE_TEST_DATA", "data")) / "bibtex"


def read(folder: Path) -> tuple[csr_array, csr_array, csr_array, csr_array]:
    """Return features and label sets of both parts."""
    train = read_dataset(folder, "train")
    test = read_dataset(
        folder, "test", label_names=train.label_names, feature_names=train.feature_names
    )
    X, new = _features(train, test)
    return X, train.Y, new, test.Y[:, : train.Y.shape[1]]


def _features(train: Dataset, test: Dataset) -> tuple[csr_array, csr_array]:
    if train.texts is None or test.texts is None:
        assert train.X is not None  # a data set holds texts or vectors
        assert test.X is not None
        return train.X, test.X
    vectorizer = TextVectorizer().fit(train.texts)
    return vectorizer.transform(train.texts), vectorizer.transform(test.texts)


def score(predicted: NDArray[np.uint8], Y: csr_array) -> dict[str, float]:
    """Return set accuracy, instance F1, Hamming loss, micro and macro F1, in percent."""
    truth = Y.toarray()
    shared = (predicted & truth).astype(np.float64)
    both = predicted.sum(axis=1) + truth.sum(axis=1)
    by_label = predicted.sum(axis=0) + truth.sum(axis=0)
    label_f1 = np.where(by_label == 0, 1.0, 2.0 * shared.sum(axis=0) / np.maximum(by_label, 1))
    f1 = np.where(both == 0, 1.0, 2.0 * shared.sum(axis=1) / np.maximum(both, 1))
    return {
        "set acc": 100.0 * float((predicted == truth).all(axis=1).mean()),
        "F1": 100.0 * float(f1.mean()),
        "Hamming": 100.0 * float((predicted != truth).mean()),
        "micro F1": 200.0 * float(shared.sum() / max(both.sum(), 1)),
        "macro F1": 100.0 * float(label_f1.mean()),
    }


def exact_f1_sets(model: Model, rows: csr_array) -> csr_array:
    """Return the sets of highest expected F1 under the mixture itself."""
    parts = [
        maximise_expected_f1(
            product_weights=np.exp(log_weights),
            product_marginals=expit(dense(logits)),
            allow_empty=model.allow_empty_,
        ).sets
        for log_weights, logits in model.batches(rows)
    ]
    return csr_array(vstack(parts))


def on_support(model: Model, rows: csr_array, support: csr_array) -> SizedMarginals:
    """Return the sized marginals of a mixture on label sets."""
    parts = [
        support_log_probabilities(log_weights, dense(logits), support)
        for log_weights, logits in model.batches(rows)
    ]
    return support_sized_marginals(np.concatenate(parts), support)


def compare_rules(folder: Path, kind: Kind, n_components: int, seed: int) -> None:
    """Apply every decision rule to one model."""
    X, Y, new, expected = read(folder)
    model = make(kind, n_components, seed).fit(X, Y)
    # Thresholds and curves are tuned on rows that a second model has not seen.
    aside = np.random.default_rng(seed).permutation(X.shape[0])[: X.shape[0] // 5]
    kept = np.setdiff1d(np.arange(X.shape[0]), aside)
    other = make(kind, n_components, seed).fit(X[kept], Y[kept])
    found = other.most_probable_sets(X[aside]).candidates
    unseen = Posterior(other.predict_proba(X[aside]), found, np.exp(found.log_score))
    of_other = on_support(other, X[aside], model.support_)
    decider = SupportDecider(SizedMarginalCalibrator().fit(of_other, Y[aside]))
    modes = model.most_probable_sets(new)
    posterior = Posterior(
        model.predict_proba(new), modes.candidates, np.exp(modes.candidates.log_score)
    )
    choices: dict[str, csr_array] = {
        "mode": modes.candidates.first(),
        "F1, support": decider.decide(
            on_support(model, new, model.support_), allow_empty=model.allow_empty_
        ),
        "F1, exact": exact_f1_sets(model, new),
        "marginals > 1/2": csr_array((posterior.marginals > 0.5).astype(np.uint8)),
        "one threshold": SharedThreshold().fit(unseen, Y[aside]).decide(posterior),
        "label thresholds": LabelThresholds().fit(unseen, Y[aside]).decide(posterior),
    }
    print(f"{folder.name}: {kind} experts, {model.n_components_} components, seed {seed}")
    for name, chosen in choices.items():
        row = score(chosen.toarray(), expected)
        print(f"  {name:20}" + "".join(f"  {key} {value:6.2f}" for key, value in row.items()))
    right = (choices["mode"].toarray() == expected.toarray()).all(axis=1)
    brier = np.mean((posterior.mass - right) ** 2)
    print(
        f"  raw joint probability of the mode: mean {posterior.mass.mean():.3f} at accuracy "
        f"{right.mean():.3f}, Brier {brier:.3f}, uncertainty "
        f"{right.mean() * (1 - right.mean()):.3f}; proven for {modes.proven.mean():.2%}, sets "
        f"scored: mean {modes.depth.mean():.1f}, most {modes.depth.max()}"
    )


@dataclass(frozen=True)
class Cost:
    """What a fit and its inference take."""

    n_components: int
    cpu_s: float
    wall_s: float
    n_iter: int
    peak_mib: float  # of the whole process
    model_mib: float  # the arrays of the fitted model
    inference_us: dict[str, float]  # CPU per document


def compare_components(folder: Path, kinds: list[Kind], seed: int, plot: Path | None) -> None:
    """Fit with rising K; print seconds, memory and speed of inference."""
    X, Y, new, _ = read(folder)
    batch = new[: min(500, new.shape[0])]
    print(f"{folder.name}: {X.shape[0]} documents, {Y.shape[1]} labels")
    found: dict[Kind, list[Cost]] = {}
    for kind in kinds:
        make(kind, 2, seed).fit(X[:300], Y[:300])  # compiles
        for k in COMPONENTS:
            # A fork begins with the memory of this process and leaves none behind.
            with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as alone:
                cost = alone.submit(_cost, make(kind, k, seed), X, Y, batch).result()
            found.setdefault(kind, []).append(cost)
            cells = [f"{name} {us:5.0f} us" for name, us in cost.inference_us.items()]
            memory = f"peak {cost.peak_mib:5.0f} MiB  model {cost.model_mib:5.1f} MiB"
            print(
                f"  {kind:8} K {cost.n_components:4}  fit {cost.cpu_s:6.1f} s CPU "
                f"{cost.wall_s:6.1f} s wall  {cost.n_iter:3} steps  {memory}  {'  '.join(cells)}",
                flush=True,
            )
    if plot is not None:
        draw(found, f"{folder.name}: seconds of CPU to fit", plot)


def _cost(model: Model, X: csr_array, Y: csr_array, batch: csr_array) -> Cost:
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(X, Y)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    inference = {
        name: 1e6 * seconds / batch.shape[0]
        for name, seconds in _time_inference(model, batch).items()
    }
    size = sum(array.nbytes for array in model.get_state()[0].values()) / 2**20
    steps = model.fits_[0].n_iter_ if isinstance(model, AveragedMixture) else model.n_iter_
    return Cost(model.n_components_, cpu, wall, steps, peak, size, inference)


def draw(found: dict[Kind, list[Cost]], title: str, file: Path) -> None:
    """Draw seconds of CPU against the number of components, beside linear growth."""
    from matplotlib import rcParams  # noqa: PLC0415  # only for the plot
    from matplotlib.figure import Figure  # noqa: PLC0415

    rcParams["svg.hashsalt"] = title  # equal results, equal file
    figure = Figure(figsize=(5.2, 3.6), layout="tight")
    axes = figure.add_subplot()
    for kind, costs in found.items():
        k = [cost.n_components for cost in costs]
        (line,) = axes.plot(k, [cost.cpu_s for cost in costs], marker="o", label=f"{kind} experts")
        grown = [costs[0].cpu_s * each / k[0] for each in k]
        axes.plot(k, grown, linestyle=":", color=line.get_color(), label="the same, were it linear")
    axes.set(xscale="log", yscale="log", xlabel="components", ylabel="seconds", title=title)
    axes.set_xticks(COMPONENTS, [str(k) for k in COMPONENTS])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(file, metadata={"Date": None})


def _time_inference(model: Model, X: csr_array) -> dict[str, float]:
    """Return the seconds of CPU that each kind of inference takes, once warm."""

    def seconds(ask: Callable[[], object]) -> float:
        ask()
        start = time.process_time()
        ask()
        return time.process_time() - start

    return {
        "mode": seconds(lambda: model.most_probable_sets(X)),
        "ten sets": seconds(lambda: model.most_probable_sets(X, 10, limit=256)),
        "support": seconds(lambda: model.support_log_probability(X)),
        "F1": seconds(lambda: exact_f1_sets(model, X)),
    }


def compare_sparsity(folder: Path, n_components: int, seed: int) -> None:
    """Fit separate experts with and without the shortcuts of the thesis, section 3.5."""
    X, Y, _, _ = read(folder)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    aside, kept = order[: X.shape[0] // 5], order[X.shape[0] // 5 :]
    print(f"{folder.name}: separate experts, {n_components} components, validation rows")
    for membership, rate in [(0.0, 0.0), (1e-3, 0.0), (0.0, 2e-3), (1e-3, 2e-3), (1e-2, 2e-2)]:
        cpu = time.process_time()
        model = ConditionalBernoulliMixture(
            n_components,
            experts="separate",
            membership_floor=membership,
            rate_floor=rate,
            random_state=seed,
        ).fit(X[kept], Y[kept])
        cpu = time.process_time() - cpu
        likelihood = model.log_probability(X[aside], Y[aside]).mean()
        accuracy = 100.0 * model.score(X[aside], Y[aside])
        print(
            f"  delta {membership:5g}  epsilon {rate:5g}  experts {model.experts_.coef.shape[0]:6} "
            f"of {model.n_components_ * Y.shape[1]:6}  CPU {cpu:6.1f} s  log-likelihood "
            f"{likelihood:8.3f}  set acc {accuracy:5.2f}",
            flush=True,
        )


def compare_means(folder: Path, sizes: list[int], seed: int, n_folds: int) -> None:
    """Cross-validate means of one to three fits, with penalties as chosen and with half of them."""
    X, Y, _, _ = read(folder)
    folds = fold_ids(Y, 5, seed)
    print(f"{folder.name}: training part, {n_folds} of 5 folds, seed {seed}")
    for n_components in sizes:
        for scale in (1.0, 0.5):
            found: dict[int, list[dict[str, float]]] = {}
            for fold in range(n_folds):
                inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
                fits = (
                    AveragedMixture(
                        ConditionalBernoulliMixture(n_components),
                        3,
                        penalty_scale=scale,
                        random_state=seed,
                    )
                    .fit(X[outside], Y[outside])
                    .fits_
                )
                for n_fits in (1, 2, 3):
                    predicted = AveragedMixture.of(fits[:n_fits]).predict(X[inside])
                    found.setdefault(n_fits, []).append(score(predicted, Y[inside]))
            for n_fits, rows in found.items():
                accuracy, f1 = (np.mean([row[key] for row in rows]) for key in ("set acc", "F1"))
                print(
                    f"  K {n_components:4}  penalties times {scale:3}  fits {n_fits}  "
                    f"set acc {accuracy:5.2f}  F1 {f1:5.2f}",
                    flush=True,
                )


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description="Conditional Bernoulli mixtures, measured.")
    parser.add_argument("folder", type=Path, nargs="?", default=default_folder())
    parts = ["rules", "components", "sparsity", "means", "all"]
    parser.add_argument("--part", choices=parts, default="all")
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--experts", choices=EXPERTS, default="shared")
    parser.add_argument("--plot", type=Path, help="file for the plot of `components`")
    parser.add_argument("--folds", type=int, default=5, help="folds of `means` to use")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not given.folder.is_dir():
        sys.exit(f"no data at {given.folder}: give a folder or set SETWISE_TEST_DATA")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if given.part in {"rules", "all"}:
        compare_rules(given.folder, given.experts, given.components, given.seed)
    if given.part in {"components", "all"}:
        alone = given.experts in {"boosted", "mean"}
        kinds: list[Kind] = [given.experts] if alone else ["shared", "separate"]
        compare_components(given.folder, kinds, given.seed, given.plot)
    if given.part in {"sparsity", "all"}:
        compare_sparsity(given.folder, min(given.components, 20), given.seed)
    if given.part == "means":
        compare_means(given.folder, [50, 100, 200], given.seed, given.folds)


if __name__ == "__main__":
    main()
