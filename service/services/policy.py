"""Read, change and preview the policy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.certification import Certification, Scorer
from setwise.service.domain.errors import FieldFault, InvalidRequest, StaleVersion
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.labels.tree import nearest_parents
from setwise.service.domain.policy import (
    Gate,
    Policy,
    PolicyChange,
    ThresholdMode,
    why_certificate_ends,
)
from setwise.service.domain.routing.audits import audited_from
from setwise.service.domain.routing.rules import ParentsRule, read_rules
from setwise.service.domain.routing.segments import Segment
from setwise.service.services.analysis.advice import misses, warning
from setwise.service.services.analysis.forecast import of_segment, under
from setwise.service.services.analysis.over_time import mean_seconds
from setwise.service.services.analysis.strata import LEAST_CONFIDENCES
from setwise.service.services.analysis.what_if import RECENT, WhatIf, advise_on, hold_against
from setwise.service.services.audit_trail import Recorded
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
            new = _still_retested(new, old)
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
                after = _with_parents(transaction, replace(after, rules=new_rules))
            if threshold is not None:
                after = replace(
                    after, threshold_mode=ThresholdMode.FIXED, fixed_threshold=threshold
                )
            if target_accuracy is not None:
                after = replace(after, target_accuracy=target_accuracy, fixed_threshold=None)
            if tried:
                unproved = _unproved(after, before.gates if gate is None else [gate])
                scorer = transaction.certifications.serving()
                certificate_ends = why_certificate_ends(
                    before, certified(transaction, unproved, scorer)
                )
                after = unproved if needed else after
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


def certified(transaction: Transaction, policy: Policy, scorer: Scorer | None) -> Policy:
    """Return the policy with each gate's newest certificate that proves its target.

    A certificate holds for the documents that it was issued for: see `Gate.is_covered_by`.
    A gate without such a certificate keeps what it has, unless its documents are others now.

    ``scorer``: The model and calibrator that serve now; None before the first prediction.
    """
    if not policy.certified or scorer is None:
        return policy
    for gate in policy.gates:
        proof = _proof(transaction, gate, scorer)
        if proof is not None:
            proved = replace(
                gate.state,
                threshold=proof.at_least(policy.confidence_floor),
                certificate_id=proof.id,
                certified_for=scorer,
            )
            policy = _covering(policy.with_gate(proved), proof)
        elif _is_about_others(transaction, gate):
            policy = _unproved(policy, [gate])
    return policy


def aimed(transaction: Transaction, policy: Policy, scorer: Scorer | None) -> Policy:
    """Return the policy with the confidence from which each gate audits at the higher rate.

    A scorer's confidences set it once, and audits have no part in it. So within one version of what
    decides, each of the two strata is sampled alike. Until there are enough confidences, there is
    one rate.

    ``scorer``: The model and calibrator that serve now; None before the first prediction.
    """
    for gate in policy.gates:
        state = gate.state
        if scorer is None or not gate.audits.two_rates or state.audited_for == scorer:
            continue
        stream = transaction.certifications.stream(scorer, limit=RECENT, segment=gate.segment)
        if len(stream) >= LEAST_CONFIDENCES:
            start = audited_from([each.confidence for each in stream], policy.target_accuracy)
            aimed_at = replace(state, audited_from=start, audited_for=scorer)
            policy = policy.with_gate(aimed_at)
    return policy


def _unproved(policy: Policy, gates: Sequence[Gate]) -> Policy:
    """Return the policy without thresholds and certificates of these gates' own."""
    for gate in gates:
        state = replace(gate.state, threshold=None, certificate_id=None, certified_for=None)
        policy = policy.with_gate(state)
    return policy


def _with_parents(transaction: Transaction, policy: Policy) -> Policy:
    """Return the policy with its rules on parents as the catalogue makes them now."""
    if not any(isinstance(rule, ParentsRule) for rule in policy.rules):
        return policy
    parents = nearest_parents(transaction.labels.all())
    rules = (
        replace(rule, parents=parents) if isinstance(rule, ParentsRule) else rule
        for rule in policy.rules
    )
    return replace(policy, rules=tuple(rules))


def _covering(policy: Policy, proof: Certification) -> Policy:
    """Return the policy with the values of `OTHER` that a proof speaks of, if it is about them."""
    values = proof.evidence.values
    if values is None:
        return policy
    return replace(policy, segment_by=replace(policy.segment_by, covers=values))


def _proof(transaction: Transaction, gate: Gate, scorer: Scorer) -> Certification | None:
    trip = transaction.breakers.newest_trip(gate.key)
    for proof in transaction.certifications.proved(scorer, gate.key):
        if trip is not None and proof.id < trip.id:
            break  # a trip of the breaker invalidates older certificates
        then = transaction.policies.get(proof.policy_version).gate_of(gate.key)
        if (
            proof.at_least(gate.policy.confidence_floor) is not None
            and proof.covers(gate.policy.target_accuracy, gate.risk)
            and gate.is_covered_by(then)
        ):
            return proof
    return None


def _is_about_others(transaction: Transaction, gate: Gate) -> bool:
    """Return whether a gate's certificate was issued for other documents.

    `OTHER` has other documents once one of their values is listed.
    """
    proof = transaction.certifications.get(gate.state.certificate_id or "")
    if proof is None:
        return False
    then = transaction.policies.get(proof.policy_version).gate_of(gate.key)
    return then.segment != gate.segment


def adopt(
    transaction: Transaction, scorer: Scorer | None, *, version: str, now: datetime
) -> Policy:
    """Put a scorer's newest certificates into force; return the policy in force.

    If the catalogue has other parents since, its rules on parents change, which ends certificates.

    ``version``: Id of the policy's new version, if there is one.
    """
    policy = transaction.policies.current()
    adopted = _with_parents(transaction, policy)
    if adopted.rules != policy.rules and policy.certified:
        adopted = _unproved(adopted, adopted.gates)
    adopted = aimed(transaction, certified(transaction, adopted, scorer), scorer)
    if _decides_alike(adopted, policy):
        return policy
    adopted = _still_retested(adopted, policy)
    new = replace(adopted, version=version, created_at=now, created_by=SYSTEM.id)
    transaction.policies.add(new, replacing=policy.version)
    return new


def _decides_alike(one: Policy, other: Policy) -> bool:
    return (
        one.rules == other.rules
        and _certificates(one) == _certificates(other)
        and _aims(one) == _aims(other)
    )


def _certificates(policy: Policy) -> list[str | None]:
    return [state.certificate_id for state in policy.states]


def _aims(policy: Policy) -> list[Scorer | None]:
    return [state.audited_for for state in policy.states]


def _still_retested(new: Policy, old: Policy) -> Policy:
    """Return the new policy with thresholds no lower than a retest left them.

    If a floor had raised one, the next retest brings it down.
    """
    for gate in new.gates:
        state, before = gate.state, old.gate_of(gate.key).state
        same = state.certificate_id is not None and state.certificate_id == before.certificate_id
        if same and before.threshold is not None and state.threshold is not None:
            new = new.with_gate(replace(state, threshold=max(state.threshold, before.threshold)))
    return new


def _with_gates(
    transaction: Transaction, change: PolicyChange, policy: Policy, old: Policy
) -> Policy:
    """Return the policy of a change with the segments so far and the trips in force.

    Its rules on parents are those that the catalogue makes now.
    """
    policy = _with_parents(transaction, policy)
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
