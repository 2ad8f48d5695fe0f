"""The routing policy: from a confidence to a decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.predictions import NO_METADATA, Decision, Reason, ScoredSet
from setwise.service.domain.routing.audits import (
    NO_AUDITS,
    AuditMode,
    AuditPlan,
    AuditRole,
    Draws,
    Selection,
)
from setwise.service.domain.routing.rules import (
    Metadata,
    Rule,
    first_broken,
    held_back_alike,
    read_rules,
)
from setwise.service.domain.routing.segments import (
    ALL_DOCUMENTS,
    GateState,
    Segment,
    SegmentBy,
    state_faults,
)


class ThresholdMode(StrEnum):
    """Where a threshold comes from."""

    CERTIFIED = "certified"
    FIXED = "fixed"


class RetrainMode(StrEnum):
    """What happens by itself when people have given enough new answers."""

    NEVER = "never"
    PROPOSE = "propose"
    """A model is trained and registered; a person activates it."""
    AUTOMATIC = "automatic"
    """While nothing is sent, it is activated too if it ranks better than the most frequent sets."""


class Route(NamedTuple):
    """Where a document goes, why, and whether it is audited."""

    decision: Decision
    reason: Reason
    selection: Selection
    threshold: float | None
    """Least confidence that would have been sent; None if nothing would."""
    rule: str | None
    """Name of the rule that held the document back."""


_Verdict = tuple[Decision, Reason, str | None]
"""The decision without any audit, its reason, and the rule behind it."""

_SENT: _Verdict = Decision.AUTO, Reason.ABOVE_THRESHOLD, None
_UNSURE: _Verdict = Decision.REVIEW, Reason.BELOW_THRESHOLD, None
_UNKNOWN: _Verdict = Decision.REVIEW, Reason.OUT_OF_DOMAIN, None
_NOT_SENDING: _Verdict = Decision.REVIEW, Reason.NO_THRESHOLD, None
_TRIPPED: _Verdict = Decision.REVIEW, Reason.BREAKER, None
_HELD: _Verdict = Decision.REVIEW, Reason.AUDIT, None
_CHECKED: _Verdict = Decision.AUTO, Reason.AUDIT, None


@dataclass(frozen=True)
class Policy:
    """The policy that routes every prediction; a change makes a new version.

    Each segment of the documents has a gate. If nothing divides documents, there is one, for all.
    """

    version: str
    """Identifier of this version; stored with each prediction that it decided."""
    target_accuracy: float
    """Share of automatically sent sets that must be right, in (0, 1)."""
    risk: float
    """Probability, in (0, 1), that a certificate may be wrong; the segments share it."""
    auto_send: bool
    """Whether label sets may be sent automatically."""
    threshold_mode: ThresholdMode
    """Audits prove a certified threshold; an administrator sets a fixed one."""
    fixed_threshold: float | None
    """Least confidence that is sent, in [0, 1], by gates without a threshold of their own; None in
    mode certified.
    """
    created_at: datetime
    created_by: str
    confidence_floor: float | None = None
    """Lower limit of the least confidence, in [0, 1], at any threshold; None for no limit."""
    audits: AuditPlan = NO_AUDITS
    """Which documents are audited."""
    rules: tuple[Rule, ...] = ()
    """Rules that hold documents back, however confident the model is."""
    segment_by: SegmentBy = field(default_factory=SegmentBy)
    """What divides documents into segments."""
    retrain: RetrainMode = RetrainMode.AUTOMATIC
    """What happens by itself when there are enough new answers."""
    states: tuple[GateState, ...] = ()
    """What is stored of each gate: those of listed segments in the order of appearance, then the
    one of the remaining documents, which is added if it is missing.
    """

    def __post_init__(self) -> None:
        """Put the state of the gate for the remaining documents last."""
        states = {state.value: state for state in self.states}
        rest = self.segment_by.rest
        last = states.pop(rest, GateState(rest))
        object.__setattr__(self, "states", (*states.values(), last))

    @property
    def certified(self) -> bool:
        """Whether audits prove its thresholds."""
        return self.threshold_mode is ThresholdMode.CERTIFIED

    @property
    def gates(self) -> tuple["Gate", ...]:
        """The gate of each segment, that of the remaining documents last."""
        return tuple(self._gates.values())

    @cached_property
    def _gates(self) -> dict[str, "Gate"]:
        by, (*listed, rest) = self.segment_by.field, [state.value for state in self.states]
        segments = *(Segment(by, value) for value in listed), Segment(by, rest, frozenset(listed))
        return {
            segment.value: Gate(self, segment, state)
            for segment, state in zip(segments, self.states, strict=True)
        }

    @property
    def segment(self) -> Segment:
        """That of all documents, beside those of the gates."""
        return ALL_DOCUMENTS

    @property
    def whole(self) -> "Gate | None":
        """The gate of all documents; None if segments have their own."""
        return self.gates[-1] if self.segment_by.field is None else None

    @property
    def values(self) -> tuple[str, ...]:
        """Values of the segments that can be asked for; none if nothing divides documents."""
        return () if self.segment_by.field is None else tuple(self._gates)

    @property
    def sends(self) -> bool:
        """Whether anything can be sent automatically."""
        return any(gate.sends for gate in self.gates)

    @property
    def has_threshold(self) -> bool:
        """Whether any gate has a threshold."""
        return any(gate.threshold is not None for gate in self.gates)

    def gate_of(self, key: str | None) -> "Gate":
        """Return the gate of the documents of a segment.

        What is not listed is `OTHER`. Its certificate says nothing of a value that came later: that
        waits until `OTHER` is proved again with it, or until it is listed and proved itself.
        """
        last, covers = self.gates[-1], self.segment_by.covers
        value = last.segment.value if key is None else Segment.of_key(key).value
        if value in self._gates or covers is None or value in covers:
            return self._gates.get(value, last)
        return replace(last, unseen=last.state.certificate_id is not None)

    def gate_of_stored(self, key: str | None, metadata: Metadata | None) -> "Gate | None":
        """Return the gate of a stored document; None if its segment is unknown.

        See `SegmentBy.of_stored`.
        """
        segment = self.segment_by.of_stored(key, metadata)
        return segment and self._gates.get(segment.value, self.gates[-1])

    def gate_named(self, value: str) -> "Gate":
        """Return the gate of the segment with this value; raises `InvalidRequest`."""
        if value not in self._gates:
            fault = FieldFault("/segment", "is no segment that the policy lists")
            raise InvalidRequest(f"There is no segment {value!r}.", [fault])
        return self._gates[value]

    def gate_for(self, value: str | None) -> "Gate | None":
        """Return the gate of the segment with this value, or without a value `whole`.

        Raises `InvalidRequest` if the policy does not list the segment.
        """
        return self.whole if value is None else self.gate_named(value)

    def segment_of(self, value: str) -> Segment:
        """Return the segment with this value; it has no documents if it is none of the policy's."""
        gate = self._gates.get(value)
        return Segment(self.segment_by.field or "", value) if gate is None else gate.segment

    def with_gate(self, state: GateState) -> "Policy":
        """Return the policy with what was decided about a segment."""
        states = {before.value: before for before in self.states} | {state.value: state}
        return replace(self, states=tuple(states.values()))

    @property
    def room(self) -> int:
        """How many segments can still be listed."""
        return max(self.segment_by.shares - len(self.states), 0)

    def listing(self, values: Iterable[str]) -> tuple["Policy", list[str]]:
        """Return the policy with these segments too, and those that had room."""
        new = [value for value in values if value not in self._gates][: self.room]
        states = (*self.states, *map(GateState, new))
        return (replace(self, states=states) if new else self), new

    def least_of(self, scorer: Scorer) -> float | None:
        """Return the least confidence that is sent for a scorer, of any segment, or None."""
        thresholds = (gate.least_of(scorer) for gate in self.gates)
        return min((each for each in thresholds if each is not None), default=None)


