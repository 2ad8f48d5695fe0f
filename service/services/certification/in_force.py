"""Which certificate each gate of the policy has, and from where its audits are frequent."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.certification import Certification, Scorer
from setwise.service.domain.labels.tree import nearest_parents
from setwise.service.domain.policy import (
    Gate,
    Policy,
)
from setwise.service.domain.routing.audits import audited_from
from setwise.service.domain.routing.rules import ParentsRule
from setwise.service.services.analysis.strata import LEAST_CONFIDENCES
from setwise.service.services.analysis.what_if import RECENT
from setwise.service.stores.transaction import Transaction


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
            policy = unproved(policy, [gate])
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


def unproved(policy: Policy, gates: Sequence[Gate]) -> Policy:
    """Return the policy without thresholds and certificates of these gates' own."""
    for gate in gates:
        state = replace(gate.state, threshold=None, certificate_id=None, certified_for=None)
        policy = policy.with_gate(state)
    return policy


def with_parents(transaction: Transaction, policy: Policy) -> Policy:
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
    adopted = with_parents(transaction, policy)
    if adopted.rules != policy.rules and policy.certified:
        adopted = unproved(adopted, adopted.gates)
    adopted = aimed(transaction, certified(transaction, adopted, scorer), scorer)
    if _decides_alike(adopted, policy):
        return policy
    adopted = still_retested(adopted, policy)
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


def still_retested(new: Policy, old: Policy) -> Policy:
    """Return the new policy with thresholds no lower than a retest left them.

    If a floor had raised one, the next retest brings it down.
    """
    for gate in new.gates:
        state, before = gate.state, old.gate_of(gate.key).state
        same = state.certificate_id is not None and state.certificate_id == before.certificate_id
        if same and before.threshold is not None and state.threshold is not None:
            new = new.with_gate(replace(state, threshold=max(state.threshold, before.threshold)))
    return new
