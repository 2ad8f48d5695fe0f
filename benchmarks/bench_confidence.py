"""How far a confidence can be taken at its word.

    python -m benchmarks.bench_confidence test [FOLDER:PRESET…]
    python -m benchmarks.bench_confidence small
    python -m benchmarks.bench_confidence short [FOLDER…]
    python -m benchmarks.bench_confidence inputs [FOLDER…]

``test`` trains on the training part with seed 0 and measures the announced sets of the test part:
ECE is the mean gap between confidence and accuracy in fifteen buckets of equal size; "chance" is
the ECE that true confidences would show. ``small`` measures models of a few documents, a twentieth
of which has a wrong label, on 2,000 others. ``short`` holds a fifth of the training part out and
cuts its texts to their first or random words, replaces words by unknown ones, or gives the model
texts of the other folder. ``inputs`` gives the set calibrator of ``fast`` further columns: how many
known features the document has and which share of its words is known, or the entropy of its label
probabilities. It draws at most 1,000 documents of a training part and cross-fits everything; a gain
is ± its standard error over documents.
"""

import argparse
import os
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from benchmarks.bench_calibrators import exactly_right
from benchmarks.bench_quality import read_parts
from benchmarks.bench_worth import CALIBRATORS
from setwise.models.calibration.announced_curve import cross_corrected
from setwise.models.calibration.choice import cross_validate
from setwise.models.classifier import SetClassifier
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.options import PRESETS, TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.coherence import coherent_confidence
from setwise.models.sets.decider import announced_order
from setwise.models.training import FittedBase, fit_base, train

ROOT = Path(__file__).resolve().parents[1]
Floats = NDArray[np.float64]
_WORD = re.compile(r"\w+")
_WORDS = (1, 2, 3, 5, 8, 12, 20, 50)


def gap(confidence: Floats, right: Floats, buckets: int = 15) -> float:
    """Return the ECE with buckets of equal size."""
    parts = np.array_split(np.argsort(confidence, kind="stable"), buckets)
    misses = [abs(right[part].mean() - confidence[part].mean()) * len(part) for part in parts]
    return float(sum(misses) / len(confidence))


def gap_of_chance(confidence: Floats) -> float:
    """Return the mean ECE of outcomes drawn from the confidences."""
    draw = np.random.default_rng(0)
    drawn = [draw.random(len(confidence)) < confidence for _ in range(200)]
    return float(np.mean([gap(confidence, right.astype(float)) for right in drawn]))


def measure_test(asked: list[str]) -> None:
    """Print the row of each data set and preset."""
    for name in asked:
        folder, _, preset = name.rpartition(":")
        if preset not in PRESETS:
            raise SystemExit(f"{name}: give FOLDER:PRESET, such as FOLDER:best")
        learnt, test = read_parts(folder)
        model = train(learnt, TrainingOptions(preset=preset))
        if test.texts is not None:
            found = model.predict_texts(test.texts)
        else:
            assert test.X is not None  # a data set holds texts or vectors
            found = model.predict(test.X)
        right, sure = exactly_right(found, test).astype(float), found.top_confidence()
        sent = [automation_at(target, sure, right, least=1).coverage for target in (0.9, 0.95)]
        print(
            f"{Path(folder).name:14} {preset:6} set accuracy {right.mean():.3f}  ECE "
            f"{gap(sure, right):.4f}  chance {gap_of_chance(sure):.4f}  log loss "
            f"{score_calibration(sure, right).log_loss:.3f}  AUROC {roc_auc_score(right, sure):.3f}"
            f"  sent at .90 and .95: {sent[0]:.3f} {sent[1]:.3f}  largest {sure.max():.4f}",
            flush=True,
        )


def measure_small(seeds: int = 6) -> None:
    """Print log loss, alignment error and certainties of models of few documents."""
    for n in (60, 100, 200, 400):
        rows = []
        for seed in range(seeds):
            draw = np.random.default_rng(seed)
            model = SetClassifier(preset="fast", random_state=seed, n_jobs=1).fit(*notes(n, draw))
            texts, labels = notes(2000, draw)
            sure = model.predict_confidence(texts)
            pairs = zip(model.predict_set(texts), labels, strict=True)
            scores = score_calibration(sure, [set(a) == set(b) for a, b in pairs])
            rows.append((scores.log_loss, scores.alignment_error, float(np.mean(sure == 1.0))))
        loss, alignment, certain = np.mean(rows, axis=0)
        print(f"{n:4} log loss {loss:.3f}  alignment {alignment:.4f}  exactly 1.0: {certain:.3f}")


def notes(n: int, draw: np.random.Generator) -> tuple[list[str], list[list[str]]]:
    """Return texts of filler words and two that name a label, some with another label."""
    texts, labels = [], []
    for _ in range(n):
        held = [name for name in ("fever", "rash") if draw.random() < 0.5]
        words = [*held, *(f"w{number}" for number in draw.integers(0, 40, 5))]
        texts.append(" ".join(draw.permutation(words)))
        wrong = [name for name in ("fever", "rash") if draw.random() < 0.5]
        labels.append(wrong if draw.random() < 0.05 else held)
    return texts, labels


