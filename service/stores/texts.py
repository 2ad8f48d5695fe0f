"""Taking away what people wrote, where its time is over or somebody asked for it."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, exists, select, update

from setwise.service.domain.identity import first_id_at
from setwise.service.domain.predictions import Decision
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.webhooks import DeliveryState
from setwise.service.stores.tables import (
    annotations,
    deliveries,
    delivery_attempts,
    outbox_messages,
    predictions,
    review_skips,
    review_tasks,
)

PURGED = "purged"
"""Stands where a reason was that somebody wrote."""

_MOST_PARAMETERS = 500


class TextStore:
    """What people wrote: documents, their metadata, comments. Numbers and labels stay."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def purgeable(
        self, decision: Decision, *, before: datetime, after: str | None, limit: int
    ) -> list[str]:
        """Return the oldest predictions of that age with texts whose reviews are all done.

        Gives ids, in order, beginning behind ``after``.
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
                # Ids order by time, and have an index with the decision.
                column.id < first_id_at(before),
                column.created_at < before,
                column.purged_at.is_(None),
                ~unfinished,
            )
            .order_by(column.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(column.id > after)
        return list(self._connection.execute(query).scalars())

    def of_document(self, document_id: str) -> list[str]:
        """Return the predictions of a document, whoever posted it."""
        column = predictions.c
        query = select(column.id).where(column.document_id == document_id).order_by(column.id)
        return list(self._connection.scalars(query))

    def purge(self, prediction_ids: Sequence[str], now: datetime) -> int:
        """Take text, features, metadata, comments and reasons of skips away; returns how many."""
        purged = 0
        for ids in _parts(prediction_ids):
            column = predictions.c
            purged += self._connection.execute(
                update(predictions)
                .where(column.id.in_(ids), column.purged_at.is_(None))
                .values(text=None, features=None, metadata={}, purged_at=now)
            ).rowcount
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
            tasks = select(review_tasks.c.id).where(review_tasks.c.prediction_id.in_(ids))
            self._connection.execute(
                update(review_skips).where(review_skips.c.task_id.in_(tasks)).values(reason=PURGED)
            )
        return purged

    def forget_name(self, document_id: str) -> None:
        """Take a document's own id away, also from messages, except those still on their way."""
        column = predictions.c
        named = column.document_id == document_id
        clients = self._connection.execute(select(column.client_id).where(named).distinct())
        keys = [f"{client_id}/{document_id}" for client_id in clients.scalars()]
        self._connection.execute(update(predictions).where(named).values(document_id=None))
        told = outbox_messages.c
        pending = exists().where(
            deliveries.c.message_ordinal == told.ordinal,
            deliveries.c.state == DeliveryState.PENDING.value,
        )
        messages = self._connection.execute(
            select(told.ordinal, told.data).where(told.document_key.in_(keys), ~pending)
        ).all()
        for ordinal, data in messages:
            key = {"document_key": data["prediction_id"]}
            self._connection.execute(
                update(outbox_messages)
                .where(told.ordinal == ordinal)
                .values(data={**data, "document_id": None}, **key)
            )
            self._connection.execute(
                update(deliveries).where(deliveries.c.message_ordinal == ordinal).values(**key)
            )

    def purge_answers(self, before: datetime, limit: int) -> int:
        """Take away what receivers of webhooks answered; returns how many answers."""
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
