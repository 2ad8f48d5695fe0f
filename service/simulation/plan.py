"""What is simulated: how much work, by whom, under which policy, and what changes when."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

from setwise.service.domain.audits import AuditMode, AuditPlan
from setwise.service.domain.recalibration import Noise

MOST_WEEKS = 1_000
MOST_DOCUMENTS = 100_000
MOST_ANNOTATORS = 50
LONGEST_REVIEW_MIN = 240.0
LEAST_RUN, LONGEST_RUN = 100.0, 1e9


AUDITS = AuditPlan(
    certification_rate=0.1, training_rate=0.02, gold_reread_rate=0.5, mode=AuditMode.HOLD
)
"""What is checked unless a plan says otherwise."""


class BadPlan(ValueError):
    """An option of a simulation cannot work; the message is one line."""


class Group(NamedTuple):
    """People who err equally often.

    Attributes
    ----------
    noise : float
        Probability, in [0, 1), that one of them contradicts a prediction that is right.
    size : int
        How many they are.
    """

    noise: float
    size: int

    @classmethod
    def read(cls, written: str) -> Self:
        """Return the group that ``NOISE`` or ``NOISExPEOPLE`` names.

        >>> Group.read(".1"), Group.read("0.3x2")
        (Group(noise=0.1, size=1), Group(noise=0.3, size=2))
        """
        noise, _, size = written.strip().partition("x")
        try:
            group = cls(float(noise), int(size) if size else 1)
        except ValueError:
            raise BadPlan(
                f"annotators: {written.strip()!r} is no group; write error rates such as .1,.3 or "
                ".1x4 for four people"
            ) from None
        if not 0.0 <= group.noise < 1.0:
            raise BadPlan(f"annotators: the error rate {group.noise:g} must be from 0 to below 1")
        if group.size < 1:
            raise BadPlan(f"annotators: {written.strip()!r} has nobody in it; write at least x1")
        return group


def read_groups(written: str) -> tuple[Group, ...]:
    """Return the groups in a list with commas.

    >>> read_groups(".1,.3x2")
    (Group(noise=0.1, size=1), Group(noise=0.3, size=2))
    """
    groups = tuple(Group.read(part) for part in written.split(","))
    if not 2 <= sum(group.size for group in groups) <= MOST_ANNOTATORS:
        raise BadPlan(f"annotators: name 2 to {MOST_ANNOTATORS} people, such as .1,.3 or .1x4")
    return groups


@dataclass(frozen=True)
class Drift:
    """A change of the world: what a label stood for goes under another one.

    From a week on, a share of the documents that carry the label, or of all documents, carry the
    label behind it in the vocabulary in its place, as when a coding rule changes. The model knows
    nothing of it: it is as sure as before, and wrong.

    Attributes
    ----------
    week : int
        First week of the change, from 1.
    share : float
        Probability, in (0, 1], that it affects a document.
    label : str or None
        The label; None for one of each document's labels, at random.
    """

    week: int
    share: float
    label: str | None = None


@dataclass(frozen=True)
class Plan:
    """One simulation.

    Attributes
    ----------
    weeks, documents : int
        How many weeks, and documents in each.
    target, risk : float
        Of the policy.
    groups : tuple of Group
        The annotators.
    miss_rate : float
        Probability, in [0, 1), that an annotator agrees with a prediction that is wrong.
    audits : AuditPlan
        What is checked, of the policy.
    minutes : float
        Minutes that a person spends on one document.
    recertify_every : int
        Weeks after which the owner asks for another certificate with what was learnt since; 0 for
        never.
    run_length : float
        Audits until the breaker trips for no reason, on average at least.
    recalibrate_every : int
        Weeks after which the owner has the model recalibrated while nothing is certified, as a new
        calibrator needs a certificate of its own; 0 for never. It serves if it is better.
    noise : Noise
        What recalibration is told of the annotators.
    drift : Drift or None
        What changes.
    fixed_threshold : float or None
        None runs the loop. A number sends whatever is as confident, for ever: no audits, no
        certificate, no breaker.
    seed : int
        Equal seeds give equal simulations.

    Raises
    ------
    BadPlan
        If something cannot be simulated.
    """

    weeks: int = 30
    documents: int = 1_000
    target: float = 0.9
    risk: float = 0.1
    groups: tuple[Group, ...] = (Group(0.1, 1), Group(0.3, 1), Group(0.5, 1))
    miss_rate: float = 0.02
    audits: AuditPlan = AUDITS
    minutes: float = 2.0
    recertify_every: int = 4
    run_length: float = 5_000.0
    recalibrate_every: int = 0
    noise: Noise = Noise.KNOWN
    drift: Drift | None = None
    fixed_threshold: float | None = None
    seed: int = 0

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
                f"{worst:g}; from 1 on answers say nothing, so name people who err less"
            )
        faults += [
            f"{fault.pointer.strip('/').replace('audit/', '').replace('_', '-')}: {fault.detail}"
            for fault in self.audits.faults()
        ]
        if self.fixed_threshold is not None and not 0.0 <= self.fixed_threshold <= 1.0:
            faults.append(f"threshold: {self.fixed_threshold:g} must be from 0 to 1")
        return [*faults, *self._drift_faults()]

    def _drift_faults(self) -> list[str]:
        if self.drift is None:
            return []
        faults = _outside("drift-week", self.drift.week, 1, self.weeks)
        if not 0.0 < self.drift.share <= 1.0:
            faults.append(f"drift: {self.drift.share:g} must be above 0 and at most 1")
        return faults


def _outside(name: str, value: int, least: int, most: int) -> list[str]:
    return [] if least <= value <= most else [f"{name}: {value} must be from {least} to {most}"]


def _no_share(name: str, value: float, *, above: bool = False) -> list[str]:
    least = math.ulp(0.0) if above else 0.0
    if not least <= value < 1.0:  # also where it is no number
        return [f"{name}: {value:g} must be {'above 0' if above else 'from 0'} and below 1"]
    return []
