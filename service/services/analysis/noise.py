"""Estimate annotators' noise rates from stored answers, group by group."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.agreement import (
    OverlapEstimate,
    compare_with_overlap,
    estimate_from_pairs,
    estimate_from_strata,
)
from setwise.models.guarantees.noise import (
    MIN_GOLD_RIGHT,
    MIN_GOLD_WRONG,
    MOST_NOISE,
    AnnotatorNoise,
    GroupNoise,
    NoiseEstimate,
    NoiseFault,
    NoiseFinding,
    NoiseRates,
    estimate_noise,
)
from setwise.models.guarantees.proportions import Proportion, weighted_proportion
from setwise.service.domain.annotators import AnnotatorGroup, AnswerPair, GoldAnswer, Rates
from setwise.service.stores.transaction import Transaction

Floats = NDArray[np.float64]

FEWEST_PAIRS = 50
"""Fewest second readings for an estimate to compare with."""

MOST_UNDECIDED = 0.1
"""Share of contradictions without a lead's decision from which a group's alpha is doubtful."""

STRATA = 4
"""Number of strata, by confidence, with equally many second readings."""


@dataclass(frozen=True)
class GroupReport:
    """A group and its estimated noise."""

    group: AnnotatorGroup
    estimate: GroupNoise | None
    """Of blind answers, from gold labels; None without any."""
    with_suggestion: GroupNoise | None
    """Of answers given with the suggestion in view, from blind second readings; None without any.
    People tend to follow a suggestion they see, so these rates differ.
    """
    overlap: OverlapEstimate | None
    """From reviews that a second person repeated blindly; None with too few. The first reviewer saw
    candidates, so this only checks the gold labels and never replaces them.
    """
    findings: tuple[NoiseFinding, ...]
    """Warnings about learning from this group's answers."""
    waiting: int = 0
    """Contradictions that wait for a lead. The interval of alpha holds whatever leads decide."""

    @property
    def rates(self) -> NoiseRates | None:
        """The rates in force: the owner's, else the estimate from gold labels."""
        if self.group.fixed is not None:
            return NoiseRates(*self.group.fixed)
        return None if self.estimate is None else self.estimate.rates

    @property
    def usable(self) -> bool:
        """Return whether calibrators may learn from the group's blind answers."""
        return self.rates is not None and not any(finding.blocking for finding in self.findings)

    @property
    def usable_with_suggestion(self) -> bool:
        """Return whether they may learn from answers given with the suggestion in view."""
        fixed = self.group.fixed_with_suggestion
        if fixed is not None:
            return sum(fixed) < MOST_NOISE and not outside(fixed, self.with_suggestion)
        return self.with_suggestion is not None and self.with_suggestion.usable

    def training_rates(
        self, confidence: ArrayLike, *, suggestion_shown: bool = False
    ) -> tuple[Floats, Floats]:
        """Return alpha and beta for predictions with these confidences.

        Raises `ValueError` if no rates are in force.

        ``suggestion_shown``: Whether the answers were given with the suggestion in view.
        """
        shape = np.shape(confidence)
        fixed = self.group.fixed_with_suggestion if suggestion_shown else self.group.fixed
        if fixed is not None:
            return np.full(shape, fixed.alpha), np.full(shape, fixed.beta)
        noise = self.with_suggestion if suggestion_shown else self.estimate
        if noise is None:
            raise ValueError(f"group {self.group.id!r} has no noise rates")
        undecided = any(finding.fault is NoiseFault.UNDECIDED for finding in self.findings)
        if undecided and not suggestion_shown:
            # The cautious ends of the intervals, which hold whatever leads decide.
            return np.full(shape, noise.alpha.low), np.full(shape, noise.beta.high)
        return noise.training_rates(confidence)

    def shown(self) -> dict[str, object]:
        """Return the estimates and findings as JSON values."""
        gold, overlap = self.estimate, self.overlap
        return {
            "usable": self.usable,
            "estimate": None
            if gold is None
            else {
                "alpha": share_shown(gold.alpha),
                "beta": share_shown(gold.beta),
                "waiting": self.waiting,
                "pooled": [*gold.pooled],
                "split": gold.split,
                "alpha_halves": None
                if gold.alpha_halves is None
                else [share_shown(half) for half in gold.alpha_halves],
            },
            "with_suggestion": None
            if self.with_suggestion is None
            else {
                "usable": self.usable_with_suggestion,
                "pooled": [*self.with_suggestion.pooled],
                "alpha": share_shown(self.with_suggestion.alpha),
                "beta": share_shown(self.with_suggestion.beta),
            },
            "overlap": None
            if overlap is None
            else {
                "alpha": overlap.alpha,
                "alpha_error": overlap.alpha_error,
                "beta": overlap.beta,
                "documents": overlap.n,
                "misfit_p_value": overlap.misfit_p_value,
            },
            "findings": [finding_shown(finding) for finding in self.findings],
        }


