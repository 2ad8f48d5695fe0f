"""The routing policy: from a confidence to a decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    OTHER,
    POOL,
    Fallback,
    Scope,
    Segment,
    Segmentation,
    SegmentRule,
    rule_faults,
)


class ThresholdMode(StrEnum):
    """Where a threshold comes from."""

    CERTIFIED = "certified"
    FIXED = "fixed"


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
class RoutingPolicy:
    """The policy that routes every prediction; a change makes a new version."""

    version: str
    """Identifier of this version; stored with each prediction that it decided."""
    target_accuracy: float
    """Share of automatically sent sets that must be right, in (0, 1)."""
    risk: float
    """Probability, in (0, 1), that a certificate may be wrong."""
    auto_send: bool
    """Whether label sets may be sent automatically."""
    threshold_mode: ThresholdMode
    """Audits prove a certified threshold; an administrator sets a fixed one."""
    threshold: float | None
    """Least confidence that is sent, in [0, 1]; with None, nothing is sent."""
    created_at: datetime
    created_by: str
    confidence_floor: float | None = None
    """Lower limit of the least confidence, in [0, 1], at any threshold; None for no limit."""
    audits: AuditPlan = NO_AUDITS
    """Which documents are audited."""
    rules: tuple[Rule, ...] = ()
    """Rules that hold documents back, however confident the model is."""
    certificate_id: str | None = None
    """The certificate that proves a certified threshold."""
    certified_for: Scorer | None = None
    """The scorer that a certified threshold holds for; nothing of other scorers is sent."""
    trip_id: str | None = None
    """The trip of the breaker that stops automatic sending; None if the breaker has not tripped."""
    segmentation: Segmentation | None = None
    """How documents are divided; None if all of them are one unit."""
    segments: tuple[SegmentRule, ...] = ()
    """The listed segments, in the order of appearance, and the pool. Their thresholds, certificates
    and trips take the place of the policy's own.
    """
    unit: str | None = None
    """Key of the unit that this is the part of; None for the whole policy."""

    @property
    def sends(self) -> bool:
        """Whether anything can be sent automatically."""
        if self.segmentation is not None:
            return any(unit.sends for unit in self.units)
        return self.auto_send and self.threshold is not None and self.trip_id is None

    @cached_property
    def units(self) -> tuple["RoutingPolicy", ...]:
        """The policies of all segments and the pool, or the whole one."""
        if self.segmentation is None:
            return (self,)
        return tuple(self.of_unit(self.segmentation.key(value)) for value in self._rules)

    @cached_property
    def _rules(self) -> dict[str, SegmentRule]:
        """The segments by value, and the pool last if there is one."""
        rules = {rule.value: rule for rule in self.segments}
        pool = rules.pop(POOL, SegmentRule(POOL))
        pooled = self.segmentation is not None and self.segmentation.fallback is Fallback.POOL
        return rules | ({POOL: pool} if pooled else {})

    @cached_property
    def _seen(self) -> dict[str | None, "RoutingPolicy"]:
        return {}

    def of_unit(self, key: str | None) -> "RoutingPolicy":
        """Return the policy of one unit; without a segmentation, the whole one."""
        if self.segmentation is None or key is None:
            return self
        value = Segment.of_key(key).value
        rule = self._rules.get(value) or SegmentRule(value)
        plan = rule.audits and replace(
            rule.audits,
            overlap_rate=self.audits.overlap_rate,
            gold_reread_rate=self.audits.gold_reread_rate,
        )
        return replace(
            self,
            risk=self.risk * self.segmentation.share,
            threshold=self.threshold
            if not self._certified and rule.threshold is None and value != OTHER
            else rule.threshold,
            certificate_id=rule.certificate_id,
            certified_for=rule.certified_for,
            trip_id=rule.trip_id,
            audits=plan or self.audits,
            segmentation=None,
            segments=(),
            unit=key,
        )

    def within(self, key: str | None) -> "RoutingPolicy":
        """Return the policy of the documents of a segment.

        Without a segmentation it is the whole policy. A segment without a certificate has the
        threshold of the pool if the pool's certificate covers it. What is not listed is `OTHER`.
        """
        if self.segmentation is None:
            return self
        value = OTHER if key is None else Segment.of_key(key).value
        value = value if value in self._rules and value != POOL else OTHER
        if value not in self._seen:
            self._seen[value] = self.of_unit(self.unit_of(value))
            own = self._rules.get(value)
            if own is not None and own.audits is not None:
                audits = self.of_unit(self.segmentation.key(value)).audits
                self._seen[value] = replace(self._seen[value], audits=audits)
        return self._seen[value]

    def unit_of(self, value: str) -> str | None:
        """Return the key of the unit whose threshold a segment has."""
        if self.segmentation is None:
            return None
        own = self._rules.get(value)
        alone = own is not None and (own.certificate_id is not None or own.trip_id is not None)
        pooled = not alone and value in self.pooled
        return self.segmentation.key(POOL if pooled else value)

    def scope(self, unit: str | None, members: Sequence[str] | None = None) -> Scope | None:
        """Return the documents that a unit speaks of; None for all.

        ``members``: Values of the pool's segments; by default those that its certificate covers.
        """
        if self.segmentation is None or unit is None:
            return None
        value = Segment.of_key(unit).value
        if value != POOL:
            return Scope((unit,), self._listed if value == OTHER else None)
        chosen = self.pooled if members is None else members
        keys = tuple(self.segmentation.key(one) for one in chosen)
        return Scope(keys, self._listed if OTHER in chosen else None)

    def among(self, value: str) -> Scope:
        """Return the documents of the segment with this value; none without a segmentation."""
        return self.scope(self.key_of(value)) or Scope(())

    @property
    def pool(self) -> "RoutingPolicy | None":
        """The policy of the pool; None if there is none."""
        if self.segmentation is None or POOL not in self._rules:
            return None
        return self.of_unit(self.segmentation.key(POOL))

    def known(self, segment: str | None, metadata: Metadata | None) -> str | None:
        """Return the listed value of a stored document, or `OTHER`.

        None if that is unknown, or documents are not divided.
        """
        key = None
        if self.segmentation is not None:
            key = self.segmentation.known(segment, metadata)
        if key is None:
            return None
        return Segment.of_key(key).value if key in self._listed else OTHER

    def key_of(self, value: str) -> str | None:
        """Return the key of the segment with this value; None without a segmentation."""
        return None if self.segmentation is None else self.segmentation.key(value)

    def unit_named(self, value: str) -> str:
        """Return the key of the unit with this value; raises `InvalidRequest`."""
        key = self.key_of(value)
        if key is None or key not in {part.unit for part in self.units}:
            fault = FieldFault("/segment", "is no segment that the policy lists")
            raise InvalidRequest(f"There is no segment {value!r}.", [fault])
        return key

    def within_value(self, value: str) -> "RoutingPolicy":
        """Return the policy of the documents of the segment with this value."""
        return self.within(self.key_of(value))

    @property
    def pooled(self) -> tuple[str, ...]:
        """Values of the segments that have the threshold of the pool."""
        if POOL not in self._rules:
            return ()
        return self._rules[POOL].members if self._certified else (OTHER,)

    @property
    def values(self) -> tuple[str, ...]:
        """Values of the listed segments, in the order of appearance."""
        return tuple(rule.value for rule in self.segments if rule.value != POOL)

    @property
    def _listed(self) -> tuple[str, ...]:
        """Keys of the listed segments."""
        if self.segmentation is None:
            return ()
        return tuple(self.segmentation.key(one) for one in self._rules if one != POOL)

    def untried(self, tried: Collection[str]) -> tuple[str, ...]:
        """Return the values of the pool's segments, given the keys of units with attempts.

        `OTHER` is always one of them, because it has no attempts.
        """
        if POOL not in self._rules:
            return ()
        listed = (one for one in self._listed if one not in tried)
        return (*(Segment.of_key(one).value for one in listed), OTHER)

    def listing(self, values: Iterable[str]) -> tuple["RoutingPolicy", list[str]]:
        """Return the policy with these segments too, and those that had room."""
        if self.segmentation is None:
            return self, []
        room = self.segmentation.most - len(self._listed)
        new = [one for one in values if one not in self._rules and one != OTHER][: max(room, 0)]
        rules = tuple(SegmentRule(value) for value in new)
        listed = [one for one in self.segments if one.value != POOL]
        pool = [one for one in self.segments if one.value == POOL]
        return (replace(self, segments=(*listed, *rules, *pool)) if new else self), new

    def keeping(
        self, old: "RoutingPolicy", tried: Collection[str] = frozenset()
    ) -> "RoutingPolicy":
        """Return the policy with the trips of another one, whose segments are divided alike.

        If it lists no segments, it has those of the other one. Those that have tripped stay
        listed, as do those with attempts.

        ``tried``: Keys of units with attempts.
        """
        rules = {rule.value: rule for rule in self.segments}
        for before in old.segments:
            value = before.value
            if value in rules:
                rules[value] = replace(rules[value], trip_id=before.trip_id)
            elif (
                not self.segments
                or before.trip_id is not None
                or value == POOL
                or old.key_of(value) in tried
            ):
                fixed = ThresholdMode.FIXED is self.threshold_mode is old.threshold_mode
                rules[value] = SegmentRule(
                    value,
                    before.threshold if fixed else None,
                    trip_id=before.trip_id,
                    audits=before.audits,
                )
        return replace(self, segments=tuple(rules.values()))

    def put(self, part: "RoutingPolicy", members: Sequence[str] | None = None) -> "RoutingPolicy":
        """Return the policy with what was decided about a unit.

        ``members``: Of the pool, if a certificate covers it.
        """
        if self.segmentation is None or part.unit is None:
            return part
        value = Segment.of_key(part.unit).value
        rules = dict(self._rules)
        rule = rules.get(value) or SegmentRule(value)
        rules[value] = replace(
            rule,
            threshold=part.threshold if self._certified else rule.threshold,
            certificate_id=part.certificate_id,
            certified_for=part.certified_for,
            trip_id=part.trip_id,
            members=rule.members if members is None else tuple(members),
        )
        return replace(self, segments=tuple(rules.values()))

    @property
    def rests_on_audits(self) -> bool:
        """Whether audits must confirm what the policy sends."""
        return self._certified or self.audits.certification_rate > 0.0

    @cached_property
    def least_confidence(self) -> float | None:
        """The least confidence that is sent; None if nothing is."""
        if self.threshold is None or self.confidence_floor is None:
            return self.threshold
        return max(self.threshold, self.confidence_floor)

    def least_of(self, scorer: Scorer) -> float | None:
        """Return the least confidence that is sent for a scorer, of any segment, or None."""
        if self.segmentation is not None:
            least = (part.least_of(scorer) for part in self.units)
            return min((one for one in least if one is not None), default=None)
        refused = self._certified and self.certified_for != scorer
        return None if refused else self.least_confidence

    @cached_property
    def _certified(self) -> bool:
        return self.threshold_mode is ThresholdMode.CERTIFIED

    def is_covered_by(self, proved: "RoutingPolicy") -> bool:
        """Return whether a threshold proved under another policy holds under this one.

        The rules and the audits decide which documents are sent. With other rules the proof speaks
        of other documents: those that a rule let through no longer tell of what is sent, even if
        there are fewer. With fewer audits more is sent unread.
        """
        return held_back_alike(self.rules) == held_back_alike(
            proved.rules
        ) and self.audits.checks_as_much_as(proved.audits)

    def route(self, scored: ScoredSet, draws: Draws, metadata: Metadata = NO_METADATA) -> Route:
        """Route one scored document.

        The same version, score, draws and metadata always give the same route.
        """
        scorer = _scorer(scored)
        least = self._least(scored)
        verdict = self._verdict(scored, least, metadata)
        role = self._role(verdict, scorer, draws.audit)
        end = verdict
        if verdict is _SENT and role is not AuditRole.NONE:
            end = _HELD if self.audits.mode is AuditMode.HOLD else _CHECKED
        decision, reason, rule = end
        probability = self.audits.rate if verdict is _SENT else 1.0
        return Route(decision, reason, Selection(role, draws.audit, probability), least, rule)

    def decide(
        self, scored: ScoredSet, metadata: Metadata = NO_METADATA
    ) -> tuple[Decision, Reason]:
        """Return the decision without any audit, and its reason."""
        decision, reason, _ = self._verdict(scored, self._least(scored), metadata)
        return decision, reason

    def _least(self, scored: ScoredSet) -> float | None:
        unproved = scored.uncalibrated and not self._certified
        return None if unproved else self.least_of(_scorer(scored))

    def _verdict(self, scored: ScoredSet, least: float | None, metadata: Metadata) -> _Verdict:
        if scored.out_of_domain:
            return _UNKNOWN
        rule = first_broken(self.rules, scored.labels, metadata)
        if rule is not None:
            return Decision.REVIEW, Reason.RULE, rule.name
        if least is None or not self.auto_send:
            return _NOT_SENDING
        if scored.confidence >= least:
            return _SENT if self.trip_id is None else _TRIPPED
        return _UNSURE

    def certification_rate(self, scorer: Scorer) -> float:
        """Return the share of a scorer's documents that are audited to prove the threshold."""
        sends = self.sends and self.least_of(scorer) is not None
        return self.audits.certification_rate if sends else self.audits.ramp_up

    def _role(self, verdict: _Verdict, scorer: Scorer, draw: float) -> AuditRole:
        if verdict is _SENT:
            return self.audits.role(draw)
        # A person reads it anyway. A certification audit is read like that of a confident document,
        # so that it counts at every threshold. What no threshold can send proves nothing.
        _, reason, _ = verdict
        if reason is Reason.OUT_OF_DOMAIN or reason is Reason.RULE:
            return AuditRole.NONE
        certifies = draw < self.certification_rate(scorer)
        return AuditRole.CERTIFICATION if certifies else AuditRole.NONE


