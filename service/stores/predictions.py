"""Stored predictions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    RowMapping,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Marginal,
    Prediction,
    PredictionFilter,
    ScoredSet,
    Submission,
)
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.domain.routing.versions import Version
from setwise.service.domain.text import Page, first_id_at
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.columns.types import InRow, opened
from setwise.service.stores.reports.counts import CountStore
from setwise.service.stores.tables import (
    annotations,
    comments,
    deliveries,
    delivery_attempts,
    idempotency_keys,
    outbox_messages,
    predictions,
    review_skips,
    review_tasks,
)
from setwise.service.stores.truth.search_index import SearchIndex

NewPrediction = tuple[Prediction, Submission]
"""A new prediction and the submission that it answers."""

_KeyName = tuple[str, str]
"""A client's id and an idempotency key."""


_MOST_VERSIONS = 10_000
"""Most versions that are read for one batch; a client may give all its documents one id."""

_INSERT, _INSERT_KEYS = insert(predictions), insert(idempotency_keys)


def _unsent(key: Column[Any]) -> Select[Any]:
    """Return the query for what was posted with known keys and not sent."""
    column = predictions.c
    # Only what its index holds: a form may have come thousands of times.
    query = select(column.client_id, key, column.confidence).distinct().limit(_MOST_VERSIONS)
    return query.where(
        key.in_(bindparam("known", expanding=True)),
        column.decision == Decision.REVIEW.value,
        column.created_at >= bindparam("since"),
    )


_NAMED, _ALIKE = _unsent(predictions.c.document_id), _unsent(predictions.c.cluster)


class IdempotencyKeyTaken(Exception):
    """Another request used the same key first; the transaction has failed."""


class PredictionStore(Store):
    """Stored predictions."""

    def __init__(self, connection: Connection, counts: CountStore) -> None:
        super().__init__(connection)
        self._counts = counts

    def add_all(self, new: Sequence[NewPrediction]) -> None:
        """Store predictions and their idempotency keys.

        Raises `IdempotencyKeyTaken` if a client has already used a key.
        """
        if not new:
            return
        rows = [_row(prediction, submission) for prediction, submission in new]
        self._connection.execute(_INSERT, rows)
        self._counts.predicted(prediction for prediction, _ in new)
        SearchIndex(self._connection).add(
            {prediction.id: prediction.scored.labels or () for prediction, _ in new},
            sent=[prediction.id for prediction, _ in new if prediction.decision is Decision.AUTO],
            with_texts=[prediction.id for prediction, _ in new if prediction.document.text],
        )
        keys = [
            {
                "client_id": prediction.client_id,
                "key": submission.idempotency.key,
                "request_digest": submission.idempotency.request_digest,
                "prediction_id": prediction.id,
                "created_at": prediction.created_at,
            }
            for prediction, submission in new
            if submission.idempotency is not None
        ]
        if not keys:
            return
        try:
            self._connection.execute(_INSERT_KEYS, keys)
        except IntegrityError as error:
            raise IdempotencyKeyTaken(", ".join(str(key["key"]) for key in keys)) from error

    def unsent_versions(
        self,
        names: Collection[str],
        clusters: Collection[float | None],
        since: datetime,
    ) -> list[Version]:
        """Return what any client posted with these ids or of these clusters and was not sent."""
        named = self._connection.execute(_NAMED, {"known": names, "since": since})
        alike = self._connection.execute(_ALIKE, {"known": clusters, "since": since})
        return [
            *(Version(client, name, None, confidence) for client, name, confidence in named),
            *(Version(client, None, cluster, confidence) for client, cluster, confidence in alike),
        ]

    def get(self, prediction_id: str) -> Prediction | None:
        return self._named(select(predictions), predictions.c.id, prediction_id, to_prediction)

    def several(self, ids: Sequence[str]) -> list[Prediction]:
        """Return the predictions with these ids, in their order."""
        found = []
        for part in _parts(sorted(ids)):
            query = select(predictions).where(predictions.c.id.in_(part))
            found += self._every(query.order_by(predictions.c.id), to_prediction)
        return found

    def replayed(self, names: Collection[_KeyName]) -> dict[_KeyName, tuple[Prediction, str]]:
        """Return stored predictions by idempotency key, each with its request digest."""
        key = idempotency_keys.c
        rows = self._connection.execute(
            select(predictions, key.client_id.label("key_owner"), key.key, key.request_digest)
            .join(idempotency_keys, key.prediction_id == predictions.c.id)
            .where(tuple_(key.client_id, key.key).in_(names))
        ).mappings()
        return {
            (row["key_owner"], row[key.key]): (to_prediction(row), row[key.request_digest])
            for row in rows
        }

    def marginals_of(self, ids: Sequence[str]) -> dict[str, list[Marginal]]:
        """Return the marginals of predictions by id."""
        column = predictions.c
        return {
            id_: [Marginal(**each) for each in marginals]
            for part in _parts(ids)
            for id_, marginals in self._connection.execute(
                select(column.id, column.marginals).where(column.id.in_(part))
            )
        }

    def purge_keys(self, before: datetime, most: int) -> int:
        """Delete at most ``most`` idempotency keys from before a time; return the number."""
        key = idempotency_keys.c
        oldest = select(key.client_id, key.key).where(key.created_at < before).limit(most)
        purged = delete(idempotency_keys).where(tuple_(key.client_id, key.key).in_(oldest))
        return self._connection.execute(purged).rowcount

    def page(self, filters: PredictionFilter, *, after: str | None, limit: int) -> Page[Prediction]:
        """Return a page of predictions, newest first."""
        column = predictions.c
        query = select(predictions)
        if filters.client_id is not None:
            query = query.where(column.client_id == filters.client_id)
        if filters.decision is not None:
            query = query.where(column.decision == filters.decision.value)
        if filters.created_from is not None:
            query = query.where(column.created_at >= filters.created_from)
        if filters.created_before is not None:
            query = query.where(column.created_at < filters.created_before)
        if filters.document_id is not None:
            # Select the ids first: query planners prefer to scan all of the client's predictions
            # in the order of their ids. ``coalesce`` hides the id from the planner.
            ids = select(column.id).where(column.document_id == filters.document_id)
            if after is not None:
                ids = ids.where(func.coalesce(column.id, column.id) < after)
            named = ids.cte("named").prefix_with("MATERIALIZED")
            query, after = query.where(column.id.in_(select(named.c.id))), None
        return self._page(query, column.id, to_prediction, after=after, limit=limit)


