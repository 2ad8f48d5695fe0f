"""The catalogue of labels, and the answers that name them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    union,
    update,
)

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.labels import (
    UNNAMED,
    CatalogueLabel,
    LabelState,
    MissingLabels,
    replaced,
)
from setwise.service.domain.labels.notes import LabelNote
from setwise.service.domain.text import unstorable
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.tables import (
    annotations,
    checks,
    final_labels,
    labels,
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
    predicted: Sequence[str]


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

    def held(self, named: Sequence[str]) -> list[CatalogueLabel]:
        """Return the catalogue if labels are named; nobody renames those until this ends."""
        named = [label for label in named if unstorable(label) is None]
        if not named:
            return []
        query = select(_column.label).where(_column.label.in_(named)).order_by(_column.label)
        self._connection.execute(query.with_for_update(read=True)).all()
        return self.all()

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
        lacking = LACKING, exists().where(checks.c.prediction_id == document)
        rows = self._connection.execute(select(label, func.count()).where(*lacking).group_by(label))
        counts = {name: int(number) for name, number in rows}
        if not counts:
            return MissingLabels()
        of_them, every = (
            int(self._connection.execute(query).scalar_one())
            for query in (
                select(func.count(document.distinct())).where(*lacking),
                select(func.count()).select_from(checks),
            )
        )
        return MissingLabels(of_them, every, counts)

    def lock_documents(self, label: str) -> None:
        """Lock the reviews of documents with answers that name a label."""
        task = review_tasks.c
        of_answers = select(annotations.c.prediction_id).where(
            self._names(annotations.c.labels, label)
        )
        query = select(task.id).where(task.prediction_id.in_(of_answers))
        self._connection.execute(
            query.order_by(task.prediction_id, task.kind).with_for_update()
        ).all()

    def naming(self, label: str) -> list[str]:
        """Return the predictions with answers that name a label, in the order of their ids."""
        tables = (annotations, outcomes)
        named = union(
            *(
                select(each.c.prediction_id).where(self._names(each.c.labels, label))
                for each in tables
            )
        )
        return sorted(self._connection.execute(named).scalars())

    def replace(self, old: str, new: str) -> None:
        """Have answers name one label in place of another; what was written stays beside it."""
        for table in (annotations, outcomes):
            for answer in self._naming(table, old):
                names = replaced(answer.labels, old, new)
                self._connection.execute(
                    update(table)
                    .where(table.c.id == answer.id)
                    .values(
                        labels=list(names),
                        written=func.coalesce(table.c.written, table.c.labels),
                        agreed=set(names) == set(answer.predicted),
                    )
                )
        self._replace_held(old, new)

    def _naming(self, table: Table, label: str) -> list[_Answer]:
        """Return the answers that name a label, in the order of their ids."""
        query = (
            select(
                table.c.id,
                table.c.labels,
                predictions.c.candidates[0].label("first"),
            )
            .join(predictions, predictions.c.id == table.c.prediction_id)
            .where(self._names(table.c.labels, label))
            .order_by(table.c.id)
        )
        return [
            _Answer(row.id, row.labels, row.first["labels"])
            for row in self._connection.execute(query).all()
        ]

    def _replace_held(self, old: str, new: str) -> None:
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

    def _names(self, column: ColumnElement[Any], label: str) -> ColumnElement[bool]:
        """Return the condition that a JSON array of labels has a label."""
        if self._connection.dialect.name == "postgresql":
            element = func.json_array_elements_text(column).table_valued("value")
        else:
            element = func.json_each(column).table_valued("value")
        return exists(select(literal(1)).select_from(element).where(element.c.value == label))


def _to_label(row: RowMapping) -> CatalogueLabel:
    return of_row(CatalogueLabel, labels, row)
