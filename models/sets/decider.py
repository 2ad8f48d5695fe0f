"""Chooses the announced set for objectives other than set accuracy."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.sets.candidates import (
    SOURCE_RULE,
    CandidateSets,
    RaggedSets,
    concatenate,
    gather,
    merge,
    one_each,
)
from setwise.models.sets.decisions import DecisionRule, Posterior, stored_rule
from setwise.models.sets.evidence import CandidateSource, DocumentEvidence
from setwise.models.sets.reranker import SetReranker, rank_rows
from setwise.models.storage.fields import StoredPiece, StoredSetting
from setwise.models.storage.state import StoredPart
from setwise.models.voters.votes import SetVotes, find_strongest

# Mass of each candidate of a document whose candidates have none.
_LEAST_MASS = 1e-9

# A voter's sets in a document's posterior; the weights of further sets are negligible.
_VOTED_SETS = 64


class Decider(StoredPart, ABC):
    """Chooses the set to announce and its confidence."""

    @abstractmethod
    def choose(
        self,
        evidence: DocumentEvidence,
        source: CandidateSource,
        candidates: CandidateSets,
        confidence: NDArray[np.float64],
    ) -> csr_array:
        """Return one set per document, 0/1 of shape (n_documents, n_labels), uint8."""

    def announce(
        self,
        evidence: DocumentEvidence,
        source: CandidateSource,
        reranker: SetReranker,
        ranked: CandidateSets,
        confidence: NDArray[np.float64],
    ) -> tuple[CandidateSets, NDArray[np.float64]]:
        """Put the chosen set first, with its confidence.

        If the chosen set is not a candidate, it is added and all candidates are judged again.

        Parameters
        ----------
        evidence : DocumentEvidence
        source : CandidateSource
            Where the candidates come from.
        reranker : SetReranker
            The reranker of the candidates.
        ranked : CandidateSets
        confidence : float64 ndarray of shape (n_sets,)

        Returns
        -------
        CandidateSets, float64 ndarray
            As returned by the reranker.
        """
        announced = self.choose(evidence, source, ranked, confidence)
        united = admit(announced, evidence, source, ranked)
        if len(united) > len(ranked):
            confidence = reranker.judge(evidence, united)
        order = announced_order(united, confidence, by_confidence=reranker.by_confidence)
        return united.reorder(order), confidence[order]


@dataclass(frozen=True, eq=False)
class SetDecider(Decider):
    """A tuned decision rule with the posterior it is applied to.

    A candidate's mass is its confidence; confidences that sum to more than one are divided by their
    sum. Part of the mass may come from a voter's weights of label sets of training documents.
    """

    rule: DecisionRule  # tuned
    voter: str | None = None
    share: float = 0.0  # share of the posterior's mass that comes from the voter, in [0, 1]
    stored: ClassVar = (
        StoredPiece("rule", stored_rule, name="rule", shares={"labels": "labels"}),
        StoredSetting("voter", "voter", str, nullable=True),
        StoredSetting("share", "share", float, low=0.0, high=1.0),
    )

    def choose(
        self,
        evidence: DocumentEvidence,
        source: CandidateSource,  # noqa: ARG002  # the candidates suffice
        candidates: CandidateSets,
        confidence: NDArray[np.float64],
    ) -> csr_array:
        """Return the sets chosen by the rule."""
        return self.rule.decide(self.posterior(evidence, candidates, confidence))

    def posterior(
        self, evidence: DocumentEvidence, candidates: CandidateSets, confidence: NDArray[np.float64]
    ) -> Posterior:
        """Return the posterior of the documents' label sets."""
        base = Posterior(evidence.marginals, candidates, normalise(candidates, confidence))
        if self.voter is None or self.share == 0.0:
            return base
        if evidence.votes is None:
            raise ValueError(f"a posterior of the voter {self.voter!r} needs votes")
        return blend(base, *voted_sets(evidence.votes, self.voter), self.share)


def admit(
    announced: csr_array,
    evidence: DocumentEvidence,
    source: CandidateSource,
    candidates: CandidateSets,
) -> CandidateSets:
    """Append each document's chosen set to its candidates, if it is new.

    In both cases the set is marked with `SOURCE_RULE`.
    """
    alone = one_each(announced, np.zeros(announced.shape[0]), SOURCE_RULE)
    scored = one_each(announced, source.score(evidence, alone), SOURCE_RULE)
    return merge(candidates, scored)


def announced_order(
    candidates: CandidateSets, confidence: NDArray[np.float64], *, by_confidence: bool
) -> NDArray[np.int64]:
    """Return the order of sets with each document's announced set first.

    The others follow by confidence and score, or in their present order.
    """
    announced = (candidates.source & SOURCE_RULE) > 0
    if not by_confidence:
        level = np.zeros(len(candidates))
        return rank_rows(candidates.doc_indptr, announced.astype(np.float64), level)
    first = np.where(announced, np.inf, confidence)
    return rank_rows(candidates.doc_indptr, first, candidates.log_score)


def normalise(candidates: CandidateSets, confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return confidences, divided by their document's sum if above one.

    Where a calibrator has no confidence in any candidate, all of them get `_LEAST_MASS`, since a
    rule needs a distribution.
    """
    document = candidates.document
    total = np.bincount(document, confidence, minlength=candidates.n_documents)
    shares = confidence / np.maximum(total, 1.0)[document]
    return np.where(total[document] > 0.0, shares, _LEAST_MASS)


def voted_sets(votes: SetVotes, voter: str) -> tuple[CandidateSets, NDArray[np.float64]]:
    """Return a voter's sets with positive weight, and their masses.

    Returns
    -------
    CandidateSets
        The sets of largest positive weight; a document may have none.
    float64 ndarray of shape (n_sets,)
        Sums to one in each document with sets.
    """
    training_sets = votes.sets
    doc_indptr, strongest, mass = find_strongest(votes.of(voter), _VOTED_SETS)
    set_indptr, labels = gather(RaggedSets(training_sets.indptr, training_sets.labels), strongest)
    flags = np.zeros(len(mass), dtype=np.uint8)
    sets = CandidateSets(
        doc_indptr, set_indptr, labels, np.log(mass), flags, training_sets.n_labels
    )
    return sets, mass


def blend(
    posterior: Posterior, sets: CandidateSets, mass: NDArray[np.float64], share: float
) -> Posterior:
    """Give a share of the posterior's mass to other sets, if any.

    A set may occur twice in the blend; its mass is then the sum.
    """
    base = posterior.candidates
    voted_share = np.where(np.diff(sets.doc_indptr) > 0, share, 0.0)
    stacked = concatenate([base, sets])
    masses = np.concatenate(
        [(1.0 - voted_share)[base.document] * posterior.mass, voted_share[sets.document] * mass]
    )
    order = np.argsort(np.concatenate([base.document, sets.document]), kind="stable")
    both = stacked.take(order, base.doc_indptr + sets.doc_indptr)
    return Posterior(posterior.marginals, both, masses[order])