@dataclass(frozen=True)
class Gate:
    """What decides on the documents of one segment."""

    policy: Policy
    segment: Segment
    state: GateState
    unseen: bool = False
    """Whether it is that of values of `OTHER` that came after its certificate."""

    @property
    def key(self) -> str | None:
        """The key of its segment."""
        return self.segment.key

    @property
    def risk(self) -> float:
        """Its share of the policy's risk."""
        return self.policy.risk / self.policy.segment_by.shares

    @property
    def threshold(self) -> float | None:
        """Least confidence that is sent, in [0, 1]; with None, nothing is sent."""
        own = self.state.threshold
        return self.policy.fixed_threshold if own is None else own

    @cached_property
    def audits(self) -> AuditPlan:
        """Which documents are audited."""
        usual = self.policy.audits
        if self.state.audits is None:
            return usual
        return replace(
            self.state.audits,
            overlap_rate=usual.overlap_rate,
            gold_reread_rate=usual.gold_reread_rate,
        )

    @property
    def tripped(self) -> bool:
        """Whether the breaker stops it from sending."""
        return self.state.trip_id is not None

    @property
    def sends(self) -> bool:
        """Whether it can send anything automatically."""
        return self.policy.auto_send and self.threshold is not None and not self.tripped

    def sends_for_another(self, scorer: Scorer) -> bool:
        """Return whether it sends what another model or calibrator proved."""
        return self.sends and self.state.certified_for != scorer

    @property
    def rests_on_audits(self) -> bool:
        """Whether audits must confirm what it sends."""
        return self.policy.certified or self.audits.certification_rate > 0.0

    @cached_property
    def least_confidence(self) -> float | None:
        """The least confidence that is sent; None if nothing is."""
        threshold, floor = self.threshold, self.policy.confidence_floor
        return threshold if threshold is None or floor is None else max(threshold, floor)

    def has(self, key: str | None, metadata: Metadata | None) -> bool:
        """Return whether a stored document is its; see `SegmentBy.of_stored`."""
        gate = self.policy.gate_of_stored(key, metadata)
        return gate is not None and gate.segment == self.segment

    def least_of(self, scorer: Scorer) -> float | None:
        """Return the least confidence that is sent for a scorer, or None."""
        refused = self.policy.certified and self.state.certified_for != scorer
        return None if refused else self.least_confidence

    def is_covered_by(self, proved: "Gate") -> bool:
        """Return whether a threshold proved at another gate holds at this one.

        The rules and the audits decide which documents are sent. With other rules the proof speaks
        of other documents: those that a rule let through no longer tell of what is sent, even if
        there are fewer. So does a proof for `OTHER` once a value of its documents is listed. With
        fewer audits more is sent unread.
        """
        return (
            self.segment == proved.segment
            and held_back_alike(self.policy.rules) == held_back_alike(proved.policy.rules)
            and self.audits.checks_as_much_as(proved.audits)
        )

    def counts_audits_of(self, then: Policy) -> bool:
        """Return whether audits that an earlier policy drew are evidence for it.

        A segment that was listed later may have been listed for the errors that its audits show.
        """
        now = self.policy
        if not then.segment_by.is_like(now.segment_by):
            return False
        if self.segment.value == now.segment_by.rest:
            return set(then.values) <= set(now.values)
        return self.segment.value in then.values

    def route(self, scored: ScoredSet, draws: Draws, metadata: Metadata = NO_METADATA) -> Route:
        """Route one scored document.

        The same version, score, draws and metadata always give the same route.
        """
        least = self._least(scored)
        if not scored.candidates:
            selection = Selection(AuditRole.NONE, draws.audit, 1.0, cluster=draws.cluster)
            return Route(Decision.REVIEW, Reason.NO_MODEL, selection, None, None)
        verdict = self._verdict(scored, least, metadata)
        role = self._role(verdict, scored, draws.audit)
        end = verdict
        if verdict is _SENT and role is not AuditRole.NONE:
            end = _HELD if self.audits.mode is AuditMode.HOLD else _CHECKED
        decision, reason, rule = end
        probability = self.audits.rate if verdict is _SENT else 1.0
        chance, rest = self.audit_chance(scored)
        drawn = Selection(role, draws.audit, probability, chance, rest, draws.cluster)
        return Route(decision, reason, drawn, least, rule)

    def decide(
        self, scored: ScoredSet, metadata: Metadata = NO_METADATA
    ) -> tuple[Decision, Reason]:
        """Return the decision without any audit, and its reason."""
        decision, reason, _ = self._verdict(scored, self._least(scored), metadata)
        return decision, reason

    def _least(self, scored: ScoredSet) -> float | None:
        unproved = self.unseen or (scored.uncalibrated and not self.policy.certified)
        return None if unproved else self.least_of(_scorer(scored))

    def _verdict(self, scored: ScoredSet, least: float | None, metadata: Metadata) -> _Verdict:
        if scored.out_of_domain:
            return _UNKNOWN
        rule = first_broken(self.policy.rules, scored.best.labels, metadata)
        if rule is not None:
            return Decision.REVIEW, Reason.RULE, rule.name
        if least is None or not self.policy.auto_send:
            return _NOT_SENDING
        if scored.best.confidence >= least:
            return _TRIPPED if self.tripped else _SENT
        return _UNSURE

    def audited_from(self, scorer: Scorer) -> float | None:
        """Return the confidence below which the lower of two rates holds; None for one rate.

        It may not depend on what audits found, except that all that is sent lies above it.
        """
        state, least = self.state, self.least_of(scorer)
        if not self.audits.two_rates or state.audited_for != scorer or state.audited_from is None:
            return None
        return state.audited_from if least is None else min(state.audited_from, least)

    def audit_chance(self, scored: ScoredSet) -> tuple[float, bool]:
        """Return the probability of a certification audit, and whether it is the lower of two."""
        scorer, rest = _scorer(scored), self.audits.rest_rate
        rate, start = self.certification_rate(scorer), self.audited_from(scorer)
        if start is None or rest is None or scored.best.confidence >= start:
            return rate, False
        return rest, True

    def certification_rate(self, scorer: Scorer) -> float:
        """Return the share of a scorer's documents that are audited to prove the threshold.

        With two rates it is that of the documents that could be sent.
        """
        sends = self.sends and self.least_of(scorer) is not None
        return self.audits.certification_rate if sends else self.audits.ramp_up

    def _role(self, verdict: _Verdict, scored: ScoredSet, draw: float) -> AuditRole:
        if verdict is _SENT:
            return self.audits.role(draw)
        # A person reads it anyway. A certification audit is read like that of a confident document,
        # so that it counts at every threshold. What a rule holds back proves nothing.
        _, reason, _ = verdict
        if reason is Reason.OUT_OF_DOMAIN or reason is Reason.RULE:
            return AuditRole.NONE
        certifies = draw < self.audit_chance(scored)[0]
        return AuditRole.CERTIFICATION if certifies else AuditRole.NONE


