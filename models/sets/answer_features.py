"""Set features that compare a candidate with another model's label sets."""

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets, RaggedSets, equal
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.voters.vote_features import Unfitted

SHARE, N_ANSWERS = "answer_share", "log_answers"
SCORED, SCORE = "answer_scored", "answer_score"


class AnswerFeatures(Unfitted):
    """Agreement of a candidate with the label sets that another model gave.

    ``answer_share`` is the share of answers that are this set, ``answer_gap`` that share minus the
    document's largest, ``answer_jaccard`` the mean Jaccard similarity of the answers with the set
    and ``log_answers`` the logarithm of one plus their number. ``answer_score`` is the score given
    with the set, or the lowest given for the document, ``answer_score_gap`` that score minus the
    document's highest, and ``answer_scored`` 1 if any is given. All are 0 where nothing is given.
    """

    names = (
        SHARE,
        "answer_gap",
        "answer_jaccard",
        N_ANSWERS,
        SCORED,
        SCORE,
        "answer_score_gap",
    )
    monotone = (0, 0, 0, 0, 0, 0, 0)

    def transform(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        """Return the seven columns.

        Raises
        ------
        ValueError
            If the evidence holds no answers.
        """
        answers = evidence.answers
        if answers is None:
            raise ValueError("features of another model's answers need answers")
        return _describe_answers(
            candidates.doc_indptr,
            candidates.sets,
            answers.doc_indptr,
            answers.sets,
            answers.counts,
            answers.set_scores,
        )


@njit(cache=True, nogil=True)
def _jaccard(a: RaggedSets, s: int, b: RaggedSets, t: int) -> float:  # pragma: no cover - compiled
    """Return the Jaccard similarity of two sets, 1 for two empty ones."""
    j, k, both = a.indptr[s], b.indptr[t], 0
    last, end = a.indptr[s + 1], b.indptr[t + 1]
    either = last - j + end - k
    if either == 0:
        return 1.0
    while j < last and k < end:
        if a.labels[j] == b.labels[k]:
            both += 1
            j += 1
            k += 1
        elif a.labels[j] < b.labels[k]:
            j += 1
        else:
            k += 1
    return float(both / (either - both))


@njit(cache=True, nogil=True)
def _describe_answers(  # noqa: PLR0917 - compiled code is called by position
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    given_indptr: NDArray[np.int64],
    answers: RaggedSets,
    counts: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the columns of `AnswerFeatures`."""
    out = np.zeros((len(sets.indptr) - 1, 7), dtype=np.float32)
    for i in range(len(doc_indptr) - 1):
        first, last = given_indptr[i], given_indptr[i + 1]
        total, largest = 0.0, 0.0
        least, best = np.inf, -np.inf
        for t in range(first, last):
            total += counts[t]
            largest = max(largest, counts[t])
            if not np.isnan(scores[t]):
                least, best = min(least, scores[t]), max(best, scores[t])
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            share, alike, score = 0.0, 0.0, least
            for t in range(first, last):
                alike += counts[t] * _jaccard(sets, s, answers, t)
                if equal(sets, s, answers, t):
                    share = counts[t]
                    if not np.isnan(scores[t]):
                        score = scores[t]
            if total > 0.0:
                out[s, 0] = share / total
                out[s, 1] = (share - largest) / total
                out[s, 2] = alike / total
                out[s, 3] = np.log1p(total)
            if best >= least:
                out[s, 4] = 1.0
                out[s, 5] = score
                out[s, 6] = score - best
    return out