def measure_short(folders: list[str]) -> None:
    """Print how often confidences above .9 in changed texts are right."""
    for folder in folders:
        data = read_dataset(Path(folder), "train")
        order = np.random.default_rng(0).permutation(data.n)
        learnt, held = np.split(order, [int(0.8 * data.n)])
        model = train(data.take(np.sort(learnt)), TrainingOptions(preset="fast"))
        out = data.take(np.sort(held))
        words = [_WORD.findall(text) for text in out.texts or ()]
        print(f"{Path(folder).name}: {model.support}")
        for k in _WORDS:
            draw = np.random.default_rng(k)
            first = [" ".join(text[:k]) for text in words]
            some = [" ".join(draw.choice(t, min(k, len(t)), replace=False)) for t in words if t]
            right = [place for place, text in enumerate(words) if text]
            _above(model, f"first {k}", first, out.Y)
            _above(model, f"random {k}", some, out.Y[right])
        for share in (0.0, 0.3, 0.5, 0.7, 0.9):
            draw = np.random.default_rng(1)
            changed = [
                " ".join(f"qx{w}z" if draw.random() < share else w for w in text) for text in words
            ]
            _above(model, f"unknown {share}", changed, out.Y)


def _above(model: SetPredictor, name: str, texts: list[str], Y: csr_array) -> None:
    found = model.predict_texts(texts)
    sure, supported = found.top_confidence(), found.supported
    right = np.asarray(abs(found.chosen().astype(int) - Y.astype(int)).sum(axis=1)).ravel() == 0
    high = sure >= 0.9
    kept = high & supported
    shares = [float(right[rows].mean()) if rows.any() else float("nan") for rows in (high, kept)]
    print(
        f"{name:14} above .9: {high.mean():.3f}, right {shares[0]:.3f}; of these within the "
        f"bounds: {kept.sum() / max(high.sum(), 1):.3f}, right {shares[1]:.3f}",
        flush=True,
    )


def measure_inputs(folders: list[str], draw: int = 1000, seeds: int = 3) -> None:
    """Print what columns about the document are worth to the set calibrator of ``fast``."""
    for folder in folders:
        whole = read_dataset(Path(folder), "train")
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(whole.n)[:draw]
            data = whole.take(np.sort(order))
            fitted = fit_base(data, TrainingOptions(preset="fast", seed=seed, n_jobs=1))
            P = np.asarray(fitted.rows.marginals[:])
            entropy = -(P * np.log(P) + (1 - P) * np.log1p(-P)).sum(axis=1)
            columns: dict[str, list[Floats]] = {
                "as now": [],
                "known": _known(data, fitted),
                "entropy": [entropy],
            }
            answers = {name: _announced(fitted, added, seed) for name, added in columns.items()}
            base, base_right = answers["as now"]
            for name, (sure, right) in answers.items():
                accuracy = _gain(right - base_right)
                brier = _gain((sure - right) ** 2 - (base - base_right) ** 2)
                print(
                    f"{Path(folder).name:12} seed {seed} {name:8} set accuracy {right.mean():.3f} "
                    f"({accuracy})  Brier {np.mean((sure - right) ** 2):.4f} ({brier})  "
                    f"ECE {gap(sure, right):.4f}  AUROC {roc_auc_score(right, sure):.4f}",
                    flush=True,
                )


def _known(data: Dataset, fitted: FittedBase) -> list[Floats]:
    """Return the logarithm of known features and the known share, by the other folds' words."""
    rows = fitted.X if data.X is None else data.X
    held = csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    known = np.empty(data.n)
    for fold in np.unique(fitted.rows.folds):
        inside = fitted.rows.folds == fold
        known[inside] = held[inside] @ (held[~inside].sum(axis=0) > 0)
    share = known / np.maximum(np.diff(held.indptr), 1)
    if fitted.vectorizer is not None and data.texts is not None:
        share *= fitted.vectorizer.known_share(data.texts)
    return [np.log1p(known), share]


def _announced(fitted: FittedBase, columns: list[Floats], seed: int) -> tuple[Floats, Floats]:
    """Return cross-fitted confidences of announced sets and whether these are right."""
    rows = fitted.rows
    sets, table = rows.candidates, rows.table
    added = [column[sets.document, None].astype(np.float32) for column in columns]
    table = replace(
        table,
        names=(*table.names, *(f"added {place}" for place in range(len(added)))),
        monotone=(*table.monotone, *(0 for _ in added)),
        dense=np.concatenate([table.dense, *added], axis=1),
    )
    calibrator = clone(CALIBRATORS["fast"]).set_params(random_state=seed)
    sure = cross_validate({"": calibrator}, replace(rows, table=table), 1)[""]
    order = announced_order(sets, sure, by_confidence=True)
    ranked, right = sets.reorder(order), rows.correct[order]
    sure = cross_corrected(ranked, coherent_confidence(ranked, sure[order]), right, rows.folds)
    first = ranked.doc_indptr[:-1]
    return sure[first], right[first].astype(np.float64)


def _gain(differences: Floats) -> str:
    error = differences.std() / len(differences) ** 0.5
    return f"{differences.mean():+.4f} ± {error:.4f}"


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("test", "small", "short", "inputs"))
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    names = ("medical", "scene", "bibtex", "reuters21578")
    warnings.simplefilter("ignore")  # too few documents for trees
    if asked.what == "test":
        measure_test(
            asked.names
            or [f"{data / name}:{preset}" for name in names for preset in ("best", "fast")]
        )
    elif asked.what == "small":
        measure_small()
    elif asked.what == "short":
        measure_short(asked.names or [str(data / "reuters21578")])
    else:
        few = ("medical", "ohsumed", "reuters21578", "bibtex")
        measure_inputs(asked.names or [str(data / name) for name in few])


if __name__ == "__main__":
    main()
