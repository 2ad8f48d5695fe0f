r"""Decision rules for objectives other than set accuracy.

============== ================================== =============================================
objective      optimal prediction                 rule
============== ================================== =============================================
instance F1    general F-measure maximiser        `ExpectedF1`
Hamming loss   marginals above 1/2                `LabelMajority`
micro F1       marginals above one threshold      `SharedThreshold`
macro F1       a threshold per label              `LabelThresholds`
============== ================================== =============================================

`fit` tunes a rule on out-of-fold posteriors and the true sets; `decide` applies it. The optimal
thresholds of micro and macro F1 are half the F1 they attain, hence at most 1/2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.evaluation.metrics import count_agreement
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.f_measure import maximise_expected_f1
from setwise.models.storage.fields import StoredArray, StoredSetting
from setwise.models.storage.state import StoredPart

Objective = Literal["set-accuracy", "f1", "hamming", "micro-f1", "macro-f1"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("set-accuracy", "f1", "hamming", "micro-f1", "macro-f1")

# Smaller marginals are never predicted: the threshold is half the F1 attained, and an F1 of 0.002
# is useless. So sorting skips nearly all entries.
_LEAST_THRESHOLD = 1e-3

# A label's threshold is tuned on its outcomes plus this many expected positives of its marginals,
# because rare labels have too few outcomes.
_PRIOR_POSITIVES = 5.0

# Smaller missing mass cannot change a decision and is never a divisor.
_LEAST_MISSING = 1e-9

# Settings to try: the share of the missing mass that goes to independent labels, and whether these
# have residual marginals.
_COMPLETIONS = ((0.0, False), (0.5, False), (1.0, False), (1.0, True))


@dataclass(frozen=True, eq=False)
class Posterior:
    r"""Posterior distribution of the label sets of a batch of documents."""

    marginals: NDArray[np.float64]  # (n_documents, n_labels) :math:`p(y_l = 1 \mid x)` in [0, 1]
    candidates: CandidateSets  # sets considered for each document
    # (n_sets,) :math:`p(y \mid x)` of each candidate, in [0, 1]; a document's masses need not sum
    # to one.
    mass: NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = (self.candidates.n_documents, self.candidates.n_labels)
        if self.marginals.shape != shape:
            raise ValueError(
                f"candidates need marginals of shape {shape}, not {self.marginals.shape}"
            )
        if self.mass.shape != (len(self.candidates),):
            raise ValueError(f"{len(self.candidates)} candidates need as many masses")


class DecisionRule(Protocol):
    """Turns posteriors into one label set per document."""

    def fit(self, posterior: Posterior, Y: csr_array) -> Self:
        """Tune on out-of-fold posteriors and true sets ``Y`` (n, L)."""

    def decide(self, posterior: Posterior) -> csr_array:
        """Return one set per document as a 0/1 matrix (n, L), uint8.

        Its indices are sorted.
        """

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON settings."""


def make_rule(objective: Objective, *, allow_empty: bool) -> DecisionRule:
    """Return the untuned rule for an objective.

    Parameters
    ----------
    objective : {"f1", "hamming", "micro-f1", "macro-f1"}
    allow_empty : bool
        Whether a document can have no label. Only the F1 rule uses it; thresholds depend on the
        posterior alone.

    Raises
    ------
    ValueError
        If there is no rule for the objective.

    Examples
    --------
    >>> make_rule("hamming", allow_empty=True)
    LabelMajority()
    """
    match objective:
        case "f1":
            return ExpectedF1(allow_empty=allow_empty)
        case "hamming":
            return LabelMajority()
        case "micro-f1":
            return SharedThreshold()
        case "macro-f1":
            return LabelThresholds()
    raise ValueError(f"unknown objective {objective!r}; known are {', '.join(_RULES)}")


_OBJECTIVE = StoredSetting("objective", "objective", str)


