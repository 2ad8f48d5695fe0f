"""Comments on documents: who reads them, who writes them, and whom they concern."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.documents import (
    Comment,
    CommentKind,
    NewComments,
    Thread,
    check_comment,
    threads_of,
)
from setwise.service.domain.errors import FieldFault, InvalidRequest, PredictionNotFound
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.predictions import disclose_in, disclose_one
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction

MOST_UNREAD = 20
"""Documents with new comments that are listed."""


@dataclass(frozen=True)
class Comments(Recorded):
    """What people write about documents.

    Who may read all documents reads the comments, and so does who has answered the document. A
    comment may tell the answer: who holds a blind review of the document reads none, and who reads
    them is given none.
    """

    now: WallClock

    def of(self, caller: Caller, prediction_id: str) -> list[Thread]:
        """Return the threads of a document, which the caller has then read.

        Raises `PredictionNotFound`, `BlindReviewHeld`.
        """
        with self.begin(read_only=True) as transaction:
            _check_reader(transaction, caller, prediction_id)
            comments = transaction.comments.of(prediction_id)
            names = transaction.documents.names({comment.author for comment in comments})
            unread = transaction.comments.unread(caller.id, among=prediction_id, limit=1)
        disclose_one(self.begin, self.now, caller, prediction_id)
        if unread and caller.may(Permission.REVIEW):
            with self.begin() as transaction:
                # Another person may have written in the meantime.
                last = max(comment.created_at for comment in comments)
                transaction.comments.note_read(prediction_id, caller.id, last)
        named = [replace(each, name=names.get(each.author)) for each in comments]
        return threads_of(named)

    def write(
        self,
        caller: Caller,
        prediction_id: str,
        text: str,
        kind: CommentKind = CommentKind.COMMENT,
        thread: str | None = None,
    ) -> Comment:
        """Store a comment; a flag asks for attention until its thread is resolved.

        Raises `PredictionNotFound`; `BlindReviewHeld`; `InvalidRequest` if the text cannot be
        stored, the document has no such thread, or the thread has no flag to resolve.

        ``thread``: Id of the comment that began the thread; None to begin one.
        """
        caller.require(Permission.REVIEW)
        check_comment(text, "/text")
        with self.begin() as transaction:
            _check_reader(transaction, caller, prediction_id)
            disclose_in(transaction, self.now, caller, prediction_id)
            threads = threads_of(transaction.comments.of(prediction_id))
            root = next(
                (candidate for candidate in threads if candidate.comments[0].id == thread), None
            )
            if thread is not None and root is None:
                _refuse("/thread", "is no thread of the document")
            if kind is CommentKind.RESOLVED and (root is None or not root.flagged):
                _refuse("/kind", "resolves a flag, which this thread does not have")
            if kind is CommentKind.REOPENED:
                _refuse("/kind", "is written by reopening the document")
            comment_id, now = self.new_id(), self.now()
            comment = Comment(
                comment_id,
                prediction_id,
                thread or comment_id,
                kind,
                caller.id,
                text,
                now,
                name=caller.name,
            )
            transaction.comments.add(comment)
            detail = {"comment_id": comment.id, "kind": kind.value}
            self._note(transaction, caller, "document.commented", prediction_id, **detail)
        return replace(comment, name=caller.name)

    def unread(self, caller: Caller) -> Sequence[NewComments]:
        """Return documents that the caller answered or wrote about, and others wrote about since.

        The last written about comes first. Documents that the caller may no longer read are left
        out.
        """
        caller.require(Permission.REVIEW)
        sees_all = caller.may(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            hidden = transaction.reviews.held_blind(caller.id)
            comments = transaction.comments.unread(caller.id, wrote=sees_all, limit=MOST_UNREAD)
        return [comment for comment in comments if comment.prediction_id not in hidden]


def _check_reader(transaction: Transaction, caller: Caller, prediction_id: str) -> None:
    prediction = transaction.predictions.get(prediction_id)
    sees = caller.may(Permission.READ_ALL_PREDICTIONS)
    if not sees:
        caller.require(Permission.REVIEW)
    if prediction is not None and not sees:
        annotations = transaction.reviews.annotations_of(prediction_id)
        sees = any(annotation.reviewer == caller.id for annotation in annotations)
    if prediction is None or not sees:
        raise PredictionNotFound(f"You may read no document {prediction_id!r}.")


def _refuse(pointer: str, detail: str) -> None:
    raise InvalidRequest("The comment cannot be stored like this.", [FieldFault(pointer, detail)])
