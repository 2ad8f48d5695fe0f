"""Calibrators that learn from noisy reviewers, measured on clean labels.

    python -m benchmarks.bench_noise [SEED] [PLOT]

Rebuilds Figures 4.7 to 4.9 of the thesis. For Reuters-21578 and OHSUMED in ``SETWISE_TEST_DATA``,
binary relevance is trained on the training part, and its most probable set is calibrated with
answers to the cross-fitted predictions of that part. A right prediction is contradicted with
probability alpha: .2 or .5 for all, or .1, .3 and .5 by three annotators of a random third each. A
wrong one is always contradicted (beta = 0), as in section 4.10.6. The test part is clean.

The plain calibrator takes the answers as true. The robust one is what `choose_robust` picks; the
rows below it show each of its candidates, and the trees of Algorithms 4.3 and 4.4. With PLOT,
reliability on the test part is drawn before and after.
"""

import os
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.robust_choice import choose_robust
from setwise.models.calibration.calibrators import IsotonicSets
from setwise.models.calibration.choice import choose_calibrator
from setwise.models.calibration.losses import shifted_target
from setwise.models.calibration.robust_calibrators import (
    RobustBoostedSets,
    RobustLogisticSets,
)
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.evaluation.reports import CalibrationReport, report_calibration
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.results import ReliabilityCurve
from setwise.models.sets.features import SetFeatureTable, concatenate_tables
from setwise.models.training import assemble, fit_base

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("reuters21578", "ohsumed")
RATES = {"alpha .2": (0.2,), "alpha .5": (0.5,), "annotators .1/.3/.5": (0.1, 0.3, 0.5)}

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Features of predicted sets and whether each was right."""

    table: SetFeatureTable
    right: NDArray[np.uint8]


def prepare(folder: Path, seed: int) -> tuple[Rows, Rows]:
    """Return cross-fitted rows of the training part, and rows of the test part."""
    train = read_dataset(folder, "train")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # labels that only the test part has
        test = read_dataset(
            folder, "test", label_names=train.label_names, feature_names=train.feature_names
        )
    options = TrainingOptions(preset="paper", method="br", calibrator="isotonic", seed=seed)
    fitted = fit_base(train, options)
    predictor = assemble(train, fitted, choose_calibrator(fitted.rows, options), options)
    best = fitted.rows.candidates.doc_indptr[:-1]
    seen = Rows(fitted.rows.table.take(best), fitted.rows.correct[best])
    return seen, judge(predictor, test)


def judge(predictor: SetPredictor, test: Dataset) -> Rows:
    """Describe the most probable set of each test document."""
    assert predictor.vectorizer is not None  # both data sets are texts
    assert test.texts is not None
    X = predictor.vectorizer.transform(test.texts)
    n_known = len(predictor.label_names)
    foreign = np.asarray(test.Y[:, n_known:].sum(axis=1)).ravel() > 0  # always missed
    tables, right = [], []
    for start in range(0, X.shape[0], 2048):
        part = slice(start, start + 2048)
        evidence = predictor.evidence(X[part])
        candidates = predictor.source.propose(evidence)
        best = candidates.doc_indptr[:-1]
        tables.append(predictor.features.transform(evidence, candidates).take(best))
        found = candidates.correct(test.Y[part, :n_known])[best]
        right.append(np.where(foreign[part], 0, found))
    return Rows(concatenate_tables(tables), np.concatenate(right).astype(np.uint8))


def ask(rows: Rows, rates: tuple[float, ...], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return noisy answers and the alpha of each annotator."""
    alpha = rng.choice(rates, len(rows.right))
    return np.where(rng.random(len(alpha)) < alpha, 0, rows.right).astype(np.float64), alpha