def outside(rates: Rates, estimate: GroupNoise | None) -> str | None:
    """Return why rates set by hand cannot be right; None if gold labels do not contradict them.

    An estimate that was pooled with other groups contradicts nothing.
    """
    if estimate is None or len(estimate.pooled) > 1:
        return None
    for name, rate in rates._asdict().items():
        share: Proportion = getattr(estimate, name)
        least, most = share.possible
        if not least <= rate <= most:
            return (
                f"{name} was set to {rate:.3g}, but gold labels of {estimate.name!r} show "
                f"{share.estimate:.3f}, from {least:.3f} to {most:.3f} at most"
            )
    return None


def share_shown(share: Proportion) -> dict[str, object]:
    """Return an estimate with its interval as JSON values."""
    return {
        "value": share.estimate,
        "low": share.low,
        "high": share.high,
        "level": share.level,
        "checked": share.n,
    }


def finding_shown(finding: NoiseFinding) -> dict[str, object]:
    """Return a finding as JSON values."""
    return {
        "kind": finding.fault.value,
        "about": finding.source,
        "detail": finding.message,
        "blocking": finding.blocking,
        "needed": finding.needed,
    }


@dataclass(frozen=True)
class Rereads:
    """How many of an annotator's agreements with the model a lead read again, and contradicted.

    Chance decides which ones are read again, so the rate is that of all agreements.
    """

    read_again: int = 0
    contradicted: int = 0

    @property
    def rate(self) -> Proportion | None:
        """The share that was contradicted, with its exact interval; None if none was read again."""
        if not self.read_again:
            return None
        return weighted_proportion(np.arange(self.read_again) < self.contradicted)

    def shown(self) -> dict[str, object]:
        """Return the counts and the rate as JSON values."""
        rate = self.rate
        return {**vars(self), "rate": None if rate is None else share_shown(rate)}


@dataclass(frozen=True)
class NoiseReport:
    """The noise of all groups and annotators."""

    groups: Mapping[str, GroupReport]
    """Every group, by id."""
    annotators: Mapping[tuple[str, str], AnnotatorNoise]
    """Annotators with gold labels, by id and their group then, shrunk towards the group."""
    agreements: Mapping[str, Rereads]
    """What leads found in annotators' agreements, by id, in any group."""


def report_noise(transaction: Transaction) -> NoiseReport:
    """Return the noise rates of all groups, estimated from stored answers."""
    store = transaction.annotators
    contradictions, gold = store.contradictions(), store.gold()
    waiting = {group: n - decided for group, (n, decided) in contradictions.items()}
    estimate, with_suggestion = _estimated(gold, waiting), _estimated(store.shown_gold(), {})
    pairs = store.pairs()
    groups = {
        group.id: replace(
            _report(
                group,
                estimate.groups.get(group.id),
                with_suggestion.groups.get(group.id),
                _overlap([pair for pair in pairs if pair.group == group.id]),
                _undecided(group, *contradictions.get(group.id, (0, 0))),
            ),
            waiting=waiting.get(group.id, 0),
        )
        for group in store.groups()
    }
    annotators = {(noise.name, noise.group): noise for noise in estimate.annotators}
    return NoiseReport(groups, annotators, _reread(gold))


def _estimated(gold: Sequence[GoldAnswer], waiting: Mapping[str, int]) -> NoiseEstimate:
    if not gold:
        return NoiseEstimate({}, ())
    return estimate_noise(
        [answer.annotator for answer in gold],
        [answer.group for answer in gold],
        [answer.agreed for answer in gold],
        [answer.right for answer in gold],
        confidence=[answer.confidence for answer in gold],
        weight=[answer.weight for answer in gold],
        read_again=[answer.read_again for answer in gold],
        waiting=waiting,
    )


