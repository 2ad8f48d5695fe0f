"""Tunes the decision rule of an objective on cross-fitted documents."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.calibration.crossfit import CrossFitted, in_document_order
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.support.sized_calibration import (
    SizedMarginalCalibrator,
    SizedMarginals,
)
from setwise.models.mixtures.support.support_decider import (
    SupportDecider,
    pair_codes,
    sized_marginals,
    support_pairs,
)
from setwise.models.sets.candidates import CandidateSets, concatenate
from setwise.models.sets.decider import Decider, SetDecider, admit, blend, normalise, voted_sets
from setwise.models.sets.decisions import (
    DecisionRule,
    ExpectedF1,
    Objective,
    Posterior,
    instance_f1,
    make_rule,
)
from setwise.models.sets.evidence import CandidateSource

# Shares of the posterior's mass to try for a voter.
_SHARES = (0.25, 0.5)

# Sized marginals (one per document and label-size pair) that fit into memory in training. If there
# are more, the rule uses the candidates only.
_MOST_MARGINALS = 200_000_000


class TunedDecision(NamedTuple):
    """A tuned decider and the cross-fitted rows with its announced sets."""

    decider: Decider
    rows: CrossFitted  # the rows given, with the announced sets among the candidates


def fit_decider(
    rows: CrossFitted,
    Y: csr_array,
    confidence: NDArray[np.float64],
    objective: Objective,
    source: CandidateSource | None = None,
) -> TunedDecision:
    """Tune an objective's rule and add its chosen sets to the candidates.

    Parameters
    ----------
    rows : CrossFitted
    Y : csr_array of shape (n_documents, n_labels)
        True sets.
    confidence : float64 ndarray of shape (n_sets,)
        Cross-validated confidences in the candidates of ``rows``.
    objective : {"f1", "hamming", "micro-f1", "macro-f1"}
    source : CandidateSource, optional
        Source of the candidates, fitted on all documents. If it is a mixture, the F1 rule is also
        tried on the mixture's support, and the better variant is taken.

    Returns
    -------
    TunedDecision
        For each document its rows hold the set chosen by a rule tuned on the other folds. Only the
        few settings of the F1 rule are tuned on all documents at once.
    """
    candidates = rows.candidates
    allow_empty = bool((np.diff(Y.indptr) == 0).any())
    rule = make_rule(objective, allow_empty=allow_empty)
    posterior = Posterior(rows.marginals[:], candidates, normalise(candidates, confidence))
    decider: Decider
    if isinstance(rule, ExpectedF1):
        tuned, posterior = _tune_f1(rule, rows, posterior, Y)
        decider, decided = tuned, tuned.rule.decide(posterior)
        if isinstance(source, MixtureCandidates) and _fits_memory(source, len(rows.folds)):
            other, others = _fit_support(rows, Y, source)
            if instance_f1(Y, others) > instance_f1(Y, decided):
                decider, decided = other, others
    else:
        decider = SetDecider(rule.fit(posterior, Y))
        decided = _decide_across(rule, posterior, Y, rows.folds)
    return TunedDecision(decider, _add(rows, Y, decided))


def _tune_f1(
    rule: ExpectedF1, rows: CrossFitted, posterior: Posterior, Y: csr_array
) -> tuple[SetDecider, Posterior]:
    """Tune the posterior's shares of independent labels and of a voter.

    The shares are chosen one after the other by mean F1; among equals the simpler one is taken.
    """
    tuned = rule.fit(posterior, Y)
    best, believed = SetDecider(tuned), posterior
    earned = instance_f1(Y, tuned.decide(posterior))
    for voter, (sets, mass) in _all_voted(rows).items():
        for share in _SHARES:
            tried = blend(posterior, sets, mass, share)
            got = instance_f1(Y, tuned.decide(tried))
            if got > earned:
                best, believed, earned = SetDecider(tuned, voter, share), tried, got
    if best.voter is not None:
        best = replace(best, rule=rule.fit(believed, Y))
    return best, believed


def _fits_memory(source: MixtureCandidates, n_documents: int) -> bool:
    return n_documents * len(support_pairs(source)) <= _MOST_MARGINALS


def _fit_support(
    rows: CrossFitted, Y: csr_array, source: MixtureCandidates
) -> tuple[SupportDecider, csr_array]:
    """Calibrate all documents' sized marginals, computed by the folds' mixtures.

    Returns
    -------
    SupportDecider
        Its curves are fitted on all documents.
    csr_array of shape (n_documents, n_labels)
        Sets chosen by curves fitted on the other folds.
    """
    codes = support_pairs(source)
    n_labels = int(Y.shape[1])
    labels, sizes = np.divmod(codes, n_labels + 1)
    P = np.zeros((Y.shape[0], len(codes)))
    for part in rows.held_out:
        if not isinstance(part.source, MixtureCandidates):
            raise TypeError("the folds' candidates come from no mixture")
        sized = sized_marginals(part.source, part.evidence())
        # The support of a fold's mixture is a subset: the sets of the other folds.
        P[part.rows[:, None], np.searchsorted(codes, pair_codes(sized))] = sized.P

    def of(documents: NDArray[np.int64]) -> SizedMarginals:
        return SizedMarginals(P[documents], labels, sizes, n_labels)

    decided = np.zeros(Y.shape, dtype=np.uint8)
    allow_empty = source.mixture_.allow_empty_
    for fold in np.unique(rows.folds):
        inside, outside = np.flatnonzero(rows.folds == fold), np.flatnonzero(rows.folds != fold)
        across = SupportDecider(SizedMarginalCalibrator().fit(of(outside), Y[outside]))
        decided[inside] = across.decide(of(inside), allow_empty=allow_empty).toarray()
    everything = SizedMarginals(P, labels, sizes, n_labels)
    return SupportDecider(SizedMarginalCalibrator().fit(everything, Y)), csr_array(decided)


def _all_voted(rows: CrossFitted) -> dict[str, tuple[CandidateSets, NDArray[np.float64]]]:
    """Return by voter the sets favoured by held-out votes, by document."""
    parts: dict[str, list[tuple[CandidateSets, NDArray[np.float64]]]] = {}
    for held_out in rows.held_out:
        votes = held_out.evidence().votes
        if votes is None:
            return {}
        for voter in votes.voters:
            parts.setdefault(voter, []).append(voted_sets(votes, voter))
    numbers = np.concatenate([held_out.rows for held_out in rows.held_out])
    position = np.argsort(numbers)
    out = {}
    for voter, by_part in parts.items():
        sets = concatenate([of_part for of_part, _ in by_part]).take_documents(position)
        # The scores of voted sets are the logarithms of their masses.
        out[voter] = sets, np.exp(sets.log_score)
    return out


def _decide_across(
    rule: DecisionRule, posterior: Posterior, Y: csr_array, folds: NDArray[np.int64]
) -> csr_array:
    """Choose each fold's sets by a rule tuned on the other folds."""
    decided = np.zeros(Y.shape, dtype=np.uint8)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        tuned = rule.fit(_documents(posterior, outside), Y[outside])
        decided[inside] = tuned.decide(_documents(posterior, inside)).toarray()
    return csr_array(decided)


def _documents(posterior: Posterior, documents: NDArray[np.int64]) -> Posterior:
    candidates = posterior.candidates
    inside = np.isin(candidates.document, documents)
    return Posterior(
        posterior.marginals[documents],
        candidates.take_documents(documents),
        posterior.mass[inside],
    )


def _add(rows: CrossFitted, Y: csr_array, decided: csr_array) -> CrossFitted:
    """Add chosen sets to the candidates and recompute the features."""
    candidates, tables = [], []
    for part in rows.held_out:
        evidence = part.evidence()
        of_part = rows.candidates.take_documents(part.rows)
        candidates.append(admit(decided[part.rows], evidence, part.source, of_part))
        tables.append(part.features.transform(evidence, candidates[-1]))
    ordered, table = in_document_order(rows.held_out, candidates, tables)
    return replace(rows, candidates=ordered, table=table, correct=ordered.correct(Y))