def fit_all(rows: Rows, agreed: Floats, alpha: Floats, seed: int, test: Rows) -> dict[str, Floats]:
    """Return the confidence in the test part of every calibrator."""
    chosen = choose_robust(rows.table, agreed, alpha=alpha, beta=0.0, random_state=seed)
    kinds: dict[str, RobustBoostedSets | RobustLogisticSets] = {
        "forward, logistic": RobustLogisticSets(),
        "forward, boosted": RobustBoostedSets(random_state=seed),
        "backward, boosted": RobustBoostedSets("backward", random_state=seed),
    }
    uniform = len(np.unique(alpha)) == 1
    algorithm = "Algorithm 4.3" if uniform else "Algorithm 4.4"
    # A leaf of these trees is a mean, a fourth of a Newton step; so they learn four times as fast.
    kinds[algorithm] = RobustBoostedSets(
        "uniform" if uniform else "annotator", learning_rate=0.2, random_state=seed
    )
    found = {
        "plain, boosted": RobustBoostedSets(random_state=seed)
        .fit(rows.table, agreed)
        .predict(test.table),
        "shifted target, isotonic": IsotonicSets()
        .fit(rows.table, shifted_target(agreed, alpha, 0.0))
        .predict(test.table),
    }
    for name, kind in kinds.items():
        found[name] = kind.fit(rows.table, agreed, alpha=alpha, beta=0.0).predict(test.table)
    found[f"robust ({chosen.name}, {chosen.effective_rows:.0f} effective rows)"] = (
        chosen.calibrator.predict(test.table)
    )
    return found


def show(name: str, confidence: Floats, test: Rows) -> None:
    scores = score_calibration(confidence, test.right)
    print(
        f"  {name:46}{scores.brier:8.4f}{scores.alignment_error:10.5f}{scores.sharpness:8.4f}",
        flush=True,
    )


def report(name: str, confidence: Floats, test: Rows, seed: int) -> CalibrationReport:
    found = report_calibration(confidence, test.right, random_state=seed)
    assert isinstance(found, CalibrationReport)  # both test parts are large enough
    aligned = found.alignment_error
    print(
        f"  {name}: alignment error debiased {aligned.value:.5f} "
        f"[{aligned.low:.5f}, {aligned.high:.5f}], p of honesty {found.reliability.p_value:.3f}",
        flush=True,
    )
    return found


def draw(curves: dict[tuple[str, str], dict[str, ReliabilityCurve]], path: Path) -> None:
    """Draw reliability before and after for every data set and noise."""
    import matplotlib as mpl  # noqa: PLC0415  # only for the plot

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    figure, axes = plt.subplots(
        len(NAMES), len(RATES), figsize=(11, 7.2), sharex=True, sharey=True, squeeze=False
    )
    for axis, ((data, noise), pair) in zip(axes.flat, curves.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for label, colour in (("plain", "tab:red"), ("robust", "tab:blue")):
            curve = pair[label]
            style: dict[str, Any] = {"color": colour, "label": label}
            axis.plot(curve.confidence, curve.accuracy, **style)
            if label == "robust":
                band = (curve.confidence, curve.low, curve.high)
                axis.fill_between(*band, color=colour, alpha=0.15, linewidth=0)
        axis.set_title(f"{data}, {noise}", fontsize=10)
    axes[0][0].legend(loc="upper left", frameon=False)
    figure.supxlabel("confidence")
    figure.supylabel("accuracy against clean truth")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    curves: dict[tuple[str, str], dict[str, ReliabilityCurve]] = {}
    for name in NAMES:
        if not (data / name).is_dir():
            sys.exit(f"no data at {data / name}: set SETWISE_TEST_DATA")
        rows, test = prepare(data / name, seed)
        print(
            f"\n{name}: {len(rows.right)} answers, {len(test.right)} clean test documents, "
            f"accuracy {test.right.mean():.3f}\n  {'':46}{'Brier':>8}{'aligned':>10}{'sharp':>8}"
        )
        rng = np.random.default_rng(seed)
        clean = RobustBoostedSets(random_state=seed).fit(rows.table, rows.right)
        show("clean answers, boosted", clean.predict(test.table), test)
        for noise, rates in RATES.items():
            print(f" {noise}")
            agreed, alpha = ask(rows, rates, rng)
            found = fit_all(rows, agreed, alpha, seed, test)
            for kind, confidence in found.items():
                show(kind, confidence, test)
            kinds = list(found)
            curves[name, noise] = {
                label: report(label, found[kind], test, seed).reliability
                for label, kind in (("plain", kinds[0]), ("robust", kinds[-1]))
            }
    if len(sys.argv) > 2:
        draw(curves, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
