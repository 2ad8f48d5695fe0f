"""Turns another model's scores, or the agreement of its label sets, into label scores."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.data.answers import ModelAnswers
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.sets.candidates import RaggedSets
from setwise.models.storage.fields import StoredSetting
from setwise.models.storage.state import Lengths, StoredPart

# Scores of exactly 0 and 1 are rounded ones.
_EDGE = 1e-6
_DEFAULT_FLOOR = 1e-3
# Weight of the labels' mean frequency, in answers, when the share of answers is smoothed.
_PRIOR_ANSWERS = 0.25


class GivenScores(StoredPart, Estimator):
    r"""Label scores of an external predictor, in the place of binary relevance.

    The logit of a given probability; half the lower one of the row's smallest probability and
    ``floor_`` stands for a probability that is not given. A document without scores has the logits
    of the shares

    .. math:: \frac{k_l + m d}{n + m}

    for a label in :math:`k_l` of its :math:`n` sets, where :math:`d` is the mean frequency of a
    label and :math:`m` = 1/4. What no training document gave is not read: its worth is unknown.

    Examples
    --------
    >>> from setwise.models.data.answer_parsing import parse_answer
    >>> documents = [{"scores": {"a": 0.5, "b": 0.5}}, {"labels": ["b"]}]
    >>> answers = ModelAnswers.of("ab", [parse_answer(each) for each in documents])
    >>> scores = GivenScores().fit(answers, csr_array(np.array([[1, 0], [0, 1]])))
    >>> scores.decision_function(answers).round(1).tolist()
    [[0.0, 0.0], [-2.2, 2.2]]
    """

    floor_: float  # smallest probability given in training
    density_: float  # mean frequency of a label in training
    # Whether logits of training documents came from scores, and from sets.
    reads_scores_: bool
    reads_sets_: bool
    n_labels_: int
    stored = (
        StoredSetting("n_labels", "n_labels_", int, low=1, length="labels"),
        StoredSetting("floor", "floor_", float, low=_EDGE, high=1.0),
        StoredSetting("reads_scores", "reads_scores_", bool),
        StoredSetting("reads_sets", "reads_sets_", bool),
        StoredSetting("density", "density_", float, low=_EDGE, high=1.0 - _EDGE),
    )

    def fit(
        self, answers: ModelAnswers, Y: csr_array, sample_weight: NDArray[np.float64] | None = None
    ) -> Self:
        """Learn what is a small score, and a label's mean frequency in Y (n, n_labels)."""
        scores = None if answers.scores is None else answers.scores.data
        self.floor_ = _DEFAULT_FLOOR
        if scores is not None and len(scores):
            self.floor_ = float(np.clip(scores.min(), _EDGE, 1.0))
        share = np.average(np.diff(Y.indptr), weights=sample_weight) / Y.shape[1]
        self.density_ = float(np.clip(share, _EDGE, 1.0 - _EDGE))
        self.n_labels_ = int(Y.shape[1])
        scored = answers.scored()
        self.reads_scores_ = bool(scored.any())
        self.reads_sets_ = bool((answers.n_answers > 0)[~scored].any())
        return self

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Refuse a part that reads nothing: no ``fit`` leaves one."""
        part = super().restored(fields, lengths)
        if not (part.reads_scores_ or part.reads_sets_):
            raise ValueError("neither 'reads_scores' nor 'reads_sets' is true; one must be")
        return part

    def unread(self, answers: ModelAnswers) -> NDArray[np.int64]:
        """Return the documents without any kind of answer that the training documents had."""
        read = np.zeros(len(answers), dtype=bool)
        if self.reads_scores_:
            read |= answers.scored()
        if self.reads_sets_:
            read |= answers.n_answers > 0
        return np.flatnonzero(~read)

    def decision_function(self, answers: ModelAnswers) -> NDArray[np.float64]:
        """Return the logits (n_documents, n_labels), finite."""
        check_fitted(self, "floor_")
        if answers.n_labels != self.n_labels_:
            raise ValueError(
                f"the answers count {answers.n_labels} labels; this model knows {self.n_labels_}"
            )
        share = _shares(
            answers.doc_indptr, answers.sets, answers.counts, self.density_, self.n_labels_
        )
        if answers.scores is not None and self.reads_scores_:
            scores = answers.scores
            _fill(scores.indptr, scores.indices, scores.data, self.floor_, share)
        return np.log(share / (1.0 - share))


@njit(cache=True, nogil=True)
def _shares(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    counts: NDArray[np.float64],
    density: float,
    n_labels: int,
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return each label's smoothed share of the sets (n_documents, n_labels)."""
    n = len(doc_indptr) - 1
    prior = _PRIOR_ANSWERS * density
    out = np.full((n, n_labels), prior)
    for i in range(n):
        total = _PRIOR_ANSWERS
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            total += counts[s]
            for j in range(sets.indptr[s], sets.indptr[s + 1]):
                out[i, sets.labels[j]] += counts[s]
        out[i] /= total
    return out


@njit(cache=True, nogil=True)
def _fill(
    indptr: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    floor: float,
    out: NDArray[np.float64],
) -> None:  # pragma: no cover - compiled
    """Replace the rows that have scores by their probabilities."""
    for i in range(len(out)):
        first, last = indptr[i], indptr[i + 1]
        if first == last:
            continue
        least = floor
        for j in range(first, last):
            least = min(least, max(values[j], _EDGE))
        out[i] = 0.5 * least
        for j in range(first, last):
            out[i, columns[j]] = min(max(values[j], _EDGE), 1.0 - _EDGE)
