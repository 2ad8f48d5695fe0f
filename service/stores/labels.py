"""The catalogue of labels, and the answers that name them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    RowMapping,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
    union,
    update,
)

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.labels import (
    OFFERED,
    UNNAMED,
    CatalogueLabel,
    LabelState,
    MissingLabels,
    replaced,
    shown_set,
)
from setwise.service.domain.labels.notes import LabelNote
from setwise.service.domain.text import is_id, unstorable
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.evidence import ANSWERED, EvidenceStore, has_check
from setwise.service.stores.tables import (
    annotations,
    deliveries,
    delivery_attempts,
    final_labels,
    labels,
    outbox_messages,
    outcomes,
    prediction_labels,
    predictions,
    review_tasks,
)

_column = labels.c
_above = labels.alias("below").c.parent
LACKING = or_(
    final_labels.c.label == UNNAMED,
    final_labels.c.label.in_(
        select(_column.label).where(~_column.in_model, _column.state != LabelState.MERGED.value)
    ),
)
"""Condition on the labels that were sent last: the active model lacks the label."""


class _Answer(NamedTuple):
    id: str
    labels: Sequence[str]
    written: Sequence[str]
    predicted: Sequence[str] | None
    """None if the document came before there was a model."""


class LabelStore(Store):
    """The catalogue of labels, and the answers that name them."""

    def all(self) -> list[CatalogueLabel]:
        """Return the catalogue, by label."""
        return self._every(select(labels).order_by(_column.label), _to_label)

    def notes(self) -> list[LabelNote]:
        """Return the names, guidelines and parents of labels, by label."""
        described = or_(
            _column.name.is_not(None), _column.guideline.is_not(None), _column.parent.is_not(None)
        )
        above = _column.label.in_(select(_above).where(_above.is_not(None)))
        query = select(labels).where(or_(described, above)).order_by(_column.label)
        return self._every(query, lambda row: of_row(LabelNote, labels, row))

    def unlike_model(self) -> list[CatalogueLabel]:
        """Return the labels that the active model lacks, or that are not accepted."""
        unlike = or_(~_column.in_model, _column.state != LabelState.ACCEPTED.value)
        return self._every(select(labels).where(unlike).order_by(_column.label), _to_label)

    def get(self, label: str, *, for_update: bool = False) -> CatalogueLabel | None:
        if unstorable(label):
            return None
        query = select(labels).where(_column.label == label)
        return self._first(query.with_for_update() if for_update else query, _to_label)

    def named(self, subject: str) -> CatalogueLabel | None:
        """Return the label of which the audit trail tells, locked."""
        query = select(labels).where(_column.id == subject)
        stored = self._first(query.with_for_update(), _to_label) if is_id(subject) else None
        return stored or self.get(subject, for_update=True)

    def doubtful(self, prediction_ids: Sequence[str] | None = None) -> list[CatalogueLabel]:
        """Return labels that no lead accepted, first given to documents with deleted texts.

        ``prediction_ids``: Only those of these predictions.
        """
        column = predictions.c
        deleted = select(column.id).where(column.purged_at.is_not(None))
        if prediction_ids is not None:
            deleted = deleted.where(column.id.in_(prediction_ids))
        query = select(labels).where(
            _column.proposed_in.in_(deleted),
            ~_column.in_model,
            _column.state != LabelState.ACCEPTED.value,
        )
        return self._every(query.order_by(_column.label), _to_label)

    def held(self, named: Sequence[str]) -> list[CatalogueLabel]:
        """Return the catalogue if labels are named; nobody renames those until this ends."""
        named = [label for label in named if unstorable(label) is None]
        if not named:
            return []
        query = select(_column.label).where(_column.label.in_(named)).order_by(_column.label)
        self._connection.execute(query.with_for_update(read=True)).all()
        return self.all()

    def held_all(self) -> list[CatalogueLabel]:
        """Return the catalogue, of which nobody changes a label until this ends."""
        self._connection.execute(select(_column.label).with_for_update()).all()
        return self.all()

    def rare(self, least: int) -> dict[str, int]:
        """Return labels with fewer examples that people gave, the rarest first, with their number.

        Labels that can be given and never were are among them.
        """
        given = final_labels.c
        answered = exists().where(annotations.c.prediction_id == given.prediction_id)
        query = select(given.label, func.count().label("n")).where(answered, given.label != UNNAMED)
        query = query.group_by(given.label)
        counts = {row.label: row.n for row in self._connection.execute(query)}
        offered = select(labels.c.label).where(
            labels.c.state.in_([state.value for state in OFFERED])
        )
        counts = {**dict.fromkeys(self._connection.execute(offered).scalars(), 0), **counts}
        rarest = sorted((n, label) for label, n in counts.items() if n < least)
        return {label: n for n, label in rarest}

    def used(self, named: Collection[str]) -> dict[str, int]:
        """Return how many documents have each of some labels."""
        label = final_labels.c.label
        query = select(label, func.count()).where(label.in_(named)).group_by(label)
        return {name: int(number) for name, number in self._connection.execute(query)}

    def versions(self, named: Collection[str]) -> dict[str, int]:
        """Return the versions of those labels that are stored."""
        query = select(_column.label, _column.version).where(_column.label.in_(named))
        return {row.label: row.version for row in self._connection.execute(query)}

    def parents(self) -> dict[str, str]:
        """Return the label above each that has one."""
        query = select(_column.label, _column.parent).where(_column.parent.is_not(None))
        return {row.label: row.parent for row in self._connection.execute(query)}

    def headings(self) -> frozenset[str]:
        """Return the labels that have others below them."""
        query = select(_column.parent).where(_column.parent.is_not(None)).distinct()
        return frozenset(self._connection.execute(query).scalars())

    def add_all(self, added: Iterable[CatalogueLabel]) -> None:
        """Add labels to the catalogue; those that it has stay as they are."""
        rows = [{**row_of(label, labels), "version": 1} for label in added]
        if rows:
            self._connection.execute(self._missing(labels), rows)

    def save(self, changed: CatalogueLabel) -> None:
        """Store a changed label with the next version; raises `StaleVersion`."""
        row = row_of(changed, labels)
        stored = _column.label == changed.label, _column.version == changed.version - 1
        write = (
            self._missing(labels).values(row)
            if changed.version == 1
            else update(labels).where(*stored).values(row)
        )
        if not self._connection.execute(write.returning(_column.label)).all():
            raise StaleVersion(f"Label {changed.label!r} has changed since it was read.")

    def describe(self, notes: Sequence[LabelNote], vocabulary: Collection[str]) -> None:
        """Replace all names, guidelines and parents.

        Labels that came with an earlier file, and that no document has, leave the catalogue.
        """
        self._connection.execute(update(labels).values(name=None, guideline=None, parent=None))
        used = select(final_labels.c.label).where(final_labels.c.label == _column.label).exists()
        filed = and_(
            _column.proposed_at.is_(None), _column.state == LabelState.ACCEPTED.value, ~used
        )
        self._connection.execute(delete(labels).where(filed))
        present = {*self._connection.execute(select(_column.label)).scalars()}
        self.add_all(
            CatalogueLabel(**note._asdict(), in_model=note.label in vocabulary)
            for note in notes
            if note.label not in present
        )
        rows = [
            {**note._asdict(), "described": note.label} for note in notes if note.label in present
        ]
        if rows:
            parts: dict[str, Any] = {name: bindparam(name) for name in LabelNote._fields}
            self._connection.execute(
                update(labels).where(_column.label == bindparam("described")).values(parts), rows
            )

    def follow_model(self, vocabulary: Collection[str]) -> None:
        """Note which labels the model has, and keep those that documents have besides."""
        for label in self.all():
            if label.in_model != (label.label in vocabulary):
                self._connection.execute(
                    update(labels)
                    .where(_column.label == label.label)
                    .values(in_model=not label.in_model)
                )
        sent = self._connection.execute(select(final_labels.c.label).distinct()).scalars()
        others = {*sent} - {*vocabulary, UNNAMED}
        self.add_all(CatalogueLabel(label) for label in sorted(others))

    def predicted(self, label: str) -> bool:
        """Return whether a model has predicted a label."""
        query = exists().where(prediction_labels.c.label == label)
        return bool(self._connection.execute(select(query)).scalar_one())

    def missing(self) -> MissingLabels:
        """Count the checked documents with labels that the active model lacks."""
        document, label = final_labels.c.prediction_id, final_labels.c.label
        lacking = LACKING, has_check(document)
        rows = self._connection.execute(select(label, func.count()).where(*lacking).group_by(label))
        counts = {name: int(number) for name, number in rows}
        if not counts:
            return MissingLabels()
        of_them = select(func.count(document.distinct())).where(
            LACKING, has_check(document, ANSWERED)
        )
        return MissingLabels(
            int(self._connection.execute(of_them).scalar_one()),
            EvidenceStore(self._connection).count(),
            counts,
        )

    def lock_documents(self, ids: Sequence[str]) -> None:
        """Lock the reviews of predictions."""
        task = review_tasks.c
        query = select(task.id).where(task.prediction_id.in_(ids))
        self._connection.execute(
            query.order_by(task.prediction_id, task.kind).with_for_update()
        ).all()

    def naming(
        self, label: str, *, after: str | None, limit: int, written: bool = False
    ) -> list[str]:
        """Return the next predictions after an id with answers that name a label, by id.

        ``written``: Also with answers that once named it.
        """

        def later(column: Column[str]) -> ColumnElement[bool]:
            return true() if after is None else column > after

        parts = [
            select(named.c.prediction_id)
            for table in (annotations, outcomes)
            for named in [
                select(table.c.prediction_id)
                .where(
                    later(table.c.prediction_id),
                    or_(
                        self._names(table.c.labels, label),
                        self._names(table.c.written, label) if written else false(),
                    ),
                )
                .order_by(table.c.prediction_id)
                .limit(limit)
                .subquery()
            ]
        ]
        return sorted(self._connection.execute(union(*parts)).scalars())[:limit]

    def replace(self, ids: Sequence[str], old: str, new: str, *, forget: bool = False) -> None:
        """Have the answers to predictions name one label in place of another.

        What was written stays beside it; with ``forget``, a label without a name in its place.
        """
        for table in (annotations, outcomes):
            rows = [
                {
                    "answer": answer.id,
                    "names": list(names := replaced(answer.labels, old, new)),
                    "before": list(
                        replaced(answer.written, old, UNNAMED) if forget else answer.written
                    ),
                    "right": None
                    if answer.predicted is None
                    else set(names) == set(answer.predicted),
                }
                for answer in self._naming(table, ids, old)
            ]
            if rows:
                values = {
                    "labels": bindparam("names", type_=table.c.labels.type),
                    "written": bindparam("before", type_=table.c.labels.type),
                    "agreed": bindparam("right"),
                }
                change = update(table).where(table.c.id == bindparam("answer")).values(values)
                self._connection.execute(change, rows)

    def _naming(self, table: Table, ids: Sequence[str], label: str) -> list[_Answer]:
        query = (
            select(
                table.c.id,
                table.c.labels,
                table.c.written,
                predictions.c.candidates[0].label("first"),
            )
            .join(predictions, predictions.c.id == table.c.prediction_id)
            .where(
                table.c.prediction_id.in_(ids),
                or_(self._names(table.c.labels, label), self._names(table.c.written, label)),
            )
        )
        return [
            _Answer(
                row.id, row.labels, row.written or row.labels, row.first and row.first["labels"]
            )
            for row in self._connection.execute(query).all()
        ]

    def replace_held(self, old: str, new: str) -> None:
        """Have decisions that can still be undone name one label in place of another."""
        task = review_tasks.c
        held = select(task.id, task.decided_labels).where(
            task.decided_labels.is_not(None),
            task.state == "leased",
            self._names(task.decided_labels, old),
        )
        for row in self._connection.execute(held.with_for_update()).all():
            names = list(replaced(row.decided_labels, old, new))
            self._connection.execute(
                update(review_tasks).where(task.id == row.id).values(decided_labels=names)
            )

    def remove(self, instead: Mapping[str, str]) -> None:
        """Remove labels from the catalogue, decisions that can be undone, and messages.

        ``instead``: What these name in the place of each.
        """
        for old, new in instead.items():
            self.replace_held(old, new)
            self._replace_in_messages(old, new)
        self._connection.execute(
            update(labels).where(_column.parent.in_(instead)).values(parent=None)
        )
        self._connection.execute(delete(labels).where(_column.label.in_(instead)))

    def _replace_in_messages(self, old: str, new: str) -> None:
        message = outbox_messages.c
        members = ("labels", "previous_labels")
        naming = [self._names(message.data[member], old) for member in members]
        query = select(message.ordinal, message.data).where(or_(*naming))
        for ordinal, data in self._connection.execute(query).all():
            sets = {
                member: shown_set(replaced(data[member], old, new))
                for member in members
                if member in data
            }
            kept: dict[str, object] = {member: list(each.labels) for member, each in sets.items()}
            if sets["labels"].label_missing:
                kept["label_missing"] = True
            self._connection.execute(
                update(outbox_messages)
                .where(message.ordinal == ordinal)
                .values(data={**data, **kept})
            )
            sent = select(deliveries.c.id).where(deliveries.c.message_ordinal == ordinal)
            self._connection.execute(
                update(delivery_attempts)
                .where(delivery_attempts.c.delivery_id.in_(sent))
                .values(excerpt="")  # what receivers answered may repeat it
            )

    def _names(self, column: ColumnElement[Any], label: str) -> ColumnElement[bool]:
        """Return the condition that a JSON array of labels has a label."""
        if self._connection.dialect.name == "postgresql":
            element = func.json_array_elements_text(column).table_valued("value")
        else:
            element = func.json_each(column).table_valued("value")
        return exists(select(literal(1)).select_from(element).where(element.c.value == label))


def _to_label(row: RowMapping) -> CatalogueLabel:
    return of_row(CatalogueLabel, labels, row)