@dataclass(frozen=True)
class LabelMajority(StoredPart):
    """Minimises Hamming loss: labels of marginal above 1/2 (thesis, eq. 2.34)."""

    objective: ClassVar[Objective] = "hamming"
    stored: ClassVar = (_OBJECTIVE,)

    def fit(self, posterior: Posterior, Y: csr_array) -> Self:  # noqa: ARG002  # the protocol's
        """Return ``self``: nothing to tune."""
        return self

    def decide(self, posterior: Posterior) -> csr_array:
        """Return the labels more likely present than absent."""
        return _above(posterior.marginals, 0.5)


@dataclass(frozen=True)
class ExpectedF1(StoredPart):
    """The set of highest expected F1 (thesis, Algorithm 2.1).

    Parameters
    ----------
    allow_empty : bool
        Whether the empty set has mass.
    remainder : float
        Share of the mass missing from the candidates, in [0, 1], that goes to independent labels.
    residual : bool
        Whether their marginals are chosen so that those of the whole distribution equal the
        posterior's, as far as [0, 1] allows; otherwise they are the posterior's marginals.

    Notes
    -----
    ``fit`` chooses both settings by mean F1.
    """

    allow_empty: bool
    remainder: float = 0.0
    residual: bool = False
    objective: ClassVar[Objective] = "f1"
    stored: ClassVar = (
        _OBJECTIVE,
        StoredSetting("allow_empty", "allow_empty", bool),
        StoredSetting("remainder", "remainder", float, low=0.0, high=1.0),
        StoredSetting("residual", "residual", bool),
    )

    def fit(self, posterior: Posterior, Y: csr_array) -> Self:
        """Choose the completion of the candidates with the best mean F1."""
        tried = [type(self)(self.allow_empty, *completion) for completion in _COMPLETIONS]
        earned = [instance_f1(Y, rule.decide(posterior)) for rule in tried]
        return tried[int(np.argmax(earned))]

    def decide(self, posterior: Posterior) -> csr_array:
        """Return the sets of highest expected F1.

        Raises
        ------
        ValueError
            If a document has no mass, neither in candidates nor in independent labels.
        """
        sets = posterior.candidates
        if self.remainder == 0.0:
            return maximise_expected_f1(
                candidates=sets, masses=posterior.mass, allow_empty=self.allow_empty
            ).sets
        listed = np.bincount(sets.document, posterior.mass, minlength=sets.n_documents)
        missing = np.maximum(1.0 - listed, 0.0)
        marginals = posterior.marginals
        if self.residual:
            left = marginals - _listed_marginals(posterior)
            marginals = np.clip(left / np.maximum(missing, _LEAST_MISSING)[:, None], 0.0, 1.0)
        return maximise_expected_f1(
            candidates=sets,
            masses=posterior.mass,
            product_weights=self.remainder * missing[:, None],
            product_marginals=marginals[:, None, :],
            allow_empty=self.allow_empty,
        ).sets


@dataclass(frozen=True)
class SharedThreshold(StoredPart):
    """One threshold on marginals, tuned for micro F1 (thesis, eq. 2.39)."""

    threshold: float = 0.5
    objective: ClassVar[Objective] = "micro-f1"
    stored: ClassVar = (
        _OBJECTIVE,
        StoredSetting("threshold", "threshold", float, low=0.0, high=1.0),
    )

    def fit(self, posterior: Posterior, Y: csr_array) -> Self:
        """Choose the threshold of best micro F1, the highest among equals."""
        marginals, truth = posterior.marginals, _truth(Y, posterior.marginals.shape)
        likely = marginals >= _LEAST_THRESHOLD
        threshold = _best_threshold(
            marginals[likely], truth[likely].astype(np.float64), float(truth.sum())
        )
        return type(self)(threshold)

    def decide(self, posterior: Posterior) -> csr_array:
        """Return the labels above the threshold."""
        return _above(posterior.marginals, self.threshold)


