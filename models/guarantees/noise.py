"""Estimates the noise rates of reviewers from gold labels.

A gold label is adjudicated: it decides whether the prediction was right. Only blind answers count,
because reviewers who see the prediction agree with it too often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.proportions import (
    Proportion,
    WeightSums,
    selected_bounds,
    shrink_proportions,
    weighted_proportion,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_GOLD_RIGHT = 50
"""Gold labels on right predictions required for a group's alpha."""

MIN_GOLD_WRONG = 20
"""Gold labels on wrong predictions required for a group's beta."""

MOST_NOISE = 0.7
"""Sum of the upper bounds of alpha and beta from which answers are too noisy to learn from."""

SURPRISE = 0.01
"""p-value below which chance is rejected."""

POSSIBLE_LEVEL = 0.99
"""Level of the intervals outside which rates set by hand are refused; each group has four."""

_NONE: Mapping[str, int] = MappingProxyType({})

# Too large an alpha makes confidences too high, too small an alpha too low, which is safer:
# training uses this quantile of its posterior.
_CAUTIOUS_QUANTILE = 0.25


@dataclass(frozen=True)
class NoiseRates:
    """Error rates of a reviewer or a group (thesis, section 4.10.1).

    Attributes
    ----------
    alpha : float
        P(the reviewer's set differs from the prediction | the prediction is right), in [0, 1].
    beta : float
        P(the reviewer's set equals the prediction | the prediction is wrong), in [0, 1].

    Raises
    ------
    ValueError
        If a rate is not a probability.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019.

    Examples
    --------
    >>> NoiseRates(0.2, 0.05).separation
    0.75
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, rate in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{name} is {rate}; a noise rate lies between 0 and 1")

    @property
    def separation(self) -> float:
        """Information of an answer about the prediction: ``1 - alpha - beta``.

        1 without noise; at 0 or below the answers are useless.
        """
        return 1.0 - self.alpha - self.beta

    def agreement(self, accuracy: float) -> float:
        """Return how often the reviewer agrees with predictions of this accuracy."""
        return self.beta + self.separation * accuracy


class NoiseFault(StrEnum):
    """Reasons why noise rates cannot be used."""

    TOO_FEW_GOLD_RIGHT = "too-few-gold-right"
    TOO_FEW_GOLD_WRONG = "too-few-gold-wrong"
    TOO_NOISY = "too-noisy"  # alpha + beta may reach MOST_NOISE
    NOT_SEPARATED = "not-separated"  # alpha + beta >= 1: answers say nothing, or the opposite
    ALPHA_VARIES = "alpha-varies"  # with confidence; not blocking: each half has its alpha
    OUTSIDE_ESTIMATE = "outside-estimate"  # rates set by hand that gold labels contradict
    UNDECIDED = "undecided"  # many contradictions wait for a lead, so that alpha is understated


@dataclass(frozen=True)
class NoiseFinding:
    """A finding to check before noise rates are used.

    Attributes
    ----------
    fault : NoiseFault
    source : str
        Group or annotator.
    message : str
        One sentence with the fault and how to correct it.
    blocking : bool
        Whether this source's answers may not be used for learning.
    needed : int or None
        Further gold labels that would resolve it, if they would.
    """

    fault: NoiseFault
    source: str
    message: str
    blocking: bool = True
    needed: int | None = None


@dataclass(frozen=True)
class GroupNoise:
    """Noise rates of a group of annotators.

    Attributes
    ----------
    name : str
    pooled : tuple of str
        Groups whose gold labels were pooled, including this one.
    alpha, beta : Proportion
        See `NoiseRates`.
    split : float or None
        If alpha varies with confidence: the confidence between the two halves.
    alpha_halves : (Proportion, Proportion) or None
        Alpha below the split, and from it up.
    findings : tuple of NoiseFinding
    """

    name: str
    pooled: tuple[str, ...]
    alpha: Proportion
    beta: Proportion
    split: float | None
    alpha_halves: tuple[Proportion, Proportion] | None
    findings: tuple[NoiseFinding, ...]

    @property
    def usable(self) -> bool:
        """Whether calibrators may learn from this group's answers with these rates."""
        return not any(finding.blocking for finding in self.findings)

    @property
    def rates(self) -> NoiseRates:
        """The point estimates."""
        return NoiseRates(self.alpha.estimate, self.beta.estimate)

    def training_rates(self, confidence: ArrayLike) -> tuple[Floats, Floats]:
        """Return alpha and beta for rows with these confidences.

        Alpha is taken at the lower quartile of its posterior, because overstating it makes
        confidences too high.
        """
        c = np.asarray(confidence, dtype=np.float64)
        alpha = np.full(c.shape, self.alpha.quantile(_CAUTIOUS_QUANTILE))
        if self.split is not None and self.alpha_halves is not None:
            low, high = (half.quantile(_CAUTIOUS_QUANTILE) for half in self.alpha_halves)
            alpha = np.where(c < self.split, low, high)
        return alpha, np.full(c.shape, self.beta.estimate)


