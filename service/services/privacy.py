"""Keep what people wrote no longer than it may be kept; forget it when somebody asks."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from setwise.service.domain.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.predictions import Decision
from setwise.service.services.recording import Recorded

AT_ONCE = 500
"""Documents of one transaction, so that nobody waits for long."""


@dataclass(frozen=True)
class PurgeTexts(Recorded):
    """Take texts away whose time is over. Labels, numbers and the audit trail stay.

    Documents that wait for a person keep their text until the person is done.

    Attributes
    ----------
    auto, reviewed : timedelta or None
        How long texts are kept of documents that were sent without a person, and of those that
        people reviewed; None for ever.
    """

    auto: timedelta | None
    reviewed: timedelta | None

    def __call__(self) -> int:
        """Return how many documents lost their text."""
        now = self.now()
        purged = 0
        for decision, kept in ((Decision.AUTO, self.auto), (Decision.REVIEW, self.reviewed)):
            if kept is not None:
                purged += sum(self._purge(decision, now - kept, now))
        if self.auto is not None:
            self._purge_answers(now - self.auto)
        return purged

    def _purge(self, decision: Decision, before: datetime, now: datetime) -> Iterator[int]:
        after = None
        while True:
            with self.begin() as transaction:
                ids = transaction.texts.purgeable(
                    decision, before=before, after=after, limit=AT_ONCE
                )
                if not ids:
                    return
                purged = transaction.texts.purge(ids, now)
                self._note(
                    transaction,
                    SYSTEM,
                    "texts.purged",
                    decision.value,
                    None,
                    documents=purged,
                    before=before.isoformat(),
                )
                transaction.commit()
            after = ids[-1]
            yield purged

    def _purge_answers(self, before: datetime) -> None:
        while True:
            with self.begin() as transaction:
                purged = transaction.texts.purge_answers(before, AT_ONCE)
                transaction.commit()
            if purged < AT_ONCE:
                return


@dataclass(frozen=True)
class EraseDocument(Recorded):
    """Forget a document at somebody's request, at once, even if a review of it is not done.

    Its text, features, metadata, comments and its own id go; what was predicted stays as numbers
    without a name. Messages that are still on their way keep the id until they have arrived.
    """

    def __call__(self, caller: Caller, document_id: str, *, request_id: str | None = None) -> int:
        """Return how many predictions of the document there were; none is no fault."""
        caller.require(Permission.ADMINISTER)
        if not document_id or "\x00" in document_id:
            fault = FieldFault("/document_id", "must be the id that its sender gave the document")
            raise InvalidRequest("No document has such an id.", [fault])
        with self.begin() as transaction:
            ids = transaction.texts.of_document(document_id)
            transaction.texts.purge(ids, self.now())
            transaction.texts.forget_name(document_id)
            # The trail names the predictions, not the document.
            for prediction_id in ids:
                self._note(transaction, caller, "document.erased", prediction_id, request_id)
            transaction.commit()
        return len(ids)