def _scorer(scored: ScoredSet) -> Scorer:
    return Scorer(scored.model_version or "", scored.calibrator_version or "")


DEFAULT_TARGET_ACCURACY = 0.95
DEFAULT_RISK = 0.1

FIRST_POLICY_VERSION = "00000000-0000-7000-8000-000000000000"
"""The policy that a new database starts with."""


def first_policy(created_at: datetime) -> Policy:
    """Return the first policy, which has no threshold and sends nothing."""
    return Policy(
        version=FIRST_POLICY_VERSION,
        target_accuracy=DEFAULT_TARGET_ACCURACY,
        risk=DEFAULT_RISK,
        auto_send=True,
        threshold_mode=ThresholdMode.CERTIFIED,
        fixed_threshold=None,
        created_at=created_at,
        created_by="system",
    )


@dataclass(frozen=True)
class PolicyChange:
    """The whole policy that an administrator asks for; rules as declared.

    Its reason is for the audit trail; it is required if checks contradict the target.
    """

    target_accuracy: float
    risk: float
    auto_send: bool
    threshold_mode: ThresholdMode
    threshold: float | None
    confidence_floor: float | None = None
    audits: AuditPlan = NO_AUDITS
    rules: Sequence[object] = ()
    reason: str | None = None
    segment_by: SegmentBy = field(default_factory=SegmentBy)
    segments: tuple[GateState, ...] = ()
    retrain: RetrainMode = RetrainMode.AUTOMATIC

    def faults(self) -> Iterator[FieldFault]:
        """Yield the faults of the change."""
        for pointer, value in (("/target_accuracy", self.target_accuracy), ("/risk", self.risk)):
            if not 0.0 < value < 1.0:
                yield FieldFault(pointer, f"is {value}; it must lie between 0 and 1, both excluded")
        yield from self._threshold_faults()
        yield from self.audits.faults()
        if self.confidence_floor is not None and not 0.0 <= self.confidence_floor <= 1.0:
            yield FieldFault(
                "/confidence_floor",
                f"is {self.confidence_floor}; it must lie between 0 and 1, or be null",
            )
        yield from read_rules(self.rules)[1]
        fixed = self.threshold_mode is ThresholdMode.FIXED
        yield from self.segment_by.faults()
        yield from state_faults(self.segments, self.segment_by, fixed=fixed)

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

    def as_policy(self, version: str, created_at: datetime, created_by: str) -> Policy:
        """Return the new version of the policy."""
        return Policy(
            version=version,
            target_accuracy=self.target_accuracy,
            risk=self.risk,
            auto_send=self.auto_send,
            threshold_mode=self.threshold_mode,
            fixed_threshold=self.threshold,
            created_at=created_at,
            created_by=created_by,
            confidence_floor=self.confidence_floor,
            audits=self.audits,
            rules=read_rules(self.rules)[0],
            segment_by=self.segment_by,
            retrain=self.retrain,
            states=self.segments,
        )

    def states_after(self, old: Policy, tried: Collection[str]) -> tuple[GateState, ...]:
        """Return the gates of the new version if both divide documents alike.

        Changing the policy does not reset the breaker. If the change lists no segments, all stay.
        Those that have tripped stay listed anyway, as do those with attempts.

        ``tried``: Keys of segments with attempts.
        """
        states = {state.value: state for state in self.segments}
        fixed = ThresholdMode.FIXED is self.threshold_mode is old.threshold_mode
        for gate in old.gates:
            before, last = gate.state, gate is old.gates[-1]
            if before.value in states:
                states[before.value] = replace(states[before.value], trip_id=before.trip_id)
            elif not self.segments or last or gate.tripped or gate.key in tried:
                threshold = before.threshold if fixed else None
                states[before.value] = GateState(
                    before.value, threshold, trip_id=before.trip_id, audits=before.audits
                )
        return tuple(states.values())


def why_certificate_ends(before: Policy, after: Policy) -> str | None:
    """Return why a change ends the certificate in force; None if it does not.

    ``after``: With the certificate that it would get, if there is one.
    """
    proved = {gate.key for gate in after.gates if gate.state.certificate_id is not None}
    if not any(
        gate.state.certificate_id is not None and not gate.tripped and gate.key not in proved
        for gate in before.gates
    ):
        return None
    if after.threshold_mode is ThresholdMode.FIXED:
        return "The certificate ends: a threshold that is set by hand is not certified."
    if not before.segment_by.is_like(after.segment_by):
        why = "it was issued for other segments of the documents"
    elif held_back_alike(before.rules) != held_back_alike(after.rules):
        why = "it was issued for the documents that the present rules let through"
    elif not after.audits.checks_as_much_as(before.audits):
        why = "fewer documents would be audited than when it was issued"
    else:
        why = "it does not prove this target at this risk above this floor"
    return (
        f"The certificate ends: {why}. Nothing would be sent until audits certify a threshold "
        "again."
    )
