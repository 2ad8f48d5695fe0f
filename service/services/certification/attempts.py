"""Find the threshold that audits prove, store evidence, and activate it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.certification import (
    Certification,
    Score,
    Scorer,
)
from setwise.service.domain.certification.proofs import bets_since
from setwise.service.domain.errors import (
    CertificationNotFound,
    FieldFault,
    InvalidRequest,
    NotEnoughReviews,
    StaleVersion,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.labels.tree import wrong_sets
from setwise.service.domain.models import CertificationCandidate, ModelVersion
from setwise.service.domain.policy import Policy
from setwise.service.domain.text import Page, check_page
from setwise.service.services.analysis.proofs import (
    ProofAttempt,
    Schedule,
    answer,
    retested,
)
from setwise.service.services.certification.in_force import adopt
from setwise.service.services.certification.questions import (
    Questions,
    confidences_of,
    keys_of,
    last_attempt,
    of_gate,
    strata_of,
    values_of,
)
from setwise.service.services.jobs import Requesting
from setwise.service.services.models import known_model, scored_again
from setwise.service.services.policy import Policies
from setwise.service.services.ports import ModelLoader, Progress
from setwise.service.stores.transaction import Transaction

CERTIFICATION = "certification"
"""The kind of job; only one runs at a time for what serves, or for one model."""

FEWEST_CONFIDENCES = 20
"""Fewest for an attempt by the schedule from audits of documents that others answered."""

MOST_UNAUDITED = 5_000
"""Most unaudited documents that a model scores before it serves: they set the thresholds."""

BLOCK = 200

MOST_TRIES = 3
"""Most times that a proof is tried if the policy keeps changing."""


@dataclass(frozen=True)
class Certifications(Requesting):
    """Attempts to prove a threshold for a model and calibrator, from adjudicated audits.

    All attempts for one model share the policy's risk, with any of its calibrators, because each
    uses the audits of the earlier ones. Looks by the schedule share that of their family, attempts
    on demand a reserve. However many there are, the probability of a wrong certificate stays below
    the risk. After a drift alarm all evidence is new, so the risk is too.
    """

    questions: Questions
    loader: ModelLoader
    """Loads models that do not serve."""
    policies: Policies

    def by(self, schedule: Schedule) -> Self:
        """Return the same service with another schedule."""
        return replace(self, questions=replace(self.questions, schedule=schedule))

    def get(self, caller: Caller, certification_id: str) -> Certification:
        """Return an attempt with its evidence; raises `CertificationNotFound`."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            attempt = transaction.certifications.get(certification_id)
        if attempt is None:
            raise CertificationNotFound(f"No certification has the id {certification_id!r}.")
        return attempt

    def page(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[Certification]:
        """Return a page of attempts, newest first."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.certifications.page(after=after, limit=limit)

    def in_force(self, caller: Caller) -> list[Certification]:
        """Return the certificates that let label sets be sent now."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            gates = transaction.policies.current().gates
            ids = [gate.state.certificate_id for gate in gates if gate.sends]
            proofs = [transaction.certifications.get(each or "") for each in ids]
        return [proof for proof in proofs if proof is not None]

    def request(
        self,
        caller: Caller,
        candidate: CertificationCandidate | None = None,
        segment: str | None = None,
    ) -> Job:
        """Queue a certification job; return the unfinished one if there is one.

        Raises `ModelNotFound` if the model does not exist; `InvalidRequest` if nothing says which
        documents it was not trained on, there is no such segment, or nothing has changed since the
        last attempt: another one would spend risk and find the same.

        ``candidate``: By default, what serves.
        ``segment``: Of what serves; by default all that have enough audits.
        """
        caller.require(Permission.ADMINISTER)
        stated = {} if candidate is None else dict(vars(candidate))
        if segment is not None and candidate is not None:
            fault = FieldFault("/segment", "goes with what serves, not with a model_id")
            raise InvalidRequest("The certification cannot run like this.", [fault])
        if segment is not None:
            stated["segment"] = segment
        key = CERTIFICATION if candidate is None else f"{CERTIFICATION}/{candidate.model_id}"
        with self.begin() as transaction:
            if candidate is not None:
                candidate.since(known_model(transaction, candidate.model_id))
            keys_of(transaction.policies.current(), segment)
            attempts = [] if candidate else self.questions.next_attempts(transaction, segment)
            if attempts and not any(attempt.gains for attempt in attempts):
                raise InvalidRequest(
                    "No audit is new since the last attempt, so another would spend risk and find "
                    "the same; wait for new audits."
                )
            return self._request(transaction, caller, CERTIFICATION, key, **stated)

    def certify(
        self, requested_by: str = SYSTEM.id, segment: str | None = None
    ) -> list[Certification]:
        """Store and return a new attempt; activate a proved threshold.

        If no look is due by the schedule, it spends from a reserve. With segments, attempts are
        made where one is due.

        Raises `NotEnoughReviews` if nothing has been predicted yet; `InvalidRequest` if no segment
        has enough audits, or there is no such segment; `StaleVersion` if the policy has changed in
        the meantime; try again.

        ``segment``: Make an attempt for the segment with this value only, whatever its audits.
        """
        with self.begin(read_only=True) as transaction:
            policy, scorer = transaction.policies.current(), _serving(transaction)
        always = policy.gate_for(segment) is not None
        attempts = self._try(scorer, keys_of(policy, segment), requested_by, always=always)
        if not attempts:
            raise InvalidRequest(
                "No segment has enough audits for an attempt; name one to try nevertheless."
            )
        return attempts

    def certify_model(
        self, candidate: CertificationCandidate, report: Progress, requested_by: str = SYSTEM.id
    ) -> list[Certification]:
        """Store and return attempts for a model on the audits of others.

        It scores the kept documents that were drawn to certify, or would have been had they not
        been held back, and some that were not. Nothing comes into force while another model serves.

        Raises `ModelNotFound` or `ModelDamaged` if the model does not exist, or does not load;
        `InvalidRequest` if nothing says which documents it was not trained on; `StaleVersion` if
        the policy has changed in the meantime; try again.
        """
        report(0.0, "loading the model")
        with self.begin(read_only=True) as transaction:
            model = known_model(transaction, candidate.model_id)
        since = candidate.since(model)
        scorer = self.score_audits(model, report, since=since)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            # An earlier statement let documents count that still do.
            stated = transaction.certifications.stated_untrained(scorer)
        premises: dict[str, Any] = {"trained_on_audits": False}
        if since is not None and not stated:
            premises = {"documents_since": since}
        always = policy.whole is not None
        # Nothing shows what audits say of a model before it serves: its first look may come now.
        attempts = self._try(
            scorer, keys_of(policy), requested_by, always=always, at_once=always, premises=premises
        )
        if not attempts:
            raise InvalidRequest("No segment has enough audits for an attempt.")
        return attempts

    def score_audits(
        self,
        model: ModelVersion,
        report: Callable[[float, str], None],
        *,
        since: datetime | None = None,
        taught_by_answers: bool = False,
    ) -> Scorer:
        """Have a model score kept documents that prove something about others; return its name.

        Raises `ModelDamaged` if it does not load.

        ``since``: Earlier documents are left out.
        ``taught_by_answers``: Whether the answers here taught it. It is surer of those documents
        than of others, so they do not set its thresholds.
        """
        loaded = self.loader.load(model)
        scorer = Scorer(model.version, loaded.calibrator_version)
        with self.begin(read_only=True) as transaction:
            waiting = _to_score(transaction, scorer, since, unread=taught_by_answers)
        for start in range(0, len(waiting), BLOCK):
            report(start / len(waiting), f"{start} of {len(waiting)} documents")
            with self.begin(read_only=True) as transaction:
                stored = transaction.predictions.several(waiting[start : start + BLOCK])
            scores = [
                Score(document.id, scorer, scored.best.labels, scored.best.confidence, self.now())
                for document, scored in scored_again(loaded, stored)
                if not scored.out_of_domain  # it would never send these
            ]
            with self.begin() as transaction:
                transaction.certifications.add_scores(scores)
        return scorer

    def certify_if_due(self) -> list[Certification]:
        """Certify where the policy needs a certificate and enough audits are new.

        New segments are listed, audits are aimed, and the certificates in force are tested again
        first.
        """
        self.policies.list_segments()
        self.policies.aim_audits()
        self.retest()
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            scorer = transaction.certifications.serving()
        if not policy.certified or scorer is None:
            return []
        return self._try(scorer, keys_of(policy), SYSTEM.id, always=False)

    def _try(
        self,
        scorer: Scorer,
        keys: Sequence[str | None],
        requested_by: str,
        *,
        always: bool,
        at_once: bool = False,
        takes_over: bool = False,
        premises: Mapping[str, Any] = MappingProxyType({}),  # Any: of the evidence
    ) -> list[Certification]:
        """Make attempts for these segments, always or where the schedule makes a look.

        ``at_once``: Begin new families, however few audits there are.
        ``takes_over``: Do so for a scorer that is about to serve where another one sends.
        """
        attempts, expected = [], always or at_once or takes_over
        for key in keys:
            with self.begin(read_only=True) as transaction:
                asked = self.questions.of(transaction, scorer, key)
                before = last_attempt(transaction, asked.gate, scorer)
                first = before is None and asked.gate.sends_for_another(scorer)
                due = asked.due(
                    self.questions.schedule, before, at_once=at_once or (takes_over and first)
                )
                if due is None and not always:
                    continue
                question = due or self.questions.on_demand(asked, before)
                predicted = confidences_of(transaction, question)
                few = len(predicted) < FEWEST_CONFIDENCES
                if few and due is not None and due.gathered.other and not expected:
                    continue  # audits of others came with the model; a look is not repeated
                strata = strata_of(transaction, question)
                values = values_of(transaction, question)
            evidence = replace(answer(question, predicted, strata), values=values, **premises)
            attempts.append(
                self._store(ProofAttempt(self.new_id(), question, evidence), requested_by)
            )
        return attempts

    def retest(self) -> Policy | None:
        """Raise a threshold in force if audits since its certificate speak against it.

        Only thresholds that the certificate proves are put into force, so this spends no risk. If
        the audits speak against all of them, the highest stays until the breaker trips. Returns the
        new policy, or None if nothing changes.
        """
        with self.begin(read_only=True) as transaction:
            keys = keys_of(transaction.policies.current())
        policies = [self._retest(key) for key in keys]
        return next((policy for policy in reversed(policies) if policy is not None), None)

    def _retest(self, key: str | None) -> Policy | None:
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            gate = policy.gate_of(key)
            proof = transaction.certifications.get(gate.state.certificate_id or "")
            if proof is None or gate.tripped:
                return None
            audited = transaction.evidence.audited(proof.scorer)
            audits = self.questions.reread(transaction, of_gate(gate, audited))
        proved = proof.proved(policy.confidence_floor)
        bets = bets_since(audits, proof.id, self.now() - self.questions.reading_time)
        threshold = retested(proved, bets, policy.target_accuracy)
        if threshold is None or threshold == gate.threshold:
            return None
        changed = replace(
            policy.with_gate(replace(gate.state, threshold=threshold)),
            version=self.new_id(),
            created_at=self.now(),
            created_by=SYSTEM.id,
        )
        with self.begin() as transaction:
            transaction.policies.lock()
            if transaction.policies.current().version != policy.version:
                return None
            transaction.policies.add(changed, replacing=policy.version)
            self._note(
                transaction,
                SYSTEM,
                "policy.retested",
                changed.version,
                certificate_id=proof.id,
                threshold=threshold,
                replaced=gate.threshold,
                audits=len(bets),
                segment=gate.key,
            )
        return changed

    def prove_ahead(self, scorer: Scorer, scores: Sequence[Score], requested_by: str) -> None:
        """Make attempts for what is about to serve where a certificate is in force.

        So sending goes on if the audits of the same documents prove a threshold of it, too. Proofs
        take seconds, so they come before the transaction that has it serve, and lock nothing. If
        the policy changes all the time, the schedule makes these attempts later.

        ``scores``: The scorer's answers to documents that others answered.
        """
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
        if not (policy.certified and any(gate.sends_for_another(scorer) for gate in policy.gates)):
            return
        with self.begin() as transaction:
            transaction.certifications.add_scores(scores)
        for _ in range(MOST_TRIES):
            with suppress(StaleVersion):
                self._try(scorer, keys_of(policy), requested_by, always=False, takes_over=True)
                return

    def put_into_force(
        self, transaction: Transaction, scorer: Scorer, scores: Sequence[Score]
    ) -> Policy:
        """Put certificates of what serves from now on into force; return the policy.

        ``scores``: As those of `prove_ahead`.
        """
        transaction.certifications.add_scores(scores)
        return adopt(transaction, scorer, version=self.new_id(), now=self.now())

    def _store(self, attempt: ProofAttempt, requested_by: str) -> Certification:
        with self.begin() as transaction:
            transaction.policies.lock()
            certification = self._add(transaction, attempt, requested_by)
            serves = transaction.certifications.serving() == certification.scorer
            if certification.threshold is not None and serves:
                adopt(
                    transaction,
                    certification.scorer,
                    version=self.new_id(),
                    now=certification.created_at,
                )
        return certification

    def _add(
        self, transaction: Transaction, attempt: ProofAttempt, requested_by: str
    ) -> Certification:
        """Store an attempt while the policy is locked."""
        question, evidence = attempt.question, attempt.evidence
        gate, policy = question.gate, question.gate.policy
        if transaction.policies.current().version != policy.version:
            raise StaleVersion(
                "The policy changed while its threshold was being certified; certify again."
            )
        scorer = question.scorer
        audits = question.audits_of(evidence.n_drawn)
        known = ((each.labels, each.audited_set) for each in audits)
        wrong = wrong_sets(
            ((own, right) for own, right in known if right is not None),
            transaction.labels.parents(),
        )
        evidence = replace(evidence, wrong_sets=wrong.n, right_branch=wrong.right_branch)
        if transaction.certifications.attempts(scorer.model_version) >= question.attempt:
            raise StaleVersion("Another attempt has just spent this share of the risk; try again.")
        certification = Certification(
            id=attempt.id,
            scorer=scorer,
            policy_version=policy.version,
            target_accuracy=policy.target_accuracy,
            risk=gate.risk,
            segment=gate.key,
            attempt=question.attempt,
            threshold=evidence.threshold,
            reason=evidence.reason,
            further_audits=evidence.further_audits,
            evidence=evidence,
            requested_by=requested_by,
            created_at=self.now(),
        )
        transaction.certifications.add(certification)
        self._note(
            transaction,
            SYSTEM,
            "policy.certified" if evidence.certified else "policy.not_certified",
            certification.id,
            requested_by=requested_by,
            threshold=certification.threshold,
            reason=certification.reason,
            further_audits=certification.further_audits,
            attempt=certification.attempt,
            model_version=scorer.model_version,
            calibrator_version=scorer.calibrator_version,
            segment=gate.key,
        )
        return certification


def _serving(transaction: Transaction) -> Scorer:
    scorer = transaction.certifications.serving()
    if scorer is None:
        raise NotEnoughReviews("Nothing has been predicted yet, so there is nothing to certify.")
    return scorer


def _to_score(
    transaction: Transaction, scorer: Scorer, since: datetime | None, *, unread: bool
) -> list[str]:
    """Return the ids of documents to score: evidence, oldest first, then others."""
    proving, others = transaction.certifications.of_others(
        scorer, since=since, limit=MOST_UNAUDITED, unread=unread
    )
    return [*proving, *others]
