"""Recalibration after a drift, from reviewers who err: how far confidences are from the truth.

    python -m benchmarks.drifted_reviews [RUNS] [--record]

Synthetic confidences with 2,000 original rows; then all confidences promise .132 too much (*drop*),
logits fall by 1 (*logit*), a third of the labels fail (*pocket*), or nothing changes. Each run
learns from 200 or 1,000 reviews: as if no reviewer erred (*plain*), or told the error rates, with
the original rows faded as before, or by what the shift allows (*now*).
"""

import sys

import numpy as np
from scipy.special import expit, logit

from benchmarks.rows import record
from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.recalibration import (
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
)
from setwise.models.calibration.sampling import effective_rows
from setwise.models.sets.candidates import RaggedSets
from setwise.service.services.analysis.lessons import Floats, beside_reviews

N_LABELS, FAILING = 20, 7
DRIFTS = ("none", "drop", "logit", "pocket")
RATES = ((0.0, 0.0), (0.2, 0.0), (0.3, 0.1), (0.1, 0.3))
WAYS = ("plain", "before", "now")


def announced(draw: np.random.Generator, n: int) -> AnnouncedSets:
    """Return sets of one label, with the confidences of a calibrated model."""
    confidence = draw.beta(5, 1.2, n)
    labels = draw.integers(N_LABELS, size=n).astype(np.int32)
    runner_up = (1.0 - confidence) * draw.uniform(0.3, 0.8, n)
    rest = np.clip(1.0 - confidence - runner_up, 0.0, 1.0)
    score = np.clip(confidence * draw.uniform(0.6, 1.0, n), 0.0, 1.0)
    sets = RaggedSets(np.arange(n + 1), labels)
    return AnnouncedSets(confidence, score, runner_up, rest, sets, N_LABELS)


def chances(sets: AnnouncedSets, drift: str) -> Floats:
    """Return how probably each set is right after a drift."""
    own = sets.confidence
    match drift:
        case "drop":
            return np.clip(own - 0.132, 0.0, 1.0)
        case "logit":
            return expit(logit(np.clip(own, 1e-6, 1.0 - 1e-6)) - 1.0)
        case "pocket":
            return np.where(sets.sets.labels < FAILING, 0.6 * own, own)
    return own


def calibration_error(confidence: Floats, chance: Floats) -> float:
    """Return the ECE of confidences against known chances, 15 bins of equal mass."""
    gaps = (confidence - chance)[np.argsort(confidence)]
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, 15)) / len(gaps))


def errors(drift: str, alpha: float, beta: float, n: int, seed: int) -> dict[str, float]:
    """Return the ECE of each way to learn, in one run."""
    draw = np.random.default_rng(seed)
    older = announced(draw, 2_000)
    original = CalibrationRows(older, (draw.random(2_000) < older.confidence).astype(np.uint8))
    sets, judged = announced(draw, n), announced(draw, 20_000)
    right = draw.random(n) < chances(sets, drift)
    agreed = np.where(right, draw.random(n) >= alpha, draw.random(n) < beta).astype(float)
    told = ReviewOutcomes.of(agreed, alpha=np.full(n, alpha), beta=np.full(n, beta))
    n_effective = effective_rows(told.alpha, told.beta)
    ways = {
        "plain": (ReviewOutcomes.of(agreed), original.beside(float(n))),
        "before": (told, original.beside(n_effective)),
        "now": (told, beside_reviews(original, n_effective, sets, told)),
    }
    chance = chances(judged, drift)
    return {
        way: calibration_error(
            ConfidenceCorrection.fit(sets, answers, always=always).predict(judged), chance
        )
        for way, (answers, always) in ways.items()
    }


def main() -> None:
    """Print, or record, a row for each drift, pair of error rates and number of reviews."""
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    runs = int(numbers[0]) if numbers else 20
    for n in (200, 1_000):
        for drift in DRIFTS:
            for alpha, beta in RATES:
                found = [errors(drift, alpha, beta, n, seed) for seed in range(runs)]
                figures: dict[str, str | float] = {"runs": float(runs)}
                for way in WAYS:
                    values = [each[way] for each in found]
                    figures[way] = float(np.mean(values))
                    figures[f"{way} ±"] = float(np.std(values) / np.sqrt(runs))
                subject = f"{drift}, alpha {alpha}, beta {beta}, {n} reviews"
                print(subject, *(f"{figures[way]:.3f}" for way in WAYS), flush=True)
                if "--record" in sys.argv:
                    record("drifted_reviews", subject, figures, seed=0)


if __name__ == "__main__":
    main()