def _row(prediction: Prediction, answering: Submission) -> dict[str, object]:
    document, scored, caller = prediction.document, prediction.scored, answering.caller
    row = (prediction.id, prediction.client_id)
    return {
        **row_of(prediction, predictions),
        **row_of(scored, predictions),
        "document_id": document.id,
        "text": InRow(document.text, row),
        "features": InRow(None if document.features is None else dict(document.features), row),
        "answer": InRow(None if document.answer is None else dict(document.answer), row),
        "metadata": InRow(dict(document.metadata), row),
        "own_confidences": None if scored.replaced is None else list(scored.replaced),
        "confidence": scored.confidence,
        **row_of(prediction.selection, predictions),
        "audit_role": prediction.selection.role,
        "priority": document.priority,
        "due_at": document.due_at,
        "actor_name": caller.name,
        "request_id": caller.request_id,
        "address": caller.address,
    }


def _tuple(values: list[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def to_candidates(stored: Iterable[Mapping[str, Any]]) -> tuple[Candidate, ...]:  # Any: JSON
    """Return stored candidates."""
    return tuple(
        Candidate(tuple(candidate["labels"]), candidate["confidence"], candidate["score"])
        for candidate in stored
    )


def to_prediction(row: RowMapping) -> Prediction:
    """Return the prediction in a row with the columns of its table."""
    column = predictions.c
    scored = of_row(
        ScoredSet,
        predictions,
        row,
        candidates=to_candidates(row[column.candidates]),
        marginals=tuple(Marginal(**marginal) for marginal in row[column.marginals]),
        replaced=_tuple(row[column.own_confidences]),
    )
    selection = of_row(Selection, predictions, row, role=AuditRole(row[column.audit_role]))
    return of_row(
        Prediction,
        predictions,
        row,
        document=_document(row),
        scored=scored,
        selection=selection,
    )


_CONTENT = ("text", "features", "metadata", "answer")
_UNREADABLE = object()


def _document(row: RowMapping) -> Document:
    """Return the document in a row; as if erased if a part of it cannot be read."""
    column = predictions.c
    bound_to = row[column.id], row[column.client_id]
    order = {"priority": row[column.priority], "due_at": row[column.due_at]}
    content = {
        name: opened(row[column[name]], *bound_to, otherwise=_UNREADABLE) for name in _CONTENT
    }
    if any(part is _UNREADABLE for part in content.values()):
        return Document(row[column.document_id], metadata={}, unreadable=True, **order)
    return Document(row[column.document_id], **content, **order)


PURGED = "purged"
"""Replaces a purged reason."""

_MOST_PARAMETERS = 500


class TextStore(Store):
    """Documents, metadata and comments, which can be purged. Numbers and labels stay."""

    def purgeable(
        self, decision: Decision, *, before: datetime, after: str | None, limit: int
    ) -> list[str]:
        """Return the oldest predictions whose texts may be purged.

        These were made before ``before``, still have their texts or have comments again, and have
        no open review. Returns ids in order, starting after ``after``.
        """
        column = predictions.c
        unfinished = exists().where(
            review_tasks.c.prediction_id == column.id,
            review_tasks.c.state != ReviewState.COMPLETED.value,
        )
        query = (
            select(column.id)
            .where(
                column.decision == decision.value,
                # Ids sort by time and share an index with the decision.
                column.id < first_id_at(before),
                column.created_at < before,
                or_(column.purged_at.is_(None), column.id.in_(select(comments.c.prediction_id))),
                ~unfinished,
            )
            .order_by(column.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(column.id > after)
        return list(self._connection.execute(query).scalars())

    def of_document(self, document_id: str) -> list[str]:
        """Return the ids of a document's predictions, from all clients."""
        column = predictions.c
        query = select(column.id).where(column.document_id == document_id).order_by(column.id)
        return list(self._connection.scalars(query))

    def purge(self, prediction_ids: Sequence[str], now: datetime) -> int:
        """Purge texts, features, answers, metadata, comments and skip reasons; return how many."""
        purged = 0
        for ids in _parts(prediction_ids):
            purged += self._purge_documents(ids, now)
            self._connection.execute(
                update(annotations)
                .where(annotations.c.prediction_id.in_(ids), annotations.c.comment.is_not(None))
                .values(comment=None)
            )
            self._connection.execute(
                update(review_tasks)
                .where(
                    review_tasks.c.prediction_id.in_(ids),
                    review_tasks.c.decided_comment.is_not(None),
                )
                .values(decided_comment=None)
            )
            self._purge_skips(ids)
            self._connection.execute(delete(comments).where(comments.c.prediction_id.in_(ids)))
        return purged

    def _purge_documents(self, ids: Sequence[str], now: datetime) -> int:
        column = predictions.c
        rows = self._connection.execute(
            select(column.id, column.client_id).where(column.id.in_(ids))
        ).all()
        if not rows:
            return 0
        unpurged = column.id.in_(ids) & column.purged_at.is_(None)
        index = SearchIndex(self._connection)
        index.forget_words(list(self._connection.scalars(select(column.id).where(unpurged))))
        # Row by row, because the empty metadata is bound to its row too; and also what is purged
        # already, where somebody may have planted a value that nobody can read.
        self._connection.execute(
            update(predictions)
            .where(column.id == bindparam("own_id"))
            .values(text=None, features=None, answer=None, metadata=bindparam("nothing")),
            [{"own_id": row.id, "nothing": InRow({}, tuple(row))} for row in rows],
        )
        purged = update(predictions).where(unpurged).values(purged_at=now)
        return self._connection.execute(purged).rowcount

    def _purge_skips(self, ids: Sequence[str]) -> None:
        column = review_skips.c
        rows = self._connection.execute(
            select(column.task_id, column.reviewer)
            .join(review_tasks, review_tasks.c.id == column.task_id)
            .where(review_tasks.c.prediction_id.in_(ids))
        ).all()
        if rows:
            self._connection.execute(
                update(review_skips)
                .where(
                    column.task_id == bindparam("own_task"),
                    column.reviewer == bindparam("own_reviewer"),
                )
                .values(reason=bindparam("nothing")),
                [
                    {
                        "own_task": row.task_id,
                        "own_reviewer": row.reviewer,
                        "nothing": InRow(PURGED, tuple(row)),
                    }
                    for row in rows
                ],
            )

    def index_words(self, most: int) -> int:
        """Make up to ``most`` new texts searchable by their words; return their number."""
        return SearchIndex(self._connection).add_words(most)

    @property
    def unindexed(self) -> bool:
        """Whether texts are not searchable by their words yet."""
        return SearchIndex(self._connection).waits()

    def forget_words(self) -> None:
        """Remove the traces of purged words from the index of words."""
        SearchIndex(self._connection).compact()

    def any_purged(self, ids: Collection[str]) -> bool:
        """Return whether ids of predictions, or of reviews of them, have a purged document."""
        column, task = predictions.c, review_tasks.c
        for part in _parts(sorted(ids)):
            reviewed = select(task.prediction_id).where(task.id.in_(part))
            named = column.id.in_(part) | column.id.in_(reviewed)
            query = select(column.id).where(named, column.purged_at.is_not(None))
            if self._connection.execute(query.limit(1)).first() is not None:
                return True
        return False

    def named_with(self, prediction_ids: Collection[str]) -> set[str]:
        """Return the ids of predictions and of the reviews of them."""
        named = set(prediction_ids)
        for ids in _parts(sorted(prediction_ids)):
            query = select(review_tasks.c.id).where(review_tasks.c.prediction_id.in_(ids))
            named.update(self._connection.scalars(query))
        return named

    def lines_of(self, prediction_ids: Sequence[str]) -> dict[str, list[int]]:
        """Return the lines of uploaded files that gave these predictions, by job."""
        lines: dict[str, list[int]] = {}
        column = idempotency_keys.c
        for ids in _parts(prediction_ids):
            query = select(column.key).where(column.prediction_id.in_(ids))
            for key in self._connection.scalars(query):
                job_id, _, line = key.partition("\n")
                if line.isdecimal():  # the key of a batch goes on with a # there
                    lines.setdefault(job_id, []).append(int(line))
        return lines

    def forget(self, prediction_ids: Sequence[str]) -> None:
        """Delete names of documents from predictions, messages and idempotency keys."""
        for ids in _parts(prediction_ids):
            column = predictions.c
            named = self._connection.execute(
                select(column.client_id, column.document_id).where(
                    column.id.in_(ids), column.document_id.is_not(None)
                )
            ).all()
            keys = {f"{client_id}/{name}" for client_id, name in named}
            self._forget_in_messages(keys, ids)
            self._connection.execute(
                update(predictions)
                .where(column.id.in_(ids), column.document_id.is_not(None))
                .values(document_id=None)
            )
            self._connection.execute(
                delete(idempotency_keys).where(idempotency_keys.c.prediction_id.in_(ids))
            )
        self.forget_answers(prediction_ids)

    def _forget_in_messages(self, keys: Collection[str], ids: Sequence[str]) -> None:
        message = outbox_messages.c
        messages = self._connection.execute(
            select(message.ordinal, message.data).where(message.document_key.in_(keys))
        ).all()
        for ordinal, data in messages:
            if data.get("prediction_id") not in ids:
                continue
            # One key for all of them: they stay in order.
            key = {"document_key": ids[0]}
            self._connection.execute(
                update(outbox_messages)
                .where(message.ordinal == ordinal)
                .values(data={**data, "document_id": None}, **key)
            )
            self._connection.execute(
                update(deliveries).where(deliveries.c.message_ordinal == ordinal).values(**key)
            )

    def forget_answers(self, prediction_ids: Sequence[str]) -> None:
        """Delete the stored responses of webhook receivers to messages about predictions."""
        for ids in _parts(prediction_ids):
            about = deliveries.c.document_key.in_(ids)  # `forget` left no other key
            delivery_ids = select(deliveries.c.id).where(about)
            self._connection.execute(
                update(delivery_attempts)
                .where(
                    delivery_attempts.c.delivery_id.in_(delivery_ids),
                    delivery_attempts.c.excerpt != "",
                )
                .values(excerpt="")
            )

    def purge_answers(self, before: datetime, limit: int) -> int:
        """Delete the stored responses of webhook receivers; return how many."""
        column = delivery_attempts.c
        old = (
            select(column.id)
            .where(column.id < first_id_at(before), column.excerpt != "")
            .order_by(column.id)
            .limit(limit)
        )
        return self._connection.execute(
            update(delivery_attempts).where(column.id.in_(old.scalar_subquery())).values(excerpt="")
        ).rowcount


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[i : i + _MOST_PARAMETERS] for i in range(0, len(ids), _MOST_PARAMETERS)]
