"""The catalogue of labels: search it, propose labels, and decide on them.

Documents follow a renamed or merged label in blocks: the first one at once, the others in a job, so
that nobody waits for thousands of documents, and a killed worker goes on where it was.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.errors import (
    FieldFault,
    Forbidden,
    InvalidRequest,
    LabelNotFound,
    ModelUnavailable,
    NoModel,
    PredictionNotFound,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.labels import (
    FOLLOW_LABEL,
    FORGET_LABEL,
    LONGEST_LABEL,
    OFFERED,
    UNNAMED,
    Additions,
    Catalogue,
    CatalogueLabel,
    LabelChange,
    LabelLookup,
    LabelMatch,
    LabelMatches,
    LabelState,
    MissingLabels,
    check_change,
    check_removal,
    matching_labels,
    stands_for,
)
from setwise.service.domain.labels.lists import check_alike, read_label_list
from setwise.service.domain.labels.notes import LabelNote, read_label_notes
from setwise.service.domain.outcomes import sent_labels
from setwise.service.domain.policy import why_certificate_ends
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.routing.rules import parents_beside
from setwise.service.domain.text import name_faults
from setwise.service.domain.truth import AnswerFacts
from setwise.service.domain.webhooks import document_relabelled
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.certification.in_force import adopt
from setwise.service.services.jobs import Requesting
from setwise.service.services.ports import PredictorSource, Progress
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction
from setwise.spelling import spelled

DOCUMENTS_AT_ONCE = 50
"""Documents that follow in one transaction, while which nobody else writes on SQLite."""


class AddedLabels(NamedTuple):
    """What became of a list of labels."""

    added: Sequence[str]
    present: Sequence[str]
    """Labels of the list that were there already; a retired or proposed one is accepted."""


class ProposedLabel(NamedTuple):
    """A label that was proposed."""

    label: CatalogueLabel
    new: bool
    """Whether the proposal added it."""


@dataclass(frozen=True)
class TakesLabels(Recorded):
    """A service to which people give labels."""

    predictors: PredictorSource
    """Its active model has the usual labels."""

    def _resolved(
        self,
        transaction: Transaction,
        caller: Caller,
        prediction: Prediction,
        labels: Sequence[str],
        additions: Additions,
        *,
        faults: Sequence[FieldFault] = (),
        accepted: bool = False,
    ) -> tuple[str, ...]:
        """Return an answer's labels as they are stored; new ones enter the catalogue.

        Labels of the prediction may be given too, because another model may have been activated
        since. Raises `InvalidRequest` and `SimilarLabels` as `Catalogue.resolve`.

        ``faults``: Other faults of the answer.
        ``accepted``: Whether proposed labels are unknown until a lead accepts them.
        """
        vocabulary = dict.fromkeys([*self._model_labels(), *prediction.scored.named])
        unusual = [label for label in labels if label not in vocabulary]
        catalogue = Catalogue(vocabulary, transaction.labels.held(unusual))
        resolved = catalogue.resolve(labels, additions, faults, accepted=accepted)
        self._propose(transaction, caller, resolved.proposed, prediction.id)
        return resolved.labels

    def _model_labels(self) -> Sequence[str]:
        """Return the active model's labels; none before there is a model."""
        try:
            return self.predictors.active().labels
        except NoModel:
            return ()

    def _propose(
        self,
        transaction: Transaction,
        caller: Caller,
        labels: Iterable[str],
        prediction_id: str | None,
        *,
        name: str | None = None,
    ) -> list[CatalogueLabel]:
        """Add labels to the catalogue as proposed, and return them."""
        proposed = [
            CatalogueLabel(
                label,
                id=self.new_id(),
                name=name,
                state=LabelState.PROPOSED,
                proposed_by=caller.id,
                proposed_at=self.now(),
                proposed_in=prediction_id,
                version=1,
            )
            for label in labels
        ]
        transaction.labels.add_all(proposed)
        for each in proposed:
            self._note(
                transaction, caller, "label.proposed", each.subject, prediction_id=prediction_id
            )
        return proposed


