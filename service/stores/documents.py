"""Lists of documents by any of their properties, and their whole lives."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    Select,
    Table,
    and_,
    cast,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    union,
    update,
)

from setwise.service.domain.documents import (
    Audited,
    Comment,
    CommentKind,
    DocumentFilter,
    DocumentState,
    Life,
    ListedDocument,
    ModelDifference,
    NewComments,
    Order,
    phrases,
)
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Decision, Prediction
from setwise.service.domain.reviews import Annotation, QueueTier, ReviewState
from setwise.service.domain.text import UNREADABLE, Page, is_id
from setwise.service.stores.columns.rows import Store, in_segment, of_row, row_of
from setwise.service.stores.columns.types import InRow, cipher_of, opened
from setwise.service.stores.evidence import AUDITOR_AGREED, AUDITOR_CONTRADICTED, CONTRADICTED
from setwise.service.stores.labels import LACKING
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.reviews import ReviewStore
from setwise.service.stores.tables import (
    ASSIGNED,
    DEAD,
    LEASED,
    OPEN,
    annotations,
    api_keys,
    comment_readers,
    comments,
    deliveries,
    final_labels,
    model_comparisons,
    outbox_messages,
    outcomes,
    people,
    prediction_labels,
    predictions,
    review_tasks,
)
from setwise.service.stores.truth import to_annotation, to_outcome
from setwise.service.stores.truth.search_index import SearchIndex
from setwise.service.stores.webhooks import DeliveryStore, to_message

_Value = TypeVar("_Value")
_column = predictions.c


class DocumentStore(Store):
    """Predictions with what became of them."""

    def __init__(self, connection: Connection, reviews: ReviewStore) -> None:
        super().__init__(connection)
        self._reviews = reviews

    @property
    def searchable(self) -> bool:
        """Whether words can be searched for: encrypted texts are in no index."""
        return cipher_of(self._connection.dialect) is None

    def page(
        self,
        filters: DocumentFilter,
        order: Order,
        hidden: Collection[str] = (),
        *,
        after: str | None,
        limit: int,
    ) -> Page[ListedDocument]:
        """Return a page of documents.

        ``hidden``: Ids of predictions to leave out.
        ``after``: The id of the last document of the page before.
        """
        query = select(predictions).where(*self._conditions(filters, hidden))
        query = _ordered(query, order, after).limit(limit + 1)
        matches = self._every(query, to_prediction)
        page = matches[:limit]
        more = page[-1].id if len(matches) > limit else None
        return Page(tuple(self._listed(page)), more)

    def count(self, filters: DocumentFilter, hidden: Collection[str] = (), *, most: int) -> int:
        """Return the number of documents, counting no further than ``most``."""
        matches = self._ids(filters, hidden, most).subquery()
        return int(self._connection.execute(select(func.count()).select_from(matches)).scalar_one())

    def ids(
        self, filters: DocumentFilter, hidden: Collection[str] = (), *, most: int
    ) -> Sequence[str]:
        """Return the ids of up to ``most`` predictions."""
        return self._connection.scalars(self._ids(filters, hidden, most)).all()

    def _ids(self, filters: DocumentFilter, hidden: Collection[str], most: int) -> Select[Any]:
        return select(_column.id).where(*self._conditions(filters, hidden)).limit(most)

    def life(self, prediction: Prediction) -> Life:
        """Return all that happened to a document."""
        key = prediction.id, f"{prediction.client_id}/{prediction.name}"
        message = outbox_messages.c
        of_document = select(outbox_messages).where(message.document_key.in_(key))
        messages = [
            each
            for each in self._every(of_document.order_by(message.ordinal), to_message)
            if each.data.get("prediction_id") == prediction.id
        ]
        answers, reported = self.answers([prediction.id])
        life = Life(
            prediction,
            self._reviews.tasks_of(prediction.id),
            answers[prediction.id],
            reported[prediction.id],
            messages,
            DeliveryStore(self._connection).of_messages([each.id for each in messages]),
            CommentStore(self._connection).of(prediction.id),
            {},
        )
        took_part = {event.by for event in life.events() if event.by is not None}
        return life._replace(names=self.names(took_part))

    def answers(
        self, ids: Sequence[str]
    ) -> tuple[Mapping[str, list[Annotation]], Mapping[str, list[Outcome]]]:
        """Return what people and other programs answered, by prediction."""
        return (
            self._by_prediction(annotations, ids, to_annotation),
            self._by_prediction(outcomes, ids, to_outcome),
        )

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """Return the names of people and keys by id."""
        valid = [id_ for id_ in ids if is_id(id_)]
        names = union(
            *(
                select(each.c.id, each.c.name).where(each.c.id.in_(valid))
                for each in (people, api_keys)
            )
        )
        return {row.id: row.name for row in self._connection.execute(names)}

    def _listed(self, listed: Sequence[Prediction]) -> Iterator[ListedDocument]:
        ids = [prediction.id for prediction in listed]
        columns = _task.id, _task.prediction_id, _task.assigned_to, _FIRST.label("first")
        open_tasks = select(*columns).where(OPEN, _task.prediction_id.in_(ids))
        waiting: dict[str, list[Row[Any]]] = defaultdict(list)  # Any: several columns
        for row in self._connection.execute(open_tasks):
            waiting[row.prediction_id].append(row)
        every_task = [task.id for tasks in waiting.values() for task in tasks]
        skips = self._reviews.skips_of(every_task)
        answers, reported = self.answers(ids)
        for prediction in listed:
            tasks = waiting[prediction.id]
            yield ListedDocument(
                prediction,
                bool(tasks),
                answers[prediction.id],
                reported[prediction.id],
                [task.assigned_to for task in tasks if task.assigned_to],
                any(task.first for task in tasks),
                [skip for task in tasks for skip in skips[task.id]],
            )

    def _by_prediction(
        self, table: Table, ids: Sequence[str], make: Callable[[RowMapping], _Value]
    ) -> Mapping[str, list[_Value]]:
        """Return the rows of predictions, in the order of their ids."""
        query = select(table).where(table.c.prediction_id.in_(ids)).order_by(table.c.id)
        values: dict[str, list[_Value]] = defaultdict(list)
        for row in self._connection.execute(query).mappings():
            values[row[table.c.prediction_id]].append(make(row))
        return values

    def _conditions(
        self, filters: DocumentFilter, hidden: Collection[str]
    ) -> Iterator[ColumnElement[bool]]:
        yield _column.id.not_in(hidden)
        if filters.ids:
            yield _column.id.in_(filters.ids)
        for name, condition in _CONDITIONS.items():
            value = getattr(filters, name)
            if value is not None:
                yield condition(value)
        for table, having, lacking in (
            (prediction_labels, filters.labels, filters.without_labels),
            (final_labels, filters.final_labels, filters.without_final_labels),
        ):
            yield from (_labelled(table, label) for label in having)
            yield from (~_labelled(table, label) for label in lacking)
        if filters.without_final_labels:
            yield or_(_STATES[DocumentState.SENT], _answered(annotations.c.settles))
        if filters.candidate is not None:
            yield exists().where(
                _compared.prediction_id == _column.id,
                _compared.model_id == filters.candidate,
                *([] if filters.difference is None else [_DIFFERENCES[filters.difference]]),
            )
        if filters.undelivered_to is not None:
            yield self._undelivered(filters.undelivered_to)
        if filters.text is not None:
            yield SearchIndex(self._connection).having(phrases(filters.text))

    def _undelivered(self, endpoint_id: str) -> ColumnElement[bool]:
        # The document's key in a message is not unique to a prediction.
        message = outbox_messages.c
        named = cast(message.data["prediction_id"].as_string(), _column.id.type)
        dead = select(named).join(deliveries, deliveries.c.message_ordinal == message.ordinal)
        return _column.id.in_(dead.where(DEAD, deliveries.c.endpoint_id == endpoint_id))


class CommentStore(Store):
    """What people wrote about documents."""

    def add(self, comment: Comment) -> None:
        text = InRow(comment.text, (comment.id, comment.prediction_id))
        self._connection.execute(insert(comments), {**row_of(comment, comments), "text": text})

    def of(self, prediction_id: str) -> Sequence[Comment]:
        """Return the comments on a document, oldest first."""
        query = select(comments).where(comments.c.prediction_id == prediction_id)
        return self._every(query.order_by(comments.c.id), _to_comment)

    def unread(
        self, reader: str, *, wrote: bool = True, among: str | None = None, limit: int
    ) -> list[NewComments]:
        """Return documents that ``reader`` answered or wrote about and others wrote about since.

        The last written about comes first. Without ``wrote``, only those that ``reader`` answered.
        With ``among``, a prediction, only whether it is one.
        """
        comment, visit = comments.c, comment_readers.c
        answer_comment, annotation = comments.alias("own").c, annotations.c
        newest = func.max(comment.created_at)
        query = (
            select(comment.prediction_id, func.count())
            .outerjoin(
                comment_readers,
                and_(visit.prediction_id == comment.prediction_id, visit.reader == reader),
            )
            .where(
                comment.author != reader,
                or_(visit.read_at.is_(None), comment.created_at > visit.read_at),
                or_(
                    comment.prediction_id == among,
                    comment.prediction_id.in_(
                        select(annotation.prediction_id).where(annotation.reviewer == reader)
                    ),
                    comment.prediction_id.in_(
                        select(answer_comment.prediction_id).where(
                            literal(wrote), answer_comment.author == reader
                        )
                    ),
                ),
            )
            .group_by(comment.prediction_id)
            .order_by(newest.desc())
            .limit(limit)
        )
        if among is not None:
            query = query.where(comment.prediction_id == among)
        counts = {row[0]: int(row[1]) for row in self._connection.execute(query)}
        counted = select(_column.id, _column.document_id).where(_column.id.in_(counts))
        named = {row.id: row.document_id for row in self._connection.execute(counted)}
        return [NewComments(id_, named[id_], count) for id_, count in counts.items()]

    def note_read(self, prediction_id: str, reader: str, at: datetime) -> None:
        """Remember that ``reader`` has read the comments on a document up to a time."""
        row = {"prediction_id": prediction_id, "reader": reader, "read_at": at}
        self._connection.execute(self._missing(comment_readers), row)
        column = comment_readers.c
        self._connection.execute(
            update(comment_readers)
            .where(column.prediction_id == prediction_id, column.reader == reader)
            .values(read_at=at)
        )


def _to_comment(row: RowMapping) -> Comment:
    column = comments.c
    bound_to = row[column.id], row[column.prediction_id]
    text = opened(row[column.text], *bound_to, otherwise=UNREADABLE)
    return of_row(Comment, comments, row, text=text)


def _ordered(query: Select[Any], order: Order, after: str | None) -> Select[Any]:
    """Return the query in an order, which goes on after a prediction."""
    if order in {Order.NEWEST, Order.OLDEST}:
        newest = order is Order.NEWEST
        if after is not None:
            query = query.where(_column.id < after if newest else _column.id > after)
        return query.order_by(_column.id.desc() if newest else _column.id)
    query = query.where(_column.confidence.is_not(None))
    keys = _column.confidence, _column.id
    least = order is Order.LEAST_CONFIDENT
    if after is not None:
        other = predictions.alias()
        last = select(other.c.confidence).where(other.c.id == after)
        place = tuple_(last.scalar_subquery(), literal(after, _column.id.type))
        query = query.where(tuple_(*keys) > place if least else tuple_(*keys) < place)
    return query.order_by(*(key if least else key.desc() for key in keys))


def _labelled(table: Table, label: str) -> ColumnElement[bool]:
    return exists().where(table.c.label == label, table.c.prediction_id == _column.id)


def _answered(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(annotations.c.prediction_id == _column.id, *conditions)


def _answered_by(whose: ColumnElement[bool]) -> ColumnElement[bool]:
    # For each document, SQLite would look through all that a reviewer has answered.
    return _column.id.in_(select(annotations.c.prediction_id).where(whose))


def _in_review(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(review_tasks.c.prediction_id == _column.id, *conditions)


_BEYOND = _column.id.in_(select(final_labels.c.prediction_id).where(LACKING))
_compared = model_comparisons.c
_sent = _compared.decision == Decision.AUTO.value
_DIFFERENCES: Mapping[ModelDifference, ColumnElement[bool]] = {
    ModelDifference.BOTH_SEND: and_(_sent, _compared.same_decision),
    ModelDifference.ONLY_ACTIVE_SENDS: and_(~_sent, ~_compared.same_decision),
    ModelDifference.ONLY_CANDIDATE_SENDS: and_(_sent, ~_compared.same_decision),
    ModelDifference.NEITHER_SENDS: and_(~_sent, _compared.same_decision),
    ModelDifference.LABELS: ~_compared.same_labels,
}
_later = comments.alias("later")
_task = review_tasks.c
_FIRST = _task.tier < QueueTier.NORMAL.value
_STATES: Mapping[DocumentState, ColumnElement[bool]] = {
    DocumentState.SENT: _column.decision == Decision.AUTO.value,
    DocumentState.WAITING: _in_review(OPEN),
    DocumentState.HELD: _in_review(LEASED),
    DocumentState.SKIPPED: _in_review(review_tasks.c.state == ReviewState.SKIPPED.value),
    DocumentState.REVIEWED: _answered(),
    DocumentState.FLAGGED: _column.id.in_(
        select(comments.c.prediction_id).where(
            comments.c.kind == CommentKind.FLAGGED.value,
            ~exists().where(
                _later.c.thread == comments.c.thread,
                _later.c.id > comments.c.id,
                _later.c.kind == CommentKind.RESOLVED.value,
            ),
        )
    ),
    DocumentState.CONTRADICTED: CONTRADICTED,
}
_AUDITED: Mapping[Audited, ColumnElement[bool]] = {
    Audited.DRAWN: _column.audit_role != "none",
    Audited.AGREED: AUDITOR_AGREED,
    Audited.CONTRADICTED: AUDITOR_CONTRADICTED,
}
_CONDITIONS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {  # Any: what the field holds
    "document_id": lambda value: _column.document_id == value,
    "client_id": lambda value: _column.client_id == value,
    "decision": lambda value: _column.decision == value,
    "reason": lambda value: _column.reason == value,
    "model_version": lambda value: _column.model_version == value,
    "calibrator_version": lambda value: _column.calibrator_version == value,
    "of_segment": lambda value: in_segment(_column.segment, value),
    "confidence_from": lambda value: _column.confidence >= value,
    "confidence_to": lambda value: _column.confidence < value,
    "created_from": lambda value: _column.created_at >= value,
    "created_before": lambda value: _column.created_at < value,
    "state": _STATES.__getitem__,
    "audited": _AUDITED.__getitem__,
    "reviewer": lambda value: _answered_by(annotations.c.reviewer == value),
    "group": lambda value: _answered_by(annotations.c.group == value),
    "assigned_to": lambda value: or_(
        _in_review(LEASED, _task.lease_holder == value),
        _in_review(ASSIGNED, _task.assigned_to == value),
    ),
    "prioritized": lambda value: _in_review(OPEN, _FIRST) if value else ~_in_review(OPEN, _FIRST),
    "beyond_model": lambda value: _BEYOND if value else ~_BEYOND,
}