@dataclass(frozen=True)
class AnnotatorNoise:
    """Noise rates of one annotator, shrunk towards those of the group.

    For display only: annotators have few gold labels, so calibrators use the group's rates.
    """

    name: str
    group: str
    alpha: Proportion
    beta: Proportion


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise estimates of all groups and annotators.

    Attributes
    ----------
    groups : mapping from str to GroupNoise
    annotators : tuple of AnnotatorNoise
        By group and name; annotators of two groups are listed twice.
    """

    groups: Mapping[str, GroupNoise]
    annotators: tuple[AnnotatorNoise, ...]

    @property
    def findings(self) -> tuple[NoiseFinding, ...]:
        """The findings of all groups."""
        return tuple(finding for group in self.groups.values() for finding in group.findings)

    def to_json(self) -> dict[str, Any]:
        """Return numbers, strings, lists and mappings for JSON."""
        groups = {
            name: {**asdict(group), "usable": group.usable} for name, group in self.groups.items()
        }
        return {"groups": groups, "annotators": [asdict(one) for one in self.annotators]}


def estimate_noise(
    annotator: ArrayLike,
    group: ArrayLike,
    agreed: ArrayLike,
    right: ArrayLike,
    *,
    confidence: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    read_again: ArrayLike | None = None,
    waiting: Mapping[str, int] = _NONE,
    level: float = 0.9,
) -> NoiseEstimate:
    """Estimate noise rates of annotators and groups from gold labels.

    Groups with too few gold labels are pooled; if there are still too few, a finding blocks their
    use and gives the number needed.

    Parameters
    ----------
    annotator, group : array-like of str, shape (n,)
        Who answered, and the annotator's group at the time.
    agreed : array-like of shape (n,)
        1 where the blind answer equals the predicted set, else 0.
    right : array-like of shape (n,)
        1 where the gold set equals the predicted set, else 0.
    confidence : array-like of shape (n,), optional
        Confidence of the prediction; if given, alpha is compared between its lower and upper half.
    weight : array-like of shape (n,), optional
        Inverse of the probability that the row has a gold label. If all disagreements and a tenth
        of the agreements are adjudicated, the weights are 1 and 10.
    read_again : array-like of float, shape (n,), optional
        That share of the agreements which held for the row, whatever the answer, if it differs. The
        least one is the weight that an overlooked error may have.
    waiting : mapping from str to int, optional
        Contradictions of each group that wait for a lead. The intervals of the groups hold whatever
        the leads decide.
    level : float, default=0.9
        Confidence level of all intervals but `Proportion.possible`.

    Returns
    -------
    NoiseEstimate

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.

    Examples
    --------
    >>> agreed, right = [1] * 80 + [0] * 20 + [1] + [0] * 29, [1] * 100 + [0] * 30
    >>> found = estimate_noise(["ann"] * 130, ["coders"] * 130, agreed, right)
    >>> found.groups["coders"].usable, found.groups["coders"].rates
    (True, NoiseRates(alpha=0.2, beta=0.03333333333333333))
    """
    rows = _GoldRows.checked(
        annotator,
        group,
        agreed,
        right,
        confidence=confidence,
        weight=weight,
        read_again=read_again,
        level=level,
    )
    if any(n < 0 for n in waiting.values()):
        raise ValueError("no fewer than 0 contradictions can wait")
    names = np.unique(rows.group).tolist()
    short = [name for name in names if rows.of_groups([name]).short]
    groups = {}
    for name in names:
        pooled = tuple(short) if name in short else (name,)
        undecided = sum(waiting.get(one, 0) for one in pooled)
        groups[name] = _group_noise(name, pooled, rows.of_groups(pooled), undecided)
    return NoiseEstimate(groups, _annotators(rows, groups))


@dataclass(frozen=True, eq=False)
class _GoldRows:
    annotator: NDArray[np.str_]
    group: NDArray[np.str_]
    agreed: Bools
    right: Bools
    confidence: Floats | None
    weight: Floats
    read_again: Floats
    level: float

    @classmethod
    def checked(
        cls,
        annotator: ArrayLike,
        group: ArrayLike,
        agreed: ArrayLike,
        right: ArrayLike,
        *,
        confidence: ArrayLike | None,
        weight: ArrayLike | None,
        read_again: ArrayLike | None,
        level: float,
    ) -> "_GoldRows":
        who, where = np.asarray(annotator, dtype=np.str_), np.asarray(group, dtype=np.str_)
        answers, truth = np.asarray(agreed), np.asarray(right)
        w = np.ones(len(who)) if weight is None else np.asarray(weight, dtype=np.float64)
        c = None if confidence is None else np.asarray(confidence, dtype=np.float64)
        share = np.ones(len(who)) if read_again is None else np.asarray(read_again, np.float64)
        columns = [who, where, answers, truth, w, share, *([] if c is None else [c])]
        if who.ndim != 1 or len({column.shape for column in columns}) != 1:
            raise ValueError("every column of the gold labels needs one value a row")
        for name, values in (("agreed", answers), ("right", truth)):
            if not np.all((values == 0) | (values == 1)):
                raise ValueError(f"{name} is 0 or 1")
        if not np.all((w > 0) & np.isfinite(w)):
            raise ValueError("a weight must be positive and finite")
        if not np.all((share > 0) & (share <= 1)):
            raise ValueError("the share of agreements that are read again lies in (0, 1]")
        return cls(who, where, answers.astype(bool), truth.astype(bool), c, w, share, level)

    def where(self, rows: Bools) -> "_GoldRows":
        confidence = None if self.confidence is None else self.confidence[rows]
        return _GoldRows(
            self.annotator[rows],
            self.group[rows],
            self.agreed[rows],
            self.right[rows],
            confidence,
            self.weight[rows],
            self.read_again[rows],
            self.level,
        )

    def of_groups(self, names: Sequence[str]) -> "_GoldRows":
        return self.where(np.isin(self.group, list(names)))

    @property
    def short(self) -> bool:
        return self.n_right < MIN_GOLD_RIGHT or self.n_wrong < MIN_GOLD_WRONG

    @property
    def n_right(self) -> int:
        return int(self.right.sum())

    @property
    def n_wrong(self) -> int:
        return len(self.right) - self.n_right

    def alpha(self, waiting: int = 0) -> Proportion:
        return self._share(self.right, hits_agree=False, more_hits=waiting)

    def beta(self, waiting: int = 0) -> Proportion:
        return self._share(~self.right, hits_agree=True, more_others=waiting)

    def _share(
        self, among: Bools, *, hits_agree: bool, more_hits: int = 0, more_others: int = 0
    ) -> Proportion:
        """Return the share of hits; its intervals allow for unknown rows."""
        hit = self.agreed == hits_agree
        found = weighted_proportion(hit[among], self.weight[among], level=self.level)
        if found.n == 0:
            return found
        hits = WeightSums.of(self.weight[hit & among], self._largest(agreed=hits_agree))
        others = WeightSums.of(self.weight[~hit & among], self._largest(agreed=not hits_agree))

        def interval(level: float) -> tuple[float, float]:
            risk = (1.0 - level) / 2.0
            low, _ = selected_bounds(hits, others.plus(more_others), risk)
            _, high = selected_bounds(hits.plus(more_hits), others, risk)
            return low, high

        low, high = interval(self.level)
        return replace(found, low=low, high=high, possible=interval(POSSIBLE_LEVEL))

    def _largest(self, *, agreed: bool) -> float:
        """Return the largest weight of agreements, or of contradictions."""
        least = self.read_again.min() if agreed else 1.0
        return float(max(self.weight[self.agreed == agreed].max(initial=0.0), 1.0 / least))


def _group_noise(name: str, pooled: tuple[str, ...], rows: _GoldRows, waiting: int) -> GroupNoise:
    alpha, beta = rows.alpha(waiting), rows.beta(waiting)
    findings = [*_shortage(name, pooled, rows), *_strength(name, alpha, beta)]
    split, halves = _alpha_by_half(rows)
    if halves is not None:
        findings.append(
            NoiseFinding(
                NoiseFault.ALPHA_VARIES,
                name,
                f"the noise rate alpha is {halves[0].estimate:.2f} on predictions of low and "
                f"{halves[1].estimate:.2f} on those of high confidence, so each half has its own",
                blocking=False,
            )
        )
    return GroupNoise(name, pooled, alpha, beta, split, halves, tuple(findings))


def _shortage(name: str, pooled: tuple[str, ...], rows: _GoldRows) -> list[NoiseFinding]:
    together = "" if len(pooled) == 1 else f" (together with {', '.join(pooled)})"
    return [
        NoiseFinding(
            fault,
            name,
            f"{name!r}{together} has {have} gold labels on {what} predictions; {least} are needed",
            needed=least - have,
        )
        for fault, what, have, least in (
            (NoiseFault.TOO_FEW_GOLD_RIGHT, "right", rows.n_right, MIN_GOLD_RIGHT),
            (NoiseFault.TOO_FEW_GOLD_WRONG, "wrong", rows.n_wrong, MIN_GOLD_WRONG),
        )
        if have < least
    ]


def _strength(name: str, alpha: Proportion, beta: Proportion) -> list[NoiseFinding]:
    if min(alpha.n, beta.n) == 0:
        return []
    total = alpha.estimate + beta.estimate
    if total >= 1.0:
        return [
            NoiseFinding(
                NoiseFault.NOT_SEPARATED,
                name,
                f"alpha {alpha.estimate:.2f} and beta {beta.estimate:.2f} of {name!r} add up to 1 "
                "or more: their answers say nothing about the predictions; leave them out",
            )
        ]
    if alpha.high + beta.high >= MOST_NOISE:
        return [
            NoiseFinding(
                NoiseFault.TOO_NOISY,
                name,
                f"alpha of {name!r} may be {alpha.high:.2f} and beta {beta.high:.2f}; together "
                f"they must stay below {MOST_NOISE}: collect more gold labels or leave them out",
            )
        ]
    return []


def _alpha_by_half(
    rows: _GoldRows,
) -> tuple[float, tuple[Proportion, Proportion]] | tuple[None, None]:
    """Return the median confidence and both halves' alphas, if they differ."""
    if rows.confidence is None or rows.n_right < MIN_GOLD_RIGHT:
        return None, None
    split = float(np.median(rows.confidence[rows.right]))
    low = rows.where(rows.confidence < split).alpha()
    high = rows.where(rows.confidence >= split).alpha()
    if min(low.n, high.n) == 0:
        return None, None
    z = (low.estimate - high.estimate) / np.hypot(low.standard_error, high.standard_error)
    return (split, (low, high)) if 2 * scipy.stats.norm.sf(abs(z)) < SURPRISE else (None, None)


def _annotators(rows: _GoldRows, groups: Mapping[str, GroupNoise]) -> tuple[AnnotatorNoise, ...]:
    found: list[AnnotatorNoise] = []
    for name in groups:
        of_group = rows.of_groups([name])
        names = np.unique(of_group.annotator).tolist()
        own = [of_group.where(of_group.annotator == one) for one in names]
        alphas = shrink_proportions([one.alpha() for one in own], level=rows.level)
        betas = shrink_proportions([one.beta() for one in own], level=rows.level)
        found += [
            AnnotatorNoise(annotator, name, alpha, beta)
            for annotator, alpha, beta in zip(names, alphas, betas, strict=True)
        ]
    return tuple(found)