@dataclass(frozen=True)
class Labels(TakesLabels, Requesting):
    """The catalogue of labels."""

    now: WallClock
    forget_responses: Callable[[Collection[str]], None]
    """Deletes stored responses that name labels."""

    def search(
        self,
        caller: Caller,
        query: str = "",
        *,
        state: LabelState | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> LabelMatches:
        """Return matching labels: those of the active model first, then the catalogue's.

        Without a state these are the labels to choose from. Headings, which have labels below them,
        are left out unless the model knows them or the policy requires them beside others.

        Raises `ModelUnavailable` while the active model is not loaded.
        """
        caller.require(Permission.READ_QUEUE, Permission.PREDICT)
        vocabulary = self._model_labels()
        with self.begin(read_only=True) as transaction:
            stored = transaction.labels.unlike_model()
            headings = transaction.labels.headings() if stored else frozenset()
            if headings:
                headings -= {*parents_beside(transaction.policies.current().rules).values()}
        matches = _matches(vocabulary, stored, headings)
        chosen = (
            match
            for match in matches
            if (match.state is state if state else match.state in OFFERED)
        )
        return matching_labels(chosen, query, offset=offset, limit=limit)

    def notes(self, caller: Caller) -> list[LabelNote]:
        """Return what people read of labels, by label."""
        caller.require(Permission.READ_QUEUE)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.notes()

    def describe(self, caller: Caller, file: str) -> None:
        """Replace the names, guidelines and parents by those of a CSV file.

        Labels of the file that are new join the catalogue. Raises `InvalidRequest`;
        `ModelUnavailable` while the active model is not loaded: it says which parents can be given.
        """
        caller.require(Permission.ADMINISTER)
        notes, vocabulary = read_label_notes(file), frozenset(self._model_labels())
        with self.begin() as transaction:
            transaction.policies.lock()
            transaction.labels.describe(notes, vocabulary)
            self._note(transaction, caller, "labels.described", "labels", labels=len(notes))
            self._follow_parents(transaction, caller)

    def catalogue(self, caller: Caller) -> list[CatalogueLabel]:
        """Return the labels that the model lacks or that are not accepted, by label.

        Only leads see who proposed them, and in which document.
        """
        caller.require(Permission.READ_QUEUE)
        with self.begin(read_only=True) as transaction:
            stored = transaction.labels.unlike_model()
        if caller.may(Permission.READ_ALL_PREDICTIONS):
            return stored
        return [replace(each, proposed_by=None, proposed_in=None) for each in stored]

    def get(self, caller: Caller, label: str) -> CatalogueLabel:
        """Return a label of the model or of the catalogue; raises `LabelNotFound`."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            return self._known(transaction, spelled(label))

    def look_up(self, caller: Caller, label: str) -> LabelLookup:
        """Return what is known of a label that was typed whole."""
        caller.require(Permission.READ_QUEUE)
        return self._whole().look_up(spelled(label))

    def similar(self, caller: Caller, label: str) -> tuple[str, ...]:
        """Return the labels that differ from a label in no more than its spelling."""
        caller.require(Permission.READ_QUEUE)
        return self._whole().similar(spelled(label))

    def propose(
        self,
        caller: Caller,
        label: str,
        *,
        name: str | None = None,
        prediction_id: str | None = None,
        insist: bool = False,
    ) -> ProposedLabel:
        """Add a label to the catalogue; a lead decides on it.

        A label that exists already stays as it is, and one that stands for it is returned instead.

        Raises `InvalidRequest` if the label cannot be stored; `SimilarLabels` if near-duplicates
        exist, unless the caller insists; `ModelUnavailable` while the active model is not loaded;
        `PredictionNotFound` if there is no such document.
        """
        caller.require(Permission.REVIEW)
        label = spelled(label)
        faults = name_faults(label, "/label", longest=LONGEST_LABEL)
        if name is not None:
            faults += name_faults(name, "/name", longest=LONGEST_LABEL)
        if faults:
            raise InvalidRequest("The label cannot be added like this.", faults)
        vocabulary = self._model_labels()
        with self.begin() as transaction:
            if prediction_id is not None and transaction.predictions.get(prediction_id) is None:
                raise PredictionNotFound(f"No prediction has the id {prediction_id!r}.")
            catalogue = Catalogue(vocabulary, transaction.labels.all())
            current = catalogue.current(label)
            stored = transaction.labels.get(current)
            if stored is not None or current in vocabulary:
                return ProposedLabel(stored or CatalogueLabel(current, in_model=True), new=False)
            if not insist:
                catalogue.refuse_similar([label])
            (proposed,) = self._propose(transaction, caller, [label], prediction_id, name=name)
        return ProposedLabel(proposed, new=True)

    def add(self, caller: Caller, text: str, *, insist: bool = False) -> AddedLabels:
        """Add the labels of a list, one a line, as accepted ones.

        Raises `InvalidRequest` with the lines at fault: a name that cannot be stored or comes
        twice, or, unless the caller insists, one spelt almost like another or a line that looks
        like no label.
        """
        _require_lead(caller)
        named, vocabulary = read_label_list(text, insist=insist), self._vocabulary()
        with self.begin() as transaction:
            stored = {each.label: each for each in transaction.labels.held_all()}
            if not insist:
                check_alike(named, Catalogue(vocabulary, stored.values()))
            present = [label for label in named if label in stored or label in vocabulary]
            for each in (stored[label] for label in present if label in stored):
                if each.state in {LabelState.PROPOSED, LabelState.RETIRED}:
                    accepted = replace(each, state=LabelState.ACCEPTED, version=each.version + 1)
                    transaction.labels.save(accepted)
            known = {*present}
            added = [label for label in named if label not in known]
            transaction.labels.add_all(
                # With who added it and when: a file of descriptions removes what files brought.
                CatalogueLabel(label, proposed_by=caller.id, proposed_at=self.now())
                for label in added
            )
            self._note(transaction, caller, "labels.added", "labels", labels=len(added))
        return AddedLabels(added, present)

    def change(
        self, caller: Caller, label: str, change: LabelChange, expected_version: int | None
    ) -> CatalogueLabel:
        """Accept, rename, merge or retire a label; return it, or the label that stands for it.

        What people answered with a renamed or merged label reads as the other one afterwards, and
        other programs are sent the corrected sets; beyond a first block of documents, a job sees to
        that. The history of each document keeps what was written.

        Raises `VersionRequired`, `StaleVersion` or `LabelNotFound`; `InvalidRequest` if the change
        contradicts itself; `SimilarLabels` if near-duplicates of a new name exist, unless the
        caller insists.
        """
        _check_decides(caller, expected_version)
        change, label = _spelled(change), spelled(label)
        with self.begin() as transaction:
            transaction.policies.lock()
            stored = self._known(transaction, label, for_update=True)
            _check_version(stored, expected_version)
            moved = _new_name(stored, change)
            target = None if moved is None else self._find(transaction, moved)
            predicted = transaction.labels.predicted(stored.label)
            check_change(stored, change, target=target, predicted=predicted)
            if moved is None:
                changed = replace(stored, state=change.state, version=stored.version + 1)
                transaction.labels.save(changed)
            else:
                changed = self._moved(transaction, caller, stored, change, moved, target=target)
            self._note(
                transaction,
                caller,
                "label.changed",
                stored.subject,
                state=change.state.value,
                stands_for_it=None if moved is None else changed.subject,
            )
            self._follow_parents(transaction, caller)
        return changed

    def remove(self, caller: Caller, label: str, expected_version: int | None) -> None:
        """Remove a label and those merged into it everywhere.

        For words that must not stay, such as the name of a patient. Answers keep that a label
        applies, without its name; the audit trail names the label by its id. Beyond a first block
        of documents, a job sees to that, and the label is retired until it ends.

        Raises `VersionRequired`, `StaleVersion` or `LabelNotFound`; `InvalidRequest` if a model
        predicts the label.
        """
        _check_decides(caller, expected_version)
        label = spelled(label)
        with self.begin() as transaction:
            transaction.policies.lock()
            stored = self._known(transaction, label, for_update=True)
            _check_version(stored, expected_version)
            check_removal(stored, predicted=transaction.labels.predicted(label))
            retired = stored.state if stored.state is LabelState.MERGED else LabelState.RETIRED
            id_ = stored.id or self.new_id()  # jobs and the audit trail keep what names it
            stored = replace(stored, id=id_, state=retired, version=stored.version + 1)
            transaction.labels.save(stored)
            self._note(transaction, caller, "label.removed", stored.subject)
            names = self._names(transaction, stored)
            if not self._forget(transaction, stored):
                key, subject = f"{FORGET_LABEL}:{stored.subject}", stored.subject
                self._request(transaction, caller, FORGET_LABEL, key, label=subject)
            self._follow_parents(transaction, caller)
        self.forget_responses(names)
        self.begin.empty_log()

    def forget(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Remove a label from the documents that are left, and then from the catalogue."""
        blocks = cast("int", (job.checkpoint or {}).get("blocks", 0))
        done = False
        while not done:
            progress(0.5, f"{blocks:,} blocks of documents")
            with self.begin() as transaction:
                stored = transaction.labels.named(str(job.payload["label"]))
                done = stored is None or self._forget(transaction, stored)
            blocks += 1
            progress.checkpoint({"blocks": blocks})
        self.begin.empty_log()
        return {}

    def _forget(self, transaction: Transaction, stored: CatalogueLabel) -> bool:
        """Have a block of documents forget a label; remove it, and return True, if none is left."""
        instead = dict.fromkeys(self._names(transaction, stored), UNNAMED)
        instead[stored.label] = stored.merged_into or UNNAMED
        for old, new in instead.items():
            block = self._follow(transaction, old, new, after=None, forget=True)
            if len(block) == DOCUMENTS_AT_ONCE:
                return False
        transaction.labels.remove(instead)
        return True

    @staticmethod
    def _names(transaction: Transaction, stored: CatalogueLabel) -> list[str]:
        """Return the name of a label and those of labels that were merged into it."""
        merged = transaction.labels.all()
        return [stored.label, *(each.label for each in merged if each.merged_into == stored.label)]

    def doubtful(self, caller: Caller) -> list[CatalogueLabel]:
        """Return labels that were first given to documents whose texts are deleted now.

        They may name a person. Labels that a lead has accepted or a model knows are left out.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.doubtful()

    def missing(self, caller: Caller) -> MissingLabels:
        """Return what labels cost that the active model lacks."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.missing()

    def used(self, caller: Caller, labels: Collection[str]) -> Mapping[str, int]:
        """Return how many documents were decided or sent with each of some labels."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.used(labels)

    def versions(self, caller: Caller, labels: Collection[str]) -> Mapping[str, int]:
        """Return the versions of some labels, which a change names; those not stored are at 0."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.versions(labels)

    def follow(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Have the documents that are left name the label that stands for another one.

        Returns how many there were.
        """
        subject = str(job.payload["label"])
        state: dict[str, Any] = dict(job.checkpoint or {"documents": 0})  # Any: as stored
        after = str(state.get("after", job.payload["after"]))
        while True:
            progress(0.5, f"{state['documents']:,} documents")
            with self.begin() as transaction:
                # Nobody merges it further while a block follows.
                stored = transaction.labels.named(subject)
                if stored is None or stored.merged_into is None:  # it is removed, or back to life
                    return {"documents": state["documents"]}
                block = self._follow(transaction, stored.label, stored.merged_into, after=after)
            if not block:
                return {"documents": state["documents"]}
            after = block[-1]
            state = {"documents": state["documents"] + len(block), "after": after}
            progress.checkpoint(state)

    def _follow_parents(self, transaction: Transaction, caller: Caller) -> None:
        """Have the policy's rules on parents follow the catalogue; the policy is locked."""
        before, serving = transaction.policies.current(), transaction.certifications.serving()
        after = adopt(transaction, serving, version=self.new_id(), now=self.now())
        if after.rules != before.rules:
            self._note(
                transaction,
                caller,
                "policy.changed",
                after.version,
                replaced=before.version,
                certificate_ends=why_certificate_ends(before, after),
                reason="The parents of labels changed.",
            )

    def _moved(
        self,
        transaction: Transaction,
        caller: Caller,
        stored: CatalogueLabel,
        change: LabelChange,
        moved: str,
        *,
        target: CatalogueLabel | None,
    ) -> CatalogueLabel:
        """Have another label stand for one, and documents follow; return the other."""
        every = transaction.labels.all()
        if change.state is not LabelState.MERGED:
            if not change.insist:
                others = [each for each in every if each.label != stored.label]
                Catalogue(self._vocabulary(), others).refuse_similar([moved])
            id_ = stored.id and self.new_id()
            target = replace(stored, label=moved, id=id_, state=change.state, version=1)
            transaction.labels.add_all([target])
        for each in stands_for(every, stored.label, moved):
            transaction.labels.save(each)
        transaction.labels.replace_held(stored.label, moved)
        block = self._follow(transaction, stored.label, moved, after=None)
        if len(block) == DOCUMENTS_AT_ONCE:
            key, subject = f"{FOLLOW_LABEL}:{stored.subject}", stored.subject
            self._request(transaction, caller, FOLLOW_LABEL, key, label=subject, after=block[-1])
        return target or CatalogueLabel(moved)

    def _follow(
        self,
        transaction: Transaction,
        old: str,
        new: str,
        *,
        after: str | None,
        forget: bool = False,
    ) -> Sequence[str]:
        """Have the next documents name one label in place of another, and send what changed.

        Returns their ids; none at the end.

        ``forget``: Whether the one label stays in no history.
        """
        ids = transaction.labels.naming(old, after=after, limit=DOCUMENTS_AT_ONCE, written=forget)
        if not ids:
            return ids
        transaction.labels.lock_documents(ids)
        documents = transaction.predictions.several(ids)
        before = transaction.truth.facts_of(ids)
        transaction.labels.replace(ids, old, new, forget=forget)
        facts = transaction.truth.facts_of(ids)
        transaction.truth.write_all(facts)
        sent = (
            (document, _sent(document, then), _sent(document, now))
            for document, then, now in zip(documents, before, facts, strict=True)
        )
        transaction.outbox.add_all(
            [
                document_relabelled(
                    document, now, now if forget else then, self.new_id(), self.now()
                )
                for document, then, now in sent
                if then is not None and now is not None and then != now
            ]
        )
        return ids

    def _known(
        self, transaction: Transaction, label: str, *, for_update: bool = False
    ) -> CatalogueLabel:
        known = self._find(transaction, label, for_update=for_update)
        if known is None:
            raise LabelNotFound(f"Neither the model nor the catalogue has the label {label!r}.")
        return known

    def _find(
        self, transaction: Transaction, label: str, *, for_update: bool = False
    ) -> CatalogueLabel | None:
        stored = transaction.labels.get(label, for_update=for_update)
        if label not in self._vocabulary():
            return stored
        return replace(stored or CatalogueLabel(label), in_model=True)

    def _whole(self) -> Catalogue:
        with self.begin(read_only=True) as transaction:
            return Catalogue(self._vocabulary(), transaction.labels.all())

    def _vocabulary(self) -> Collection[str]:
        try:
            return frozenset(self.predictors.active().labels)
        except ModelUnavailable:
            return frozenset()


def _check_decides(caller: Caller, expected_version: int | None) -> None:
    """Raise an error unless somebody decides on labels, and names the version that they read."""
    _require_lead(caller)
    if expected_version is None:
        raise VersionRequired("Name the version of the label that you read in If-Match.")


def _check_version(stored: CatalogueLabel, expected_version: int | None) -> None:
    if stored.version != expected_version:
        raise StaleVersion(f"The label is at version {stored.version}, not {expected_version}.")


def _require_lead(caller: Caller) -> None:
    caller.require(Permission.REVIEW)
    if Permission.REPORT not in PERMISSIONS[caller.role]:
        raise Forbidden("Only leads and administrators decide on labels.")


def _matches(
    vocabulary: Sequence[str], stored: Sequence[CatalogueLabel], headings: Collection[str]
) -> Iterator[LabelMatch]:
    """Yield the labels of the model, and then those of the catalogue that are no headings."""
    unlike = {each.label: each for each in stored}
    for label in vocabulary:
        retired = label in unlike and unlike[label].state is LabelState.RETIRED
        yield LabelMatch(label, state=LabelState.RETIRED if retired else LabelState.ACCEPTED)
    known = frozenset(vocabulary) if stored else frozenset()
    for each in stored:
        if each.label not in known and each.label not in headings:
            yield LabelMatch(each.label, each.name, each.state, in_model=False)


def _spelled(change: LabelChange) -> LabelChange:
    label, target = change.label, change.merged_into
    return replace(
        change,
        label=None if label is None else spelled(label),
        merged_into=None if target is None else spelled(target),
    )


def _new_name(stored: CatalogueLabel, change: LabelChange) -> str | None:
    """Return the label that stands for another from now on; None if it does itself."""
    name = change.merged_into if change.state is LabelState.MERGED else change.label
    return None if name == stored.label else name


def _sent(prediction: Prediction, facts: AnswerFacts) -> tuple[str, ...] | None:
    """Return the label set that was sent last."""
    return sent_labels(prediction, facts.annotations, facts.outcomes)
