"""Out-of-fold rows for calibrators: no document contributes to its own description.

The label scores of a fold come from a base model fitted on the other folds. Its label calibrator
is fitted on the other folds' out-of-fold scores, its set counts and candidate source on the other
folds' label sets. Cross-fitting is used instead of a single hold-out part, because the base model
would learn from fewer documents and be less accurate.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from setwise.models.calibration.noisy_history import RowRates
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.capacity import rows_at_once
from setwise.models.data.rows import SparseRows
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.kept_scores import Scores, score_matrix
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.parallel import Threads, thread_count
from setwise.models.sets.candidates import CandidateSets, concatenate
from setwise.models.sets.evidence import CandidateSource, DocumentEvidence
from setwise.models.sets.features import SetFeatures, SetFeatureTable, concatenate_tables
from setwise.models.voters.voters import SetVoters

# Scores and votes of a part are dense, a quarter of a gigabyte at most; these bound their memory.
_VOTES_AT_ONCE = 2048
_MOST_THREADS = 4

Progress = Callable[[float, str], None]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Some documents of one fold, with parts fitted on the other folds."""

    rows: NDArray[np.int64]  # numbers of the documents, ascending
    # Returns the evidence about them; not stored, because votes are dense.
    evidence: Callable[[], DocumentEvidence]
    source: CandidateSource
    features: SetFeatures


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Descriptions of all documents by models that never saw them."""

    folds: NDArray[np.int64]  # (n_documents,) fold of each document, from 0
    logits: Scores  # (n_documents, n_labels) raw label scores
    # (n_documents, n_labels) calibrated label probabilities. Single precision would round the
    # surest to 0 and 1.
    marginals: Scores
    candidates: CandidateSets  # in the order of the documents
    table: SetFeatureTable  # features of the candidates
    correct: NDArray[np.uint8]  # (n_sets,) whether the candidate is the document's given set
    # Sources of the rows, for making other rows of the same documents.
    held_out: tuple[HeldOut, ...] = ()
    rates: RowRates | None = None  # noise of the documents' given sets; None: they are true

    @property
    def set_folds(self) -> NDArray[np.int64]:
        """Fold of each candidate, shape (n_sets,)."""
        return self.folds[self.candidates.document]

    @property
    def set_rates(self) -> RowRates | None:
        """Noise rates of each candidate, shape (n_sets,)."""
        return None if self.rates is None else self.rates.take(self.candidates.document)


def out_of_fold_logits(
    base: BinaryRelevance | GivenScores,
    X: csr_array | ModelAnswers,
    Y: csr_array,
    folds: NDArray[np.int64],
    progress: Progress | None = None,
    *,
    sample_weight: NDArray[np.float64] | None = None,
    n_jobs: int | None = None,
) -> Scores:
    """Score each fold by a copy of ``base`` fitted on the others.

    Parameters
    ----------
    base : BinaryRelevance or GivenScores
        Unfitted.
    X : csr_array of shape (n_documents, n_features), or ModelAnswers
        What the base reads.
    Y : csr_array of shape (n_documents, n_labels)
    folds : int64 ndarray of shape (n_documents,)
        At least two different values.
    progress : callable, optional
        Called with the share of folds done and the name of the current stage.
    sample_weight : float64 ndarray of shape (n_documents,), optional
    n_jobs : int, optional
        Threads that score documents; None means every usable core.

    Returns
    -------
    float32 ndarray or KeptScores of shape (n_documents, n_labels)
        Single precision, because this matrix limits how much a machine can train on.
    """
    logits = score_matrix(Y.shape, np.float32)
    names = np.unique(folds)
    for done, fold in enumerate(names):
        if progress is not None:
            progress(done / len(names), f"binary relevance without fold {done + 1}")
        outside = np.flatnonzero(folds != fold)
        weight = None if sample_weight is None else sample_weight[outside]
        unfitted: Any = copy(base)  # a clone would forget where its steps start
        fitted = unfitted.fit(X[outside], Y[outside], weight)
        _fill(logits, fitted.decision_function, X, _parts(folds, fold, Y.shape[1]), n_jobs)
    return logits


def cross_fit(
    X: csr_array,
    Y: csr_array,
    folds: NDArray[np.int64],
    logits: Scores,
    *,
    label_calibrator: LabelCalibrator,
    source: CandidateSource,
    features: SetFeatures,
    voters: SetVoters | None = None,
    answers: ModelAnswers | None = None,
    n_jobs: int | None = None,
) -> CrossFitted:
    """Propose and describe each fold's candidates by the other folds.

    Parameters
    ----------
    X, Y, folds
        As for `out_of_fold_logits`.
    logits : float32 ndarray or KeptScores of shape (n_documents, n_labels)
        Result of `out_of_fold_logits`.
    label_calibrator, source, features
        Unfitted parts; clones are fitted.
    voters : SetVoters, optional
        Fitted here on all documents; each fold gets the votes of the other folds.
    answers : ModelAnswers, optional
        What another model says of the documents, none of which it has seen.
    n_jobs : int, optional
        Threads that calibrate scores and describe candidates; None means every usable core.
    """
    marginals = score_matrix(logits.shape, np.float64)
    for fold in np.unique(folds):
        outside = np.flatnonzero(folds != fold)
        calibrator = clone(label_calibrator).fit(logits, Y, rows=outside)
        _fill(marginals, calibrator.transform, logits, _parts(folds, fold, Y.shape[1]), n_jobs)
    vote = None if voters is None else voters.fit_folds(X, marginals, Y, folds)

    def gather(part: NDArray[np.int64]) -> DocumentEvidence:
        votes = None if vote is None else vote(part)
        of_part = None if answers is None else answers.take(part)
        return DocumentEvidence(
            SparseRows.of(X[part]), logits[part], marginals[part], votes, of_part
        )

    held_out: list[HeldOut] = []
    for fold in np.unique(folds):
        outside = np.flatnonzero(folds != fold)
        proposer = clone(source).fit(X[outside], Y[outside])
        describer = clone(features).fit(X[outside], Y[outside])
        held_out += [
            HeldOut(part, partial(gather, part), proposer, describer)
            for part in _parts(folds, fold, Y.shape[1])
        ]

    def describe(_: None, part: HeldOut) -> tuple[CandidateSets, SetFeatureTable]:
        evidence = part.evidence()
        proposed = part.source.propose(evidence)
        return proposed, part.features.transform(evidence, proposed)

    # Sums would depend on the number of BLAS threads.
    with threadpool_limits(1, user_api="blas"):
        candidates, tables = zip(*_threads(n_jobs).run(describe, None, held_out), strict=True)
    ordered, table = in_document_order(held_out, candidates, tables)
    correct = ordered.correct(Y)
    return CrossFitted(folds, logits, marginals, ordered, table, correct, tuple(held_out))


def in_document_order(
    held_out: Sequence[HeldOut],
    candidates: Sequence[CandidateSets],
    tables: Sequence[SetFeatureTable],
) -> tuple[CandidateSets, SetFeatureTable]:
    """Return candidates of held-out parts and their features by document."""
    by_fold = concatenate(candidates)
    rows = np.concatenate([part.rows for part in held_out])
    sets, doc_indptr = _document_order(by_fold.doc_indptr, rows)
    return by_fold.take(sets, doc_indptr), concatenate_tables(tables).take(sets)


def _parts(folds: NDArray[np.int64], fold: int, n_labels: int) -> list[NDArray[np.int64]]:
    """Split a fold into parts whose votes and scores fit into memory."""
    inside, step = np.flatnonzero(folds == fold), rows_at_once(n_labels, _VOTES_AT_ONCE)
    return [inside[start : start + step] for start in range(0, len(inside), step)]


def _fill(
    scores: Scores,
    score: Callable[[Any], NDArray[np.floating]],
    source: csr_array | ModelAnswers | Scores,
    parts: list[NDArray[np.int64]],
    n_jobs: int | None,
) -> None:
    """Write the scores of some documents, which ``score`` makes of rows of ``source``."""

    def fill(_: None, part: NDArray[np.int64]) -> None:
        scores[part] = score(source[part])

    _threads(n_jobs).run(fill, None, parts)


def _threads(n_jobs: int | None) -> Threads:
    return Threads(min(thread_count(n_jobs), _MOST_THREADS))


def _document_order(
    doc_indptr: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sets in order of document, and the documents' bounds there.

    ``doc_indptr`` bounds the sets of documents that stand in the order ``rows``.
    """
    position = np.argsort(rows, kind="stable")
    counts = np.diff(doc_indptr)[position]
    starts = doc_indptr[:-1][position]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return np.repeat(starts - bounds[:-1], counts) + np.arange(bounds[-1]), bounds
