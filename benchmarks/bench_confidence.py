"""How far a confidence can be taken at its word.

    python -m benchmarks.bench_confidence test [FOLDER:PRESET…]
    python -m benchmarks.bench_confidence small
    python -m benchmarks.bench_confidence short [FOLDER…]

``test`` trains on the training part with seed 0 and measures the announced sets of the test part:
ECE is the mean gap between confidence and accuracy in fifteen buckets of equal size; "chance" is
the ECE that true confidences would show. ``small`` measures models of a few documents, a twentieth
of which has a wrong label, on 2,000 others. ``short`` holds a fifth of the training part out and
cuts its texts to their first or random words, replaces words by unknown ones, or gives the model
texts of the other folder.
"""

import argparse
import os
import re
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from benchmarks.bench_calibrators import exactly_right
from benchmarks.bench_quality import read_parts
from setwise.models.classifier import SetClassifier
from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.options import PRESETS, TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.training import train

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


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("test", "small", "short"))
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
    else:
        measure_short(asked.names or [str(data / "reuters21578")])


if __name__ == "__main__":
    main()