@dataclass(frozen=True, eq=False)
class LabelThresholds(StoredPart):
    """A threshold per label, tuned for macro F1 (thesis, eq. 2.37).

    A label's outcomes are mixed with the expectation of its marginals, which weighs five positives:
    a label without positives gets the optimal threshold of its marginals.
    """

    thresholds: NDArray[np.float64] | None = None
    objective: ClassVar[Objective] = "macro-f1"
    stored: ClassVar = (
        _OBJECTIVE,
        StoredArray("thresholds", "thresholds", np.float64, ("labels",), optional=True),
    )

    def fit(self, posterior: Posterior, Y: csr_array) -> Self:
        """Choose each label's threshold of best F1, the highest among equals."""
        truth = _truth(Y, posterior.marginals.shape)
        positives = truth.sum(axis=0)
        trust = positives / (positives + _PRIOR_POSITIVES)
        thresholds = np.empty(len(positives))
        for label, label_trust in enumerate(trust):
            p = posterior.marginals[:, label]
            outcome = label_trust * truth[:, label] + (1.0 - label_trust) * p
            likely = p >= _LEAST_THRESHOLD
            thresholds[label] = _best_threshold(p[likely], outcome[likely], float(outcome.sum()))
        return type(self)(thresholds)

    def decide(self, posterior: Posterior) -> csr_array:
        """Return the labels above their thresholds (1/2 each before ``fit``)."""
        if self.thresholds is None:
            return _above(posterior.marginals, 0.5)
        return _above(posterior.marginals, self.thresholds)


_RULES: Mapping[str, type[StoredPart]] = {
    rule.objective: rule for rule in (ExpectedF1, LabelMajority, SharedThreshold, LabelThresholds)
}


def instance_f1(Y: csr_array, predicted: csr_array) -> float:
    """Return the mean F1 of predicted label sets, both (n_documents, n_labels)."""
    return float(count_agreement(Y, predicted, axis=1).f1().mean())


def stored_rule(arrays: object, settings: Mapping[str, object]) -> type[StoredPart]:  # noqa: ARG001  # settings tell
    """Return the class of a stored rule.

    Raises
    ------
    ValueError
        If the objective is unknown.
    """
    objective = settings.get("objective")
    if not isinstance(objective, str) or objective not in _RULES:
        raise ValueError(f"unknown objective {objective!r}; known are {', '.join(_RULES)}")
    return _RULES[objective]


def _listed_marginals(posterior: Posterior) -> NDArray[np.float64]:
    """Return the mass (n_documents, n_labels) of candidates with each label."""
    sets = posterior.candidates
    shape = (sets.n_documents, len(sets))
    mass = csr_array((posterior.mass, np.arange(len(sets)), sets.doc_indptr), shape=shape)
    return np.asarray((mass @ sets.to_matrix()).toarray(), dtype=np.float64)


def _above(marginals: NDArray[np.float64], threshold: float | NDArray[np.float64]) -> csr_array:
    sets = csr_array((marginals > threshold).astype(np.uint8))
    sets.sort_indices()
    return sets


def _truth(Y: csr_array, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if Y.shape != shape:
        raise ValueError(f"Y has shape {Y.shape}; the posterior needs {shape}")
    return np.asarray(Y.toarray(), dtype=np.uint8)


def _best_threshold(
    p: NDArray[np.float64], outcome: NDArray[np.float64], positives: float
) -> float:
    """Return the threshold of best F1, half-way between two marginals.

    ``outcome`` is each entry's (expected) truth, ``positives`` the sum over all entries, including
    those left out because of small marginals. Without positives the threshold is 1/2.
    """
    if positives <= 0.0 or len(p) == 0:
        return 0.5
    order = np.argsort(-p, kind="stable")
    falling = p[order]
    hits = np.cumsum(outcome[order], dtype=np.float64)
    f1 = 2.0 * hits / (np.arange(1, len(p) + 1) + positives)
    below = np.append(falling[1:], np.nextafter(_LEAST_THRESHOLD, 0.0))
    f1[falling == below] = -1.0  # equal marginals stay together
    best = int(np.argmax(f1))
    if f1[best] <= 0.0:
        return 0.5
    threshold = 0.5 * (falling[best] + below[best])
    return float(threshold if threshold < falling[best] else below[best])
