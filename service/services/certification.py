"""Find the threshold that audits prove, store evidence, and activate it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.certification import (
    Arrivals,
    AuditPace,
    Certification,
    CertificationOutlook,
    NextAttempt,
    Score,
    Scorer,
)
from setwise.service.domain.certification.proofs import bets_since, gather
from setwise.service.domain.effort import Effort, hours_of
from setwise.service.domain.errors import (
    CertificationNotFound,
    FieldFault,
    InvalidRequest,
    NotEnoughReviews,
    StaleVersion,
)
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.jobs import Job
from setwise.service.domain.labels.tree import wrong_sets
from setwise.service.domain.models import CertificationCandidate, ModelVersion
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.routing.audits import READING_TIME, Lottery
from setwise.service.domain.routing.segments import ALL, OTHER, value_of
from setwise.service.domain.text import Page, check_page
from setwise.service.services.analysis.proofs import (
    ALL_AT_ONCE,
    SCHEDULE,
    ProofAttempt,
    ProofProgress,
    ProofQuestion,
    Schedule,
    answer,
    once_each,
    retested,
    spent,
)
from setwise.service.services.analysis.strata import (
    LEAST_CONFIDENCES,
    MOST_STREAM,
    Divided,
    divided,
)
from setwise.service.services.jobs import Requesting
from setwise.service.services.models import known_model, scored_again
from setwise.service.services.policy import adopt, aimed, certified, take_up
from setwise.service.services.ports import ModelLoader, Progress
from setwise.service.stores.transaction import Transaction

CERTIFICATION = "certification"
"""The kind of job; only one runs at a time for what serves, or for one model."""

MOST_CONFIDENCES = 200_000
"""Most predictions, the newest, whose confidences are candidate thresholds."""

FEWEST_CONFIDENCES = 20
"""Fewest for an attempt by the schedule from audits of documents that others answered."""

OUTLOOK_CONFIDENCES = 5_000
"""Most predictions, the newest, whose confidences say how many audits the first attempt needs."""

MOST_UNAUDITED = 5_000
"""Most unaudited documents that a model scores before it serves: they set the thresholds."""

BLOCK = 200

_LATELY = timedelta(weeks=4)  # whose documents say how many come a week


@dataclass(frozen=True)
class Certifications(Requesting):
    """Attempts to prove a threshold for a model and calibrator, from adjudicated audits.

    All attempts for one model share the policy's risk, with any of its calibrators, because each
    uses the audits of the earlier ones. Looks by the schedule share that of their family, attempts
    on demand a reserve. However many there are, the probability of a wrong certificate stays below
    the risk. After a drift alarm all evidence is new, so the risk is too.
    """

    lottery: Lottery
    """Determines which audits were drawn for a second reading."""
    loader: ModelLoader
    """Loads models that do not serve."""
    schedule: Schedule = SCHEDULE
    """When to try automatically."""
    reading_time: timedelta = READING_TIME
    """After it, an audit that is not finished counts as wrong."""

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

    def outlooks(
        self, caller: Caller, rate: float | None = None, target: float | None = None
    ) -> list[CertificationOutlook]:
        """Return how many more audits each segment needs, and how long they take.

        There is none before the first prediction. Raises `InvalidRequest` if a number is out of
        range.

        ``rate``: An audit rate, in (0, 1], to compare with the policy's.
        ``target``: An accuracy to prove, in (0, 1), instead of the policy's.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        faults = []
        if rate is not None and not 0.0 < rate <= 1.0:
            faults.append(FieldFault("/query/rate", f"is {rate}; it must be above 0 and at most 1"))
        if target is not None and not 0.0 < target < 1.0:
            faults.append(FieldFault("/query/target", f"is {target}; it must lie between 0 and 1"))
        if faults:
            raise InvalidRequest("There is no such outlook.", faults)
        with self.begin(read_only=True, snapshot=True) as transaction:
            scorer = transaction.certifications.serving()
            if scorer is None:
                return []
            drawn = _drawn(transaction, scorer)
            questions = (
                self._question(transaction, scorer, key, drawn)
                for key in _keys(transaction.policies.current())
            )
            return [self._outlook(transaction, question, rate, target) for question in questions]

    def next_attempts(self, caller: Caller) -> list[NextAttempt]:
        """Return what an attempt now would test and spend, for each segment.

        There is none before the first prediction.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return self._next_attempts(transaction)

    def _next_attempts(
        self, transaction: Transaction, segment: str | None = None
    ) -> list[NextAttempt]:
        scorer = transaction.certifications.serving()
        keys = _keys(transaction.policies.current(), segment) if scorer else []
        return [self._next(transaction, scorer, key) for key in keys if scorer]

    def _next(self, transaction: Transaction, scorer: Scorer, key: str | None) -> NextAttempt:
        question = self._question(transaction, scorer, key)
        gate, gathered = question.gate, question.gathered
        before = last_attempt(transaction, gate, scorer)
        asked = self._asked(question, before)
        look, half = asked.look, question.on_demand.risk
        new = gathered.drawn - (0 if before is None else before.evidence.n_drawn)
        same = before is not None and (
            new == 0
            and (before.target_accuracy, before.risk) == (gate.policy.target_accuracy, gate.risk)
            and (before.evidence.unfinished, before.evidence.undecided)
            == (gathered.unfinished, gathered.undecided)
        )
        return NextAttempt(
            segment=gate.key,
            audits=gathered.drawn if look is None or look.n is None else look.n,
            new_audits=max(new, 0),
            reserve=half if look is None else 0.0,
            left=half if look is None else 2.0 * half,
            missing=question.missing(self.schedule, before),
            gains=look is not None or (gathered.drawn > 0 and not same),
        )

    def _asked(
        self, question: ProofQuestion, before: Certification | None, *, at_once: bool = False
    ) -> ProofQuestion:
        """Return what an attempt on demand asks.

        That is the look by the schedule if it is due, the last look again if more is known of its
        audits, or else a test that spends from the reserve.
        """
        due = question.due(self.schedule, before, at_once=at_once)
        return due or question.again or question.on_demand

    def in_force(self, caller: Caller) -> list[Certification]:
        """Return the certificates that let label sets be sent now."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            gates = transaction.policies.current().gates
            ids = [gate.state.certificate_id for gate in gates if gate.sends]
            proofs = [transaction.certifications.get(each or "") for each in ids]
        return [proof for proof in proofs if proof is not None]

    def progress(
        self, transaction: Transaction, scorer: Scorer, keys: Sequence[str | None]
    ) -> list[ProofProgress]:
        """Return how far each segment of what serves is on the way to its next attempt."""
        drawn = _counted(transaction, scorer)
        questions = (self._question(transaction, scorer, key, drawn, draws=False) for key in keys)
        return [self._progress(transaction, question) for question in questions]

    def _progress(self, transaction: Transaction, question: ProofQuestion) -> ProofProgress:
        gate, audits = question.gate, question.gathered.drawn
        newest = last_attempt(transaction, gate, question.scorer)
        missing = question.missing(self.schedule, newest)
        return ProofProgress(audits, missing if gate.policy.certified else None, newest)

    def _outlook(
        self,
        transaction: Transaction,
        question: ProofQuestion,
        rate: float | None,
        target: float | None,
    ) -> CertificationOutlook:
        gate, scorer = question.gate, question.scorer
        other = target is not None and target != gate.policy.target_accuracy
        progress, arrivals = (
            self._progress(transaction, question),
            self._arrivals(transaction, question),
        )
        before, missing = progress.newest, None if other else progress.missing
        if target is not None:
            gate = replace(gate, policy=replace(gate.policy, target_accuracy=target))
        if before is None or other:
            needed, reason = self._expected(transaction, replace(question, gate=gate))
            if needed is not None:
                needed = arrivals.targeted(needed, gate.certification_rate(scorer))
        else:
            needed, reason = progress.needed, before.reason
        further = None if needed is None else max(needed - progress.audits, 0)
        rates = [gate.certification_rate(scorer), *([] if rate is None else [rate])]
        state, aim = gate.state, gate.policy.target_accuracy
        holds = state.certificate_id is not None and gate.sends and state.certified_for == scorer
        # An attempt that proves nothing does not end the certificate in force.
        holds = holds and aim <= question.gate.policy.target_accuracy
        certified = holds or (before is not None and before.covers(aim, gate.risk))
        further = None if certified else further
        awaited = None if further is None else max(further, missing or 0)
        each_s = self._blind_reading(transaction)
        return CertificationOutlook(
            segment=value_of(gate.key),
            target=aim,
            certified=certified,
            reason=None if certified else reason,
            further_audits=further,
            hours=None if further is None else hours_of(further, each_s),
            next_attempt_in=missing,
            documents_a_week=arrivals.documents,
            paces=()
            if awaited is None
            else tuple(AuditPace.at(each, arrivals, awaited, each_s) for each in rates),
        )

    def _blind_reading(self, transaction: Transaction) -> float | None:
        """Return the mean seconds of a recent blind reading; None without any."""
        counts = transaction.reports().readings((self.now() - _LATELY).date())
        return Effort.of(0, counts).blind.each_s

    def _arrivals(self, transaction: Transaction, question: ProofQuestion) -> Arrivals:
        """Return how many documents of a gate come a week, on average of the last ones."""
        gate, now = question.gate, self.now()
        documents, rest, first = transaction.certifications.arrivals(
            now - _LATELY,
            gate.policy.confidence_floor or 0.0,
            gate.segment,
            below=gate.audited_from(question.scorer),
        )
        weeks = max((now - (first or now)) / timedelta(weeks=1), 1.0 / 7.0)
        return Arrivals(documents / weeks, rest / weeks, gate.audits.rest_rate or 0.0)

    def _expected(
        self, transaction: Transaction, question: ProofQuestion
    ) -> tuple[int | None, str | None]:
        """Return how many audits the first attempt needs, by the confidences, or why none would do.

        A look at the audits would be an attempt.
        """
        predicted = transaction.certifications.unaudited(
            question.scorer, limit=OUTLOOK_CONFIDENCES, segment=question.gate.segment
        )
        nothing = gather([], {}, rules=question.gate.policy.rules, read_by=self.now())
        needed = answer(
            replace(question, gathered=nothing, look=ALL_AT_ONCE), predicted
        ).further_audits
        if needed is not None:
            return needed, None
        reread = question.gate.audits.gold_reread_rate
        return None, "below-target" if reread else "miss-rate-unknown"

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
            _keys(transaction.policies.current(), segment)
            attempts = [] if candidate else self._next_attempts(transaction, segment)
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
        attempts = self._try(scorer, _keys(policy, segment), requested_by, always=always)
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
            scorer, _keys(policy), requested_by, always=always, at_once=always, premises=premises
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
        self.list_segments()
        self.aim_audits()
        self.retest()
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            scorer = transaction.certifications.serving()
        if not policy.certified or scorer is None:
            return []
        return self._try(scorer, _keys(policy), SYSTEM.id, always=False)

    def _try(
        self,
        scorer: Scorer,
        keys: Sequence[str | None],
        requested_by: str,
        *,
        always: bool,
        at_once: bool = False,
        premises: Mapping[str, Any] = MappingProxyType({}),  # Any: of the evidence
    ) -> list[Certification]:
        """Make attempts for these segments, always or where the schedule makes a look.

        ``at_once``: Begin new families, however few audits there are.
        """
        attempts = []
        for key in keys:
            with self.begin(read_only=True) as transaction:
                asked = self._question(transaction, scorer, key)
                before = last_attempt(transaction, asked.gate, scorer)
                due = asked.due(self.schedule, before, at_once=at_once)
                if due is None and not always:
                    continue
                question = due or self._asked(asked, before)
                predicted = _predicted(transaction, question)
                few = len(predicted) < FEWEST_CONFIDENCES
                if few and due is not None and due.gathered.other and not (always or at_once):
                    continue  # audits of others came with the model; a look is not repeated
                strata = _divided(transaction, question)
                values = _covers(transaction, question)
            evidence = replace(answer(question, predicted, strata), values=values, **premises)
            attempts.append(
                self._store(ProofAttempt(self.new_id(), question, evidence), requested_by)
            )
        return attempts

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

    def retest(self) -> Policy | None:
        """Raise a threshold in force if audits since its certificate speak against it.

        Only thresholds that the certificate proves are put into force, so this spends no risk. If
        the audits speak against all of them, the highest stays until the breaker trips. Returns the
        new policy, or None if nothing changes.
        """
        with self.begin(read_only=True) as transaction:
            keys = _keys(transaction.policies.current())
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
            audits = self._reread(transaction, _of_gate(gate, audited))
        proved = proof.proved(policy.confidence_floor)
        bets = bets_since(audits, proof.id, self.now() - self.reading_time)
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

    def activated(
        self,
        transaction: Transaction,
        scorer: Scorer,
        scores: Sequence[Score],
        requested_by: str,
    ) -> Policy:
        """Put certificates of what serves from now on into force; return the policy.

        An attempt is made at once if a certificate is in force, so that sending goes on if the
        audits of the same documents prove a threshold of the new scorer, too; otherwise by the
        schedule.

        ``scores``: The scorer's answers to documents that others answered.
        """
        transaction.policies.lock()
        transaction.certifications.add_scores(scores)
        policy = transaction.policies.current()
        if policy.certified:
            for key in _keys(policy):
                question = self._question(transaction, scorer, key)
                gate = question.gate
                before = last_attempt(transaction, gate, scorer)
                sends = gate.sends and gate.state.certified_for != scorer
                due = question.due(self.schedule, before, at_once=before is None and sends)
                if due is not None:
                    strata = _divided(transaction, due)
                    evidence = answer(due, _predicted(transaction, question), strata)
                    evidence = replace(evidence, values=_covers(transaction, question))
                    self._add(transaction, ProofAttempt(self.new_id(), due, evidence), requested_by)
        return adopt(transaction, scorer, version=self.new_id(), now=self.now())

    def _question(
        self,
        transaction: Transaction,
        scorer: Scorer,
        key: str | None,
        drawn: Sequence[CheckedDocument] | None = None,
        *,
        draws: bool = True,
    ) -> ProofQuestion:
        """Return what to prove for a segment.

        ``drawn``: The scorer's audits if at hand.
        ``draws``: Whether audits say what was drawn for their second reading: a proof needs it.
        """
        policy, store = transaction.policies.current(), transaction.certifications
        gate = policy.gate_of(key)
        every = _of_gate(gate, _drawn(transaction, scorer) if drawn is None else drawn)
        alarm = _alarm(transaction, gate)
        audits = [audit for audit in every if alarm is None or audit.id > alarm]
        if draws:
            audits = self._reread(transaction, audits)
        policies = transaction.policies.of(audit.policy_version for audit in audits)
        history = store.since(scorer.model_version, after=alarm)
        paying = once_each(history)
        deciding = transaction.policies.of(attempt.policy_version for attempt in paying)
        elsewhere, left = spent(
            policy, [(deciding[each.policy_version], each.evidence.risk) for each in paying]
        )
        gathered = gather(
            audits,
            {
                version: then.rules
                for version, then in policies.items()
                if gate.counts_audits_of(then)
            },
            rules=policy.rules,
            read_by=self.now() - self.reading_time,
        )
        question = ProofQuestion(
            gate=gate,
            scorer=scorer,
            attempt=store.attempts(scorer.model_version) + 1,
            place=1,
            gathered=gathered,
            set_aside=len(every) - len(audits),
            elsewhere=elsewhere,
            left=left,
            unseen=any(policy.gate_of(audit.segment).unseen for audit in audits),
        )
        return question.after([attempt for attempt in history if attempt.segment == gate.key])

    def _reread(
        self, transaction: Transaction, drawn: Sequence[CheckedDocument]
    ) -> list[CheckedDocument]:
        """Return audits with the chance of a second reading and what was drawn."""
        policies = transaction.policies.of(each.policy_version for each in drawn)
        return [
            each
            if each.reread_draw is not None
            else each._replace(
                reread_rate=policies[each.policy_version].audits.gold_reread_rate,
                reread_draw=self.lottery.reread(each.client_id, each.name),
            )
            for each in drawn
        ]

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