def _scorer(scored: ScoredSet) -> Scorer:
    return Scorer(scored.model_version, scored.calibrator_version)


DEFAULT_TARGET_ACCURACY = 0.95
DEFAULT_RISK = 0.1

FIRST_POLICY_VERSION = "00000000-0000-7000-8000-000000000000"
"""The policy that a new database starts with."""


def first_policy(created_at: datetime) -> RoutingPolicy:
    """Return the first policy, which has no threshold and sends nothing."""
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
    segmentation: Segmentation | None = None
    segments: tuple[SegmentRule, ...] = ()

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
        if self.segmentation is not None:
            yield from self.segmentation.faults()
        yield from rule_faults(self.segments, self.segmentation, fixed=fixed)

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
        """Return the new version of the policy."""
        return RoutingPolicy(
            version=version,
            target_accuracy=self.target_accuracy,
            risk=self.risk,
            auto_send=self.auto_send,
            threshold_mode=self.threshold_mode,
            threshold=self.threshold,
            created_at=created_at,
            created_by=created_by,
            confidence_floor=self.confidence_floor,
            audits=self.audits,
            rules=read_rules(self.rules)[0],
            segmentation=self.segmentation,
            segments=self.segments,
        )


def why_certificate_ends(before: RoutingPolicy, after: RoutingPolicy) -> str | None:
    """Return why a change ends the certificate in force; None if it does not.

    ``after``: With the certificate that it would get, if there is one.
    """
    lost = [
        part.unit
        for part in before.units
        if part.certificate_id is not None
        and part.trip_id is None
        and after.of_unit(part.unit).certificate_id is None
    ]
    if not lost:
        return None
    if after.threshold_mode is ThresholdMode.FIXED:
        return "The certificate ends: a threshold that is set by hand is not proved."
    divided, divides = before.segmentation, after.segmentation
    alike = divided is divides if not (divided and divides) else divides.divides_like(divided)
    if not alike:
        why = "it was proved for other segments of the documents"
    elif held_back_alike(before.rules) != held_back_alike(after.rules):
        why = "it was proved for the documents that the present rules let through"
    elif not after.audits.checks_as_much_as(before.audits):
        why = "fewer documents would be audited than when it was proved"
    else:
        why = "it does not prove this target at this risk above this floor"
    return (
        f"The certificate ends: {why}. Nothing would be sent until audits prove a threshold again."
    )
