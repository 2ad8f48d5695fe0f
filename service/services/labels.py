"""The catalogue of labels: search it, propose labels, and decide on them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.errors import (
    FieldFault,
    Forbidden,
    InvalidRequest,
    LabelNotFound,
    ModelUnavailable,
    PredictionNotFound,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.labels import (
    LONGEST_LABEL,
    OFFERED,
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
    matching_labels,
    stands_for,
)
from setwise.service.domain.labels.notes import LabelNote, read_label_notes
from setwise.service.domain.outcomes import sent_labels
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.text import text_faults
from setwise.service.domain.webhooks import document_relabelled
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import PredictorSource
from setwise.service.stores.transaction import Transaction
from setwise.spelling import spelled


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
    ) -> tuple[str, ...]:
        """Return an answer's labels as they are stored; new ones enter the catalogue.

        Labels of the prediction may be given too, because another model may have been activated
        since. Raises `InvalidRequest` and `SimilarLabels` as `Catalogue.resolve`.

        ``faults``: Other faults of the answer.
        """
        vocabulary = dict.fromkeys([*self.predictors.active().labels, *prediction.scored.named])
        unusual = [label for label in labels if label not in vocabulary]
        catalogue = Catalogue(vocabulary, transaction.labels.held(unusual))
        resolved = catalogue.resolve(labels, additions, faults)
        self._propose(transaction, caller, resolved.proposed, prediction.id)
        return resolved.labels

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
                transaction, caller, "label.proposed", each.label, prediction_id=prediction_id
            )
        return proposed


@dataclass(frozen=True)
class Labels(TakesLabels):
    """The catalogue of labels."""

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
        are left out unless the model knows them.

        Raises `ModelUnavailable` if no model is active.
        """
        caller.require(Permission.READ_QUEUE, Permission.PREDICT)
        vocabulary = self.predictors.active().labels
        with self.begin(read_only=True) as transaction:
            stored = transaction.labels.unlike_model()
            headings = transaction.labels.headings() if stored else frozenset()
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

        Labels of the file that are new join the catalogue. Raises `InvalidRequest`.
        """
        caller.require(Permission.ADMINISTER)
        notes = read_label_notes(file)
        vocabulary = self._vocabulary()
        with self.begin() as transaction:
            transaction.labels.describe(notes, vocabulary)
            self._note(transaction, caller, "labels.described", "labels", labels=len(notes))

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
        exist, unless the caller insists; `ModelUnavailable` if no model is active;
        `PredictionNotFound` if there is no such document.
        """
        caller.require(Permission.REVIEW)
        label = spelled(label)
        faults = text_faults(label, "/label", longest=LONGEST_LABEL)
        if name is not None:
            faults += text_faults(name, "/name", longest=LONGEST_LABEL)
        if faults:
            raise InvalidRequest("The label cannot be added like this.", faults)
        vocabulary = self.predictors.active().labels
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

    def change(
        self, caller: Caller, label: str, change: LabelChange, expected_version: int | None
    ) -> CatalogueLabel:
        """Accept, rename, merge or retire a label; return it, or the label that stands for it.

        What people answered with a renamed or merged label reads as the other one afterwards, and
        other programs are sent the corrected sets. The history of each document keeps what was
        written.

        Raises `VersionRequired`, `StaleVersion` or `LabelNotFound`; `InvalidRequest` if the change
        contradicts itself; `SimilarLabels` if near-duplicates of a new name exist, unless the
        caller insists.
        """
        caller.require(Permission.REVIEW)
        if Permission.REPORT not in PERMISSIONS[caller.role]:
            raise Forbidden("Only leads and administrators decide on labels.")
        if expected_version is None:
            raise VersionRequired("Name the version of the label that you read in If-Match.")
        change, label = _spelled(change), spelled(label)
        with self.begin() as transaction:
            self._known(transaction, label)
            transaction.labels.lock_documents(label)
            stored = self._known(transaction, label, for_update=True)
            if stored.version != expected_version:
                raise StaleVersion(
                    f"The label is at version {stored.version}, not {expected_version}."
                )
            moved = _new_name(stored, change)
            target = None if moved is None else self._find(transaction, moved)
            predicted = transaction.labels.predicted(stored.label)
            check_change(stored, change, target=target, predicted=predicted)
            if moved is None:
                changed = replace(stored, state=change.state, version=stored.version + 1)
                transaction.labels.save(changed)
            else:
                changed = self._moved(transaction, stored, change, moved, target)
            self._note(
                transaction,
                caller,
                "label.changed",
                stored.label,
                state=change.state.value,
                stands_for_it=moved,
            )
        return changed

    def missing(self, caller: Caller) -> MissingLabels:
        """Return what labels cost that the active model lacks."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return transaction.labels.missing()

    def _moved(
        self,
        transaction: Transaction,
        stored: CatalogueLabel,
        change: LabelChange,
        moved: str,
        target: CatalogueLabel | None,
    ) -> CatalogueLabel:
        """Have another label stand for one, and documents follow; return the other."""
        every = transaction.labels.all()
        if change.state is not LabelState.MERGED:
            if not change.insist:
                others = [each for each in every if each.label != stored.label]
                Catalogue(self._vocabulary(), others).refuse_similar([moved])
            target = replace(stored, label=moved, state=change.state, version=1)
            transaction.labels.add_all([target])
        for each in stands_for(every, stored.label, moved):
            transaction.labels.save(each)
        self._follow(transaction, stored.label, moved)
        return target or CatalogueLabel(moved)

    def _follow(self, transaction: Transaction, old: str, new: str) -> None:
        """Have documents name one label in place of another, and send what changed."""
        before = {id_: _sent(transaction, id_) for id_ in transaction.labels.naming(old)}
        transaction.labels.replace(old, new)
        for prediction_id, (_, sent) in before.items():
            prediction, labels = _sent(transaction, prediction_id)
            transaction.truth.write(transaction.truth.facts(prediction_id))
            if sent is not None and labels is not None and sent != labels:
                transaction.outbox.add(
                    document_relabelled(prediction, labels, sent, self.new_id(), self.now())
                )

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


def _sent(
    transaction: Transaction, prediction_id: str
) -> tuple[Prediction, tuple[str, ...] | None]:
    """Return a prediction, and the label set that was sent last."""
    prediction = transaction.predictions.get(prediction_id)
    if prediction is None:
        raise PredictionNotFound(f"No prediction has the id {prediction_id!r}.")
    annotations = transaction.reviews.annotations_of(prediction_id)
    outcomes = transaction.outcomes.of(prediction_id)
    return prediction, sent_labels(prediction, annotations, outcomes)