def _keys(policy: Policy, segment: str | None = None) -> list[str | None]:
    """Return the keys of the segments to try: of the one with this value, or of all."""
    gates = policy.gates if segment is None else [policy.gate_named(segment)]
    return [gate.key for gate in gates]


def _drawn(transaction: Transaction, scorer: Scorer) -> list[CheckedDocument]:
    store = transaction.evidence
    return sorted([*store.audited(scorer), *store.held_back(scorer)], key=lambda audit: audit.id)


def _counted(transaction: Transaction, scorer: Scorer) -> list[CheckedDocument]:
    """Return the same without what only a proof reads, unless it decides which of them count."""
    store = transaction.evidence
    if not store.others_answered(scorer):
        audits = store.counted(scorer)
        gate_of = transaction.policies.current().gate_of_stored
        if all(gate_of(audit.segment, None) is not None for audit in audits):
            return audits
    return _drawn(transaction, scorer)


def _of_gate(gate: Gate, audits: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return the audits of the documents that a gate decides on."""
    return [audit for audit in audits if gate.has(audit.segment, audit.metadata)]


def _alarm(transaction: Transaction, gate: Gate) -> str | None:
    """Return the id of the last alarm after which all evidence of a gate is new."""
    newest = transaction.breakers.newest_trip
    alarms = [newest(key, sets_evidence_aside=True) for key in {None, gate.key}]
    of_rest = newest(gate.policy.gates[-1].key, sets_evidence_aside=True)
    then = of_rest and transaction.policies.get(of_rest.policy_version)
    # A segment that was not listed then was among those that it was about.
    alarms += [of_rest] if then and gate.segment.value not in then.values else []
    return max((alarm.id for alarm in alarms if alarm is not None), default=None)


def _covers(transaction: Transaction, question: ProofQuestion) -> tuple[str, ...] | None:
    """Return the values that a proof for `OTHER` speaks of; None for other segments."""
    segment = question.gate.segment
    return tuple(transaction.certifications.values(segment)) if segment.value == OTHER else None


def _serving(transaction: Transaction) -> Scorer:
    scorer = transaction.certifications.serving()
    if scorer is None:
        raise NotEnoughReviews("Nothing has been predicted yet, so there is nothing to certify.")
    return scorer


def last_attempt(transaction: Transaction, gate: Gate, scorer: Scorer) -> Certification | None:
    """Return the last attempt that speaks of what a gate sends, if any."""
    newest = transaction.certifications.newest(scorer, gate.key)
    trip = transaction.breakers.newest_trip(gate.key)
    if newest is None or (trip is not None and newest.id < trip.id):
        return None
    then = transaction.policies.get(newest.policy_version).gate_of(gate.key)
    return newest if gate.is_covered_by(then) else None


def _to_score(
    transaction: Transaction, scorer: Scorer, since: datetime | None, *, unread: bool
) -> list[str]:
    """Return the ids of documents to score: evidence, oldest first, then others."""
    proving, others = transaction.certifications.of_others(
        scorer, since=since, limit=MOST_UNAUDITED, unread=unread
    )
    return [*proving, *others]


def _predicted(transaction: Transaction, question: ProofQuestion) -> list[float]:
    """Return confidences of unaudited predictions; there are many, so read them last.

    While a segment has few, those of all documents set its thresholds: the proof allows any.
    """
    unaudited = transaction.certifications.unaudited
    segment = question.gate.segment
    confidences = unaudited(question.scorer, limit=MOST_CONFIDENCES, segment=segment)
    if len(confidences) >= LEAST_CONFIDENCES:
        return confidences
    return unaudited(question.scorer, limit=MOST_CONFIDENCES)


def _divided(transaction: Transaction, question: ProofQuestion) -> Divided | None:
    """Return the stream that audits at two rates came from; None with one rate."""
    store, scorer, gate = transaction.certifications, question.scorer, question.gate
    return divided(
        scorer,
        gate,
        question.gathered.audits,
        lambda: store.stream(scorer, limit=MOST_STREAM, segment=gate.segment),
        transaction.policies.of,
    )
