"""Read, change and preview the policy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest, StaleVersion
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import (
    Policy,
    PolicyChange,
    ThresholdMode,
    why_certificate_ends,
)
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import ALL, Segment
from setwise.service.services.analysis.advice import misses, warning
from setwise.service.services.analysis.forecast import of_segment, under
from setwise.service.services.analysis.over_time import mean_seconds
from setwise.service.services.analysis.what_if import RECENT, WhatIf, advise_on, hold_against
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.certification.in_force import (
    aimed,
    certified,
    still_retested,
    unproved,
    with_parents,
)
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction

_UNNOTED = frozenset({"version", "created_at", "created_by", "rules", "states"})
"""What the audit trail states of a changed policy elsewhere, or leaves to its version."""


@dataclass(frozen=True)
class Policies(Recorded):
    """The policy; each prediction keeps the version that decided it."""

    now: WallClock

    def get(self, caller: Caller) -> Policy:
        """Return the policy in force."""
        caller.require(Permission.INSPECT, Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return transaction.policies.current()

    def change(self, caller: Caller, change: PolicyChange, expected_version: str | None) -> Policy:
        """Replace the policy; return the new version.

        Raises `InvalidRequest` if the change is not valid, or checks contradict its target and it
        gives no reason; `StaleVersion` if the version in force is not the expected one.

        ``expected_version``: The version that the caller read; None accepts any.
        """
        caller.require(Permission.ADMINISTER)
        _check(change)
        with self.begin() as transaction:
            transaction.policies.lock()
            old = transaction.policies.current()
            if expected_version not in {None, old.version}:
                raise StaleVersion(
                    f"Version {old.version} is in force, not {expected_version}; "
                    "read the policy again and repeat the change."
                )
            policy = change.as_policy(self.new_id(), self.now(), caller.id)
            policy = _with_gates(transaction, change, policy, old)
            new = certified(transaction, policy, transaction.certifications.serving())
            new = still_retested(new, old)
            new = aimed(transaction, new, transaction.certifications.serving())
            if not (change.reason or "").strip():
                _refuse_contradicted(transaction, new)
            transaction.policies.add(new, replacing=old.version)
            self._note(
                transaction,
                caller,
                "policy.changed",
                new.version,
                replaced=old.version,
                **{name: value for name, value in asdict(new).items() if name not in _UNNOTED},
                gates=[asdict(state) for state in new.states],
                certificate_ends=why_certificate_ends(old, new),
                reason=(change.reason or "").strip() or None,
            )
        return new

    def preview(
        self,
        caller: Caller,
        *,
        threshold: float | None = None,
        target_accuracy: float | None = None,
        rules: Sequence[object] | None = None,
        segment: str | None = None,
    ) -> WhatIf:
        """Return what another threshold, target or rules would have done with recent documents.

        Raises `InvalidRequest` if both are given, or a value or rule is invalid.

        ``threshold``, ``target_accuracy``: At most one of them; without either, only the rules
        change. A target uses the threshold that `advise` gives, if there is one.
        ``rules``: Declared rules; None keeps those in force.
        ``segment``: Only for this segment's documents; required for a threshold or target of a
        policy with segments.
        """
        caller.require(Permission.REPORT)
        new_rules, wrong = read_rules(rules or [])
        if faults := [*_preview_faults(threshold, target_accuracy), *wrong]:
            raise InvalidRequest("This policy cannot be previewed.", faults)
        with self.begin(read_only=True) as transaction:
            before = transaction.policies.current()
            needed = threshold is not None or target_accuracy is not None
            tried = needed or rules is not None
            gate = before.gate_for(segment)
            if gate is None and needed:
                fault = FieldFault("/segment", "is missing; name a segment")
                raise InvalidRequest("This cannot be reported without a segment.", [fault])
            evidence = _recent(transaction, before, segment)
            after, advice, certificate_ends = before, None, None
            if tried:
                after = replace(after, auto_send=True)
            if rules is not None:
                after = with_parents(transaction, replace(after, rules=new_rules))
            if threshold is not None:
                after = replace(
                    after, threshold_mode=ThresholdMode.FIXED, fixed_threshold=threshold
                )
            if target_accuracy is not None:
                after = replace(after, target_accuracy=target_accuracy, fixed_threshold=None)
            if tried:
                without = unproved(after, before.gates if gate is None else [gate])
                scorer = transaction.certifications.serving()
                certificate_ends = why_certificate_ends(
                    before, certified(transaction, without, scorer)
                )
                after = without if needed else after
            if target_accuracy is not None and gate is not None:
                advice = advise_on(evidence, after, segment)
                advised = replace(after.gate_of(gate.key).state, threshold=advice.threshold)
                after = after.with_gate(advised)
            seconds = _seconds(transaction, evidence, (gate or before).segment)
        return hold_against(
            evidence,
            before,
            after,
            tried=tried,
            advice=advice,
            certificate_ends=certificate_ends,
            seconds=seconds,
            segment=segment,
        )

    def preview_change(self, caller: Caller, change: PolicyChange) -> WhatIf:
        """Return what a change of the policy would have done with recent documents.

        Raises `InvalidRequest` if the change is invalid.
        """
        caller.require(Permission.REPORT)
        _check(change)
        with self.begin(read_only=True) as transaction:
            before = transaction.policies.current()
            after = certified(
                transaction,
                _with_gates(
                    transaction,
                    change,
                    change.as_policy(before.version, self.now(), caller.id),
                    before,
                ),
                transaction.certifications.serving(),
            )
            evidence = _recent(transaction, before)
            seconds = _seconds(transaction, evidence, before.segment)
        certifies = after.certified and not after.has_threshold
        return hold_against(
            evidence,
            before,
            after,
            advice=advise_on(evidence, after) if certifies else None,
            certificate_ends=why_certificate_ends(before, after),
            seconds=seconds,
        )

    def list_segments(self) -> list[str]:
        """List new values of recent documents in the policy, while there is room."""
        with self.begin(read_only=True) as transaction:
            if not take_up(transaction, transaction.policies.current())[1]:
                return []
        with self.begin() as transaction:
            transaction.policies.lock()
            policy = transaction.policies.current()
            listed, new = take_up(transaction, policy)
            if not new:
                return []
            # Their documents leave `OTHER`, whose proof ends.
            listed = certified(transaction, listed, transaction.certifications.serving())
            changed = replace(
                listed, version=self.new_id(), created_at=self.now(), created_by=SYSTEM.id
            )
            transaction.policies.add(changed, replacing=policy.version)
            self._note(transaction, SYSTEM, "policy.segments_listed", changed.version, values=new)
        return new

    def aim_audits(self) -> Policy | None:
        """Have documents that could be sent audited more often, once that is known of a scorer.

        Returns the new policy, or None if nothing changes.
        """
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            if aimed(transaction, policy, transaction.certifications.serving()) is policy:
                return None
        with self.begin() as transaction:
            transaction.policies.lock()
            policy = transaction.policies.current()
            changed = aimed(transaction, policy, transaction.certifications.serving())
            if changed is policy:
                return None
            changed = replace(
                changed, version=self.new_id(), created_at=self.now(), created_by=SYSTEM.id
            )
            transaction.policies.add(changed, replacing=policy.version)
            self._note(
                transaction,
                SYSTEM,
                "policy.audits_aimed",
                changed.version,
                audited_from={gate.key or ALL: gate.state.audited_from for gate in changed.gates},
            )
        return changed


def _with_gates(
    transaction: Transaction, change: PolicyChange, policy: Policy, old: Policy
) -> Policy:
    """Return the policy of a change with the segments so far and the trips in force.

    Its rules on parents are those that the catalogue makes now.
    """
    policy = with_parents(transaction, policy)
    if policy.segment_by.is_like(old.segment_by):
        # A segment that has been tried has spent its share of the risk, and if it failed, it must
        # not be sent as one of the others.
        scorer = transaction.certifications.serving()
        tried = transaction.certifications.tried(scorer.model_version) if scorer else set()
        policy = replace(policy, states=change.states_after(old, tried))
        n_gates, most = len(policy.gates), policy.segment_by.shares
        if n_gates > most:
            detail = f"is {most}; there are {n_gates} segments with other"
            raise InvalidRequest(
                "Segments that have been tried stay listed, and the risk is shared among all.",
                [FieldFault("/most_segments", detail)],
            )
    elif any(gate.tripped for gate in old.gates):
        fault = FieldFault("/segment_by", "cannot change while the breaker has tripped")
        raise InvalidRequest("Reset the breaker before you change the segments.", [fault])
    return take_up(transaction, policy)[0]


def take_up(transaction: Transaction, policy: Policy) -> tuple[Policy, list[str]]:
    """Return the policy with the new values of recent documents, and those that had room.

    Those of the oldest documents come first.
    """
    if not policy.room:
        return policy, []
    values = policy.segment_by.bands() or [
        policy.segment_by.of_metadata(document.metadata or {}).value
        for document in reversed(transaction.evidence.recent(RECENT, with_content=True))
    ]
    return policy.listing(dict.fromkeys(values))


def _refuse_contradicted(transaction: Transaction, policy: Policy) -> None:
    """Raise `InvalidRequest` if checks contradict the target of a policy."""
    then = under(_recent(transaction, policy), policy, tripped=True)
    if misses(then, policy.target_accuracy):
        detail = "is missing; the audit trail keeps why the policy takes effect nevertheless"
        message = warning(then, policy.target_accuracy) or ""
        raise InvalidRequest(message, [FieldFault("/reason", detail)])


def _check(change: PolicyChange) -> None:
    faults = list(change.faults())
    if faults:
        raise InvalidRequest("The policy cannot take effect like this.", faults)


def _recent(
    transaction: Transaction, policy: Policy, segment: str | None = None
) -> list[CheckedDocument]:
    evidence = transaction.evidence.recent(RECENT, with_content=True)
    return of_segment(evidence, policy, segment)


def _seconds(
    transaction: Transaction, evidence: Sequence[CheckedDocument], segment: Segment
) -> float | None:
    """Return the mean time per review since the day of the oldest document."""
    if not evidence:
        return None
    since = min(each.created_at for each in evidence).astimezone(UTC).date()
    return mean_seconds(transaction.reports(segment).review_days(since))


def _preview_faults(threshold: float | None, target: float | None) -> list[FieldFault]:
    faults = []
    if threshold is not None and target is not None:
        faults.append(FieldFault("/target_accuracy", "stands beside a threshold; send one of them"))
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        faults.append(FieldFault("/threshold", f"is {threshold}; it must lie between 0 and 1"))
    if target is not None and not 0.0 < target < 1.0:
        faults.append(
            FieldFault(
                "/target_accuracy", f"is {target}; it must lie between 0 and 1, both excluded"
            )
        )
    return faults
