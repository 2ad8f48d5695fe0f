"""The part of the database in memory that forgets what people wrote."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from setwise.service.domain.predictions import Decision
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.webhooks import DeliveryState


@dataclass
class FakeTexts:
    """What people wrote. (Any: the contents of the fake database.)"""

    contents: Any

    def purgeable(
        self, decision: Decision, *, before: datetime, after: str | None, limit: int
    ) -> list[str]:
        unfinished = {
            task.prediction.id
            for task in self.contents.reviews.values()
            if task.state is not ReviewState.COMPLETED
        }
        ids = [
            one.id
            for one in self.contents.predictions.values()
            if one.decision is decision
            and one.created_at < before
            and one.id not in self.contents.purged
            and one.id not in unfinished
            and one.id > (after or "")
        ]
        return sorted(ids)[:limit]

    def of_document(self, document_id: str) -> list[str]:
        predictions = self.contents.predictions.values()
        return sorted(one.id for one in predictions if one.document.id == document_id)

    def purge(self, prediction_ids: Sequence[str], now: datetime) -> int:
        fresh = [one for one in prediction_ids if one not in self.contents.purged]
        for name in fresh:
            self._change(name, text=None, features=None, metadata={})
            self.contents.purged[name] = now
        for task_id, kept in self.contents.annotations.items():
            if kept.prediction_id in prediction_ids:
                self.contents.annotations[task_id] = replace(kept, comment=None)
        for task_id, task in self.contents.reviews.items():
            if task.prediction.id in prediction_ids:
                skips = tuple(replace(skip, reason="purged") for skip in task.skips)
                decision = task.decision and replace(task.decision, comment=None)
                self.contents.reviews[task_id] = replace(task, skips=skips, decision=decision)
        return len(fresh)

    def forget_name(self, document_id: str) -> None:
        outgoing = self.contents.outgoing
        pending = {
            delivery.message.id
            for delivery in outgoing.deliveries.values()
            if delivery.state is DeliveryState.PENDING
        }
        for name in self.of_document(document_id):
            self._change(name, id=None)
            for message in list(outgoing.messages.values()):
                if message.data.get("prediction_id") == name and message.id not in pending:
                    data = {**message.data, "document_id": None}
                    outgoing.messages[message.id] = message._replace(data=data, document_key=name)

    def purge_answers(self, before: datetime, limit: int) -> int:
        attempts = self.contents.outgoing.attempts
        old = [
            one
            for one in attempts.values()
            if one.answer.started_at < before and one.answer.excerpt
        ][:limit]
        for one in old:
            attempts[one.id] = replace(one, answer=replace(one.answer, excerpt=""))
        return len(old)

    def _change(self, prediction_id: str, **fields: Any) -> None:
        kept = self.contents.predictions[prediction_id]
        changed = kept._replace(document=kept.document._replace(**fields))
        self.contents.predictions[prediction_id] = changed
        for task_id, task in self.contents.reviews.items():
            if task.prediction.id == prediction_id:
                self.contents.reviews[task_id] = replace(task, prediction=changed)
