"""Estimate annotators' noise rates from stored answers, group by group."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from setwise.service.domain.annotators import AnnotatorGroup, Rates
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.truth import Check
from setwise.service.stores.transaction import Transaction
from setwise.shown import Probability, Shown

Floats = NDArray[np.float64]

MOST_UNDECIDED = 0.1
"""Share of contradictions without a lead's decision from which a group's alpha is doubtful."""


@dataclass(frozen=True)
class GroupReport:
    """A group and its estimated noise."""

    group: AnnotatorGroup
    estimate: GroupNoise | None
    """Of blind answers, from gold labels; None without any."""
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
        return fixed is not None and sum(fixed) < MOST_NOISE

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
        noise = self.estimate
        if noise is None or suggestion_shown:
            raise ValueError(f"group {self.group.id!r} has no noise rates")
        if any(finding.fault is NoiseFault.UNDECIDED for finding in self.findings):
            # The cautious ends of the intervals, which hold whatever leads decide.
            return np.full(shape, noise.alpha.low), np.full(shape, noise.beta.high)
        return noise.training_rates(confidence)

    @property
    def blind(self) -> "BlindNoise | None":
        """The estimate of blind answers, as it is shown."""
        noise = self.estimate
        if noise is None:
            return None
        halves = noise.alpha_halves
        return BlindNoise(
            alpha=NoiseRate.of(noise.alpha),
            beta=NoiseRate.of(noise.beta),
            pooled=noise.pooled,
            waiting=self.waiting,
            split=noise.split,
            alpha_halves=None if halves is None else tuple(map(NoiseRate.of, halves)),
        )

    @property
    def problems(self) -> list["NoiseProblem"]:
        """The findings, as they are shown."""
        return [
            NoiseProblem(of.fault.value, of.source, of.message, of.blocking, of.needed)
            for of in self.findings
        ]


@dataclass(frozen=True)
class NoiseRate(Shown):
    """How often answers are wrong, estimated from gold labels."""

    value: Probability
    low: Probability
    """The interval holds the rate with probability `level`."""
    high: Probability
    level: Probability
    checked: int
    """Number of gold labels that it is based on."""

    @classmethod
    def of(cls, share: Proportion) -> Self:
        """Return the rate that a share of gold labels shows."""
        return cls(share.estimate, share.low, share.high, share.level, share.n)


@dataclass(frozen=True)
class BlindNoise(Shown):
    """Noise rates of a group, from blind answers that leads checked."""

    alpha: NoiseRate
    """Of contradictions, where the prediction is right."""
    beta: NoiseRate
    """Of agreements, where it is wrong."""
    pooled: tuple[str, ...]
    """Groups too small alone, whose labels went together."""
    waiting: int
    """Contradictions that wait for a lead: the intervals allow for any decision."""
    split: Probability | None
    """The confidence that separates low from high, where alpha differs between them."""
    alpha_halves: tuple[NoiseRate, ...] | None
    """Alpha below the split, and above."""


@dataclass(frozen=True)
class NoiseProblem(Shown):
    """A problem with learning from answers."""

    kind: str
    """A stable name, such as `too-few-gold-wrong`."""
    about: str
    """The group or annotator."""
    detail: str
    """What is wrong, and what would be right."""
    blocking: bool
    """While this is true, recalibration ignores these answers."""
    needed: int | None
    """Further gold labels that would fix it."""


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


@dataclass(frozen=True)
class Rereads(Shown):
    """An annotator's agreements with the model that leads read again, drawn by chance."""

    read_again: int = 0
    contradicted: int = 0
    """Of these, by the lead."""
    rate: NoiseRate | None = None
    """Share of them, with its exact interval; null if none was read again."""

    @classmethod
    def of(cls, read_again: int, contradicted: int) -> Self:
        """Return the counts with their rate, which is that of all agreements."""
        share = weighted_proportion(np.arange(read_again) < contradicted)
        return cls(read_again, contradicted, NoiseRate.of(share))


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
    audits = transaction.evidence.contradicted_or_read_again()
    contradictions = contradicted(audits)
    waiting = {group: n - decided for group, (n, decided) in contradictions.items()}
    gold = gold_of_audits(audits)
    estimate = _estimated(gold, waiting)
    groups = {
        group.id: replace(
            _report(
                group,
                estimate.groups.get(group.id),
                _undecided(group, *contradictions.get(group.id, (0, 0))),
            ),
            waiting=waiting.get(group.id, 0),
        )
        for group in transaction.annotators.groups()
    }
    annotators = {(noise.name, noise.group): noise for noise in estimate.annotators}
    return NoiseReport(groups, annotators, _reread(gold))


Known = tuple[CheckedDocument, Check]
"""A document with what is known about it."""


def _known(documents: Sequence[CheckedDocument]) -> list[Known]:
    return [(each, each.check) for each in documents if each.check is not None]


def gold_of_audits(audits: Sequence[CheckedDocument]) -> list[Known]:
    """Return the audits that show whether the auditor erred, because a lead has read them.

    Leads read every contradiction, but agreements only by chance: with a rate of 0, none.
    """
    return [
        (document, check)
        for document, check in _known(audits)
        if check.lead_agreed is not None and (not check.audit_agreed or check.reread_rate)
    ]


def contradicted(audits: Sequence[CheckedDocument]) -> dict[str, tuple[int, int]]:
    """Return each group's audits that contradict the model, and those that leads decided."""
    against = [check for _, check in _known(audits) if check.audit_agreed is False]
    every = Counter(check.first_group or "" for check in against)
    decided = Counter(check.first_group or "" for check in against if check.lead_agreed is not None)
    return {group: (n, decided[group]) for group, n in every.items()}


def _weight(check: Check) -> float:
    """Return the inverse probability that the truth is known."""
    return 1.0 / check.reread_rate if check.audit_agreed and check.reread_rate else 1.0


def _estimated(gold: Sequence[Known], waiting: Mapping[str, int]) -> NoiseEstimate:
    if not gold:
        return NoiseEstimate({}, ())
    checks = [check for _, check in gold]
    return estimate_noise(
        [check.first_reviewer or "" for check in checks],
        [check.first_group or "" for check in checks],
        [bool(check.first_agreed) for check in checks],
        [bool(check.lead_agreed) for check in checks],
        confidence=[document.confidence for document, _ in gold],
        weight=[_weight(check) for check in checks],
        read_again=[check.reread_rate or 1.0 for check in checks],
        waiting=waiting,
    )


def _reread(gold: Sequence[Known]) -> dict[str, Rereads]:
    agreed = [check for _, check in gold if check.first_agreed]
    read_again = Counter(check.first_reviewer or "" for check in agreed)
    contradicted = Counter(check.first_reviewer or "" for check in agreed if not check.lead_agreed)
    return {who: Rereads.of(n, contradicted[who]) for who, n in read_again.items()}


def _report(
    group: AnnotatorGroup,
    estimate: GroupNoise | None,
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
        None,  # no gold label is about them
        "answers given with the suggestion in view",
        blocking=False,  # blind answers stay usable
    )
    return GroupReport(group, estimate, findings)


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