def _reread(gold: Sequence[GoldAnswer]) -> dict[str, Rereads]:
    agreed = [answer for answer in gold if answer.agreed]
    read_again = Counter(answer.annotator for answer in agreed)
    contradicted = Counter(answer.annotator for answer in agreed if not answer.right)
    return {who: Rereads(n, contradicted[who]) for who, n in read_again.items()}


def _report(
    group: AnnotatorGroup,
    estimate: GroupNoise | None,
    with_suggestion: GroupNoise | None,
    overlap: OverlapEstimate | None,
    warnings: tuple[NoiseFinding, ...],
) -> GroupReport:
    if group.fixed is not None:
        findings = _about_fixed(group, group.fixed, estimate, "blind answers", blocking=True)
    elif estimate is None:
        findings = _without_gold(group)
    else:
        findings = estimate.findings
    findings += warnings
    findings += _about_fixed(
        group,
        group.fixed_with_suggestion,
        with_suggestion,
        "answers given with the suggestion in view",
        blocking=False,  # blind answers stay usable
    )
    if estimate is not None and overlap is not None:
        # The first answer of a pair is not blind, so the comparison warns but never blocks.
        findings += tuple(
            replace(finding, blocking=False)
            for finding in compare_with_overlap(group.id, estimate.alpha, overlap)
        )
    return GroupReport(group, estimate, with_suggestion, overlap, findings)


def _undecided(group: AnnotatorGroup, n: int, decided: int) -> tuple[NoiseFinding, ...]:
    """Warn where the gold labels lack contradictions: alpha is a share of them."""
    waiting = n - decided
    if waiting <= MOST_UNDECIDED * n:
        return ()
    return (
        NoiseFinding(
            NoiseFault.UNDECIDED,
            group.id,
            f"{waiting} of {n} contradictions by {group.id!r} wait for a lead: alpha leaves them "
            "out, and its interval is wide, because it holds whatever leads decide; decide on them",
            blocking=False,
            needed=waiting,
        ),
    )


def _about_fixed(
    group: AnnotatorGroup,
    fixed: Rates | None,
    estimate: GroupNoise | None,
    what: str,
    *,
    blocking: bool,
) -> tuple[NoiseFinding, ...]:
    if fixed is None:
        return ()
    if (why := outside(fixed, estimate)) is not None:
        message = f"for {what}, {why}; let them be estimated"
        return (NoiseFinding(NoiseFault.OUTSIDE_ESTIMATE, group.id, message, blocking),)
    if sum(fixed) < MOST_NOISE:
        return ()
    return (
        NoiseFinding(
            NoiseFault.TOO_NOISY,
            group.id,
            f"alpha and beta of {what} by {group.id!r} were set to add up to {sum(fixed):.2f}; "
            f"together they must stay below {MOST_NOISE} for answers to be worth learning from",
            blocking=blocking,
        ),
    )


def _without_gold(group: AnnotatorGroup) -> tuple[NoiseFinding, ...]:
    return tuple(
        NoiseFinding(
            fault,
            group.id,
            f"{group.id!r} has no gold labels on {what} predictions; {least} are needed: let leads "
            "decide on its audits, or set its rates by hand",
            needed=least,
        )
        for fault, what, least in (
            (NoiseFault.TOO_FEW_GOLD_RIGHT, "right", MIN_GOLD_RIGHT),
            (NoiseFault.TOO_FEW_GOLD_WRONG, "wrong", MIN_GOLD_WRONG),
        )
    )


def _overlap(pairs: list[AnswerPair]) -> OverlapEstimate | None:
    if len(pairs) < FEWEST_PAIRS:
        return None
    agreements = np.array([pair.first_agreed + pair.second_agreed for pair in pairs])
    order = np.argsort([pair.confidence for pair in pairs], kind="stable")
    counts = [
        [int((part == both).sum()) for both in (2, 1, 0)]
        for part in np.array_split(agreements[order], STRATA)
    ]
    return estimate_from_strata(counts) or estimate_from_pairs(*np.sum(counts, axis=0).tolist())
