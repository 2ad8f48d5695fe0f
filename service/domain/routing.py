"""From a confidence to a decision."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.errors import FieldFault
from service.domain.predictions import Decision, Reason, ScoredSet


class ThresholdMode(StrEnum):
    """Where a threshold comes from."""

    CERTIFIED = "certified"
    FIXED = "fixed"


@dataclass(frozen=True)
class RoutingPolicy:
    """The rule that every prediction is routed by; a change makes a new version.

    Attributes
    ----------
    version : str
        Identifier of this version; stored with each prediction that it decided.
    target_accuracy : float
        Share of automatically sent sets that must be right, in (0, 1).
    risk : float
        Probability, in (0, 1), that a certificate may be wrong.
    auto_send : bool
        Whether anything may be sent without a person.
    threshold_mode : ThresholdMode
        A certified threshold stands on evidence; a fixed one on the owner's word.
    threshold : float or None
        Least confidence that is sent, in [0, 1]; None while there is none, which sends nothing.
    """

    version: str
    target_accuracy: float
    risk: float
    auto_send: bool
    threshold_mode: ThresholdMode
    threshold: float | None
    created_at: datetime
    created_by: str

    def decide(self, scored: ScoredSet) -> tuple[Decision, Reason]:
        """Route one scored document.

        The same version and the same score always give the same decision.
        """
        if scored.out_of_domain:
            return Decision.REVIEW, Reason.OUT_OF_DOMAIN
        if self.threshold is None or not self.auto_send:
            return Decision.REVIEW, Reason.NO_THRESHOLD
        if scored.confidence >= self.threshold:
            return Decision.AUTO, Reason.ABOVE_THRESHOLD
        return Decision.REVIEW, Reason.BELOW_THRESHOLD


DEFAULT_TARGET_ACCURACY = 0.95
DEFAULT_RISK = 0.1

FIRST_POLICY_VERSION = "00000000-0000-7000-8000-000000000000"
"""The policy that a new database starts with."""


def first_policy(created_at: datetime) -> RoutingPolicy:
    """Return the policy before anybody has set one: no threshold, so nothing is sent."""
    return RoutingPolicy(
        version=FIRST_POLICY_VERSION,
        target_accuracy=DEFAULT_TARGET_ACCURACY,
        risk=DEFAULT_RISK,
        auto_send=True,
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        created_at=created_at,
        created_by="system",
    )


@dataclass(frozen=True)
class PolicyChange:
    """The whole policy as an administrator wants it.

    The fields after ``threshold`` belong to audits, overlap and rules, none of which runs yet; they
    are here so that a policy that counts on them is refused, not silently weakened.
    """

    target_accuracy: float
    risk: float
    auto_send: bool
    threshold_mode: ThresholdMode
    threshold: float | None
    certification_rate: float = 0.0
    training_rate: float = 0.0
    audit_mode: str = "hold"
    overlap_rate: float = 0.0
    gold_reread_rate: float = 0.0
    confidence_floor: float | None = None
    rules: Sequence[object] = ()

    def faults(self) -> Iterator[FieldFault]:
        """Yield what keeps the change from taking effect."""
        for pointer, value in (("/target_accuracy", self.target_accuracy), ("/risk", self.risk)):
            if not 0.0 < value < 1.0:
                yield FieldFault(pointer, f"is {value}; it must lie between 0 and 1, both excluded")
        yield from self._threshold_faults()
        for pointer, rate in (
            ("/audit/certification_rate", self.certification_rate),
            ("/audit/training_rate", self.training_rate),
            ("/overlap_rate", self.overlap_rate),
            ("/gold_reread_rate", self.gold_reread_rate),
        ):
            if rate != 0.0:
                yield FieldFault(pointer, f"is {rate}; this release draws no checks: set it to 0")
        if self.audit_mode != "hold":
            yield FieldFault("/audit/mode", "must be 'hold': this release draws no audits")
        if self.confidence_floor is not None:
            yield FieldFault(
                "/confidence_floor", "must be null: this release knows no floor beside a threshold"
            )
        if self.rules:
            yield FieldFault("/rules", "must be []: this release knows no rules")

    def _threshold_faults(self) -> Iterator[FieldFault]:
        pointer = "/threshold/value"
        if self.threshold_mode is ThresholdMode.CERTIFIED:
            if self.threshold is not None:
                yield FieldFault(
                    pointer,
                    "must be null in mode 'certified', where evidence sets it; "
                    "use mode 'fixed' to set it by hand",
                )
        elif self.threshold is None:
            yield FieldFault(pointer, "is missing; mode 'fixed' needs a number from 0 to 1")
        elif not 0.0 <= self.threshold <= 1.0:
            yield FieldFault(pointer, f"is {self.threshold}; it must lie between 0 and 1")

    def as_policy(self, version: str, created_at: datetime, created_by: str) -> RoutingPolicy:
        """Return the new version that the change asks for."""
        return RoutingPolicy(
            version=version,
            target_accuracy=self.target_accuracy,
            risk=self.risk,
            auto_send=self.auto_send,
            threshold_mode=self.threshold_mode,
            threshold=self.threshold,
            created_at=created_at,
            created_by=created_by,
        )
