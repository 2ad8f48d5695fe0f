"""The plan of a simulation: work, people, policy and drift."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

from setwise.service.domain.recalibration import Noise
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.routing.segments import MOST_SEGMENTS

MOST_WEEKS = 1_000
MOST_DOCUMENTS = 100_000
MOST_ANNOTATORS = 50
LONGEST_REVIEW_MIN = 240.0
LEAST_RUN, LONGEST_RUN = 100.0, 1e9


AUDITS = AuditPlan(
    certification_rate=0.1, training_rate=0.02, gold_reread_rate=0.5, mode=AuditMode.HOLD
)
"""The default audit plan."""


class BadPlan(ValueError):
    """An option of a simulation is invalid; the message is one line."""


class Group(NamedTuple):
    """Reviewers with equal error rates."""

    noise: float
    """Probability, in [0, 1), of contradicting a correct prediction."""
    size: int
    """Number of people."""

    @classmethod
    def read(cls, written: str) -> Self:
        """Parse a group from ``NOISE`` or ``NOISExPEOPLE``.

        >>> Group.read(".1"), Group.read("0.3x2")
        (Group(noise=0.1, size=1), Group(noise=0.3, size=2))
        """
        noise, _, size = written.strip().partition("x")
        try:
            group = cls(float(noise), int(size) if size else 1)
        except ValueError:
            raise BadPlan(
                f"annotators: {written.strip()!r} is not a group; write error rates such as .1,.3 "
                "or .1x4 for four people"
            ) from None
        if not 0.0 <= group.noise < 1.0:
            raise BadPlan(f"annotators: the error rate {group.noise:g} must be from 0 to below 1")
        if group.size < 1:
            raise BadPlan(f"annotators: {written.strip()!r} has no people; write at least x1")
        return group


def read_groups(written: str) -> tuple[Group, ...]:
    """Parse groups separated by commas.

    >>> read_groups(".1,.3x2")
    (Group(noise=0.1, size=1), Group(noise=0.3, size=2))
    """
    groups = tuple(Group.read(part) for part in written.split(","))
    if not 2 <= sum(group.size for group in groups) <= MOST_ANNOTATORS:
        raise BadPlan(f"annotators: name 2 to {MOST_ANNOTATORS} people, such as .1,.3 or .1x4")
    return groups


@dataclass(frozen=True)
class Drift:
    """A change of the labels' meaning, such as a new coding rule.

    From a week on, the true set of some documents has one of its labels replaced by the next label
    of the vocabulary. The model does not change: it is as confident as before, and wrong.
    """

    week: int
    """First week of the change, from 1."""
    share: float
    """Probability, in (0, 1], that a document is affected."""
    label: str | None = None
    """The label to replace; None replaces a random label of each document."""
    over: int = 1
    """Weeks in which the share rises evenly from none to all of it."""

    def share_in(self, week: int) -> float:
        """Return the probability that a document of this week is affected.

        >>> drift = Drift(5, 0.3, over=3)
        >>> [round(drift.share_in(week), 2) for week in (4, 5, 6, 7, 8)]
        [0.0, 0.1, 0.2, 0.3, 0.3]
        """
        return self.share * min(max((week - self.week + 1) / self.over, 0.0), 1.0)


class Lapse(NamedTuple):
    """A week from which auditors overlook most errors."""

    week: int
    """From 1."""
    rate: float
    """Probability, in [0, 1], that a reviewer agrees with a wrong prediction from then on."""


class Sites(NamedTuple):
    """Sites that send documents in turn; the model is worse at the last one."""

    number: int
    wrong: float
    """Share, in (0, 1], of the last site's documents whose true set is another."""
    divided: bool = True
    """Whether each site has its own threshold, certificate and breaker."""

    def of(self, document: int) -> str:
        """Return the site of the document with this number, from 0.

        >>> [Sites(2, 0.3).of(number) for number in range(3)]
        ['site-1', 'site-2', 'site-1']
        """
        return f"site-{document % self.number + 1}"

    @property
    def bad(self) -> str:
        """The last one."""
        return f"site-{self.number}"


