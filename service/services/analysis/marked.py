"""How good a model of people's answers is, judged on the documents that were marked on arrival.

People also read what a model is unsure of. Such documents teach more, but they are harder than
those to come, and what is left of the queue is easier. So the marked documents alone are judged,
each by a fit that learnt from all others, the picked ones among them.
"""

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.training import train
from setwise.service.domain.recalibration import Progress
from setwise.service.domain.retraining import LEAST_MARKED, Measured

FOLDS = 5
RISK = 0.025
"""Of each bound."""

LabelSet = frozenset[str]


def measure_marked(
    dataset: Dataset, marked: NDArray[np.bool_], options: TrainingOptions, report: Progress
) -> Measured | None:
    """Return how often a model of texts is right; None with too few marked documents."""
    places, texts = np.flatnonzero(marked), dataset.texts
    if texts is None or len(places) < LEAST_MARKED:
        return None
    names = np.array(dataset.label_names, dtype=object)
    truth = [frozenset(names[dataset.Y[[row]].indices]) for row in range(dataset.n)]
    fold = np.full(dataset.n, -1)
    fold[places] = np.random.default_rng(options.seed).permutation(len(places)) % FOLDS
    right, rank, frequent = 0, 0.0, 0.0
    for number in range(FOLDS):
        report(number / FOLDS, "judging models on marked documents")
        held_out, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # labels that only the held out ones have
            model = train(dataset.take(others), options)
        suggested = _suggested(model, [texts[row] for row in held_out])
        counts = Counter(truth[row] for row in others)
        commonest = [labels for labels, _ in counts.most_common()]
        for row, sets in zip(held_out, suggested, strict=True):
            right += sets[0] == truth[row]
            rank += _one_by_rank(sets, truth[row])
            frequent += _one_by_rank(commonest[: len(sets)], truth[row])
    n = len(places)
    return Measured(
        answers=dataset.n,
        marked=n,
        right=right,
        low=float(lower_bound(right, n, RISK)),
        high=float(upper_bound(right, n, RISK)),
        rank=rank / n,
        frequent_rank=frequent / n,
    )


def _suggested(model: SetPredictor, texts: Sequence[str]) -> list[list[LabelSet]]:
    predicted = model.predict_texts(texts)
    return [[frozenset(each.labels) for each in predicted.ranked(row)] for row in range(len(texts))]


def _one_by_rank(sets: Sequence[LabelSet], truth: LabelSet) -> float:
    return 1.0 / (sets.index(truth) + 1) if truth in sets else 0.0