@dataclass(frozen=True)
class Plan:
    """Options of a simulation; raises `BadPlan` if one is invalid."""

    weeks: int = 30
    documents: int = 1_000
    """Documents per week."""
    target: float = 0.9
    risk: float = 0.1
    groups: tuple[Group, ...] = (Group(0.1, 1), Group(0.3, 1), Group(0.5, 1))
    """The reviewers."""
    miss_rate: float = 0.02
    """Probability, in [0, 1), that a reviewer agrees with a wrong prediction."""
    sure_miss_rate: float | None = None
    """The same at a confidence of 1, if it changes evenly with the confidence."""
    lapse: Lapse | None = None
    """When reviewers begin to overlook errors."""
    audits: AuditPlan = AUDITS
    minutes: float = 2.0
    """Working time per document, in minutes."""
    recertify_every: int = 4
    """Weeks between requests for a new certificate; 0 for never."""
    run_length: float = 5_000.0
    """Minimum average number of audits between false alarms of the breaker."""
    recalibrate_every: int = 0
    """Weeks between recalibrations without a valid certificate, because a new calibrator would
    need a new certificate; 0 for never.
    """
    new_calibrators: tuple[int, ...] = ()
    """Weeks at whose end a new calibrator is activated, whatever is certified."""
    noise: Noise = Noise.KNOWN
    """What recalibration assumes about the reviewers."""
    drift: Drift | None = None
    """A change of the labels' meaning."""
    sites: Sites | None = None
    """Where documents come from."""
    fixed_threshold: float | None = None
    """Sends all sets of at least this confidence, without audits, certificates or breaker."""
    seed: int = 0
    """Equal seeds give equal simulations."""

    def misses(self, confidence: float, week: int) -> float:
        """Return how often reviewers agree with a wrong set of this confidence.

        >>> plan = Plan(miss_rate=0.1, sure_miss_rate=0.5, lapse=Lapse(9, 0.99))
        >>> round(plan.misses(0.5, 1), 3), plan.misses(0.5, 9)
        (0.3, 0.99)
        """
        if self.lapse is not None and week >= self.lapse.week:
            return self.lapse.rate
        sure = self.miss_rate if self.sure_miss_rate is None else self.sure_miss_rate
        return self.miss_rate + (sure - self.miss_rate) * confidence

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise BadPlan(fault)

    def _faults(self) -> list[str]:
        faults = [
            *_outside("weeks", self.weeks, 1, MOST_WEEKS),
            *_outside("documents", self.documents, 1, MOST_DOCUMENTS),
            *_outside("recertify-every", self.recertify_every, 0, MOST_WEEKS),
            *_outside("recalibrate-every", self.recalibrate_every, 0, MOST_WEEKS),
            *_no_share("target", self.target, above=True),
            *_no_share("risk", self.risk, above=True),
            *_no_share("miss-rate", self.miss_rate),
            *_no_share("sure-miss-rate", self.sure_miss_rate or 0.0),
        ]
        if not 0.0 < self.minutes <= LONGEST_REVIEW_MIN:
            faults.append(
                f"minutes: {self.minutes:g} must be above 0 and at most {LONGEST_REVIEW_MIN:g}"
            )
        if not LEAST_RUN <= self.run_length <= LONGEST_RUN:
            faults.append(
                f"run-length: {self.run_length:g} must be from {LEAST_RUN:g} to {LONGEST_RUN:g}"
            )
        worst = max(group.noise for group in self.groups) + self.miss_rate
        if worst >= 1.0:
            faults.append(
                f"annotators: an error rate and the miss rate of {self.miss_rate:g} sum to "
                f"{worst:g}; they must sum to less than 1"
            )
        faults += [
            f"{fault.pointer.strip('/').replace('audit/', '').replace('_', '-')}: {fault.detail}"
            for fault in self.audits.faults()
        ]
        if self.fixed_threshold is not None and not 0.0 <= self.fixed_threshold <= 1.0:
            faults.append(f"threshold: {self.fixed_threshold:g} must be from 0 to 1")
        if self.sites is not None:
            faults += _outside("sites", self.sites.number, 2, MOST_SEGMENTS)
            if not 0.0 < self.sites.wrong <= 1.0:
                faults.append(f"bad-site: {self.sites.wrong:g} must be above 0 and at most 1")
        return [*faults, *self._drift_faults(), *self._lapse_faults()]

    def _drift_faults(self) -> list[str]:
        if self.drift is None:
            return []
        faults = _outside("drift-week", self.drift.week, 1, self.weeks)
        if not 0.0 < self.drift.share <= 1.0:
            faults.append(f"drift: {self.drift.share:g} must be above 0 and at most 1")
        return [*faults, *_outside("drift-over", self.drift.over, 1, MOST_WEEKS)]

    def _lapse_faults(self) -> list[str]:
        if self.lapse is None:
            return []
        faults = _outside("lapse-week", self.lapse.week, 1, self.weeks)
        if not 0.0 <= self.lapse.rate <= 1.0:
            faults.append(f"lapse-rate: {self.lapse.rate:g} must be from 0 to 1")
        return faults


def _outside(name: str, value: int, least: int, most: int) -> list[str]:
    return [] if least <= value <= most else [f"{name}: {value} must be from {least} to {most}"]


def _no_share(name: str, value: float, *, above: bool = False) -> list[str]:
    least = math.ulp(0.0) if above else 0.0
    if not least <= value < 1.0:  # also if it is NaN
        return [f"{name}: {value:g} must be {'above 0' if above else 'from 0'} and below 1"]
    return []
