"""Requests about documents."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.documents import Comment, CommentKind
from setwise.service.requests import Input, RequestBody
from setwise.service.services.documents.comments import Comments

_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"


class CommentRequest(RequestBody):
    """What others should know about a document."""

    examples = (
        {"text": "Is the date right?", "kind": "flagged"},
        {"text": "It is.", "kind": "resolved", "thread": _ID},
    )

    text: Annotated[str, Input("What others should know", widget="textarea")]
    kind: Annotated[Literal["comment", "flagged", "resolved"], Input(widget="hidden")] = Field(
        "comment",
        description="`flagged` asks for attention, until the thread is `resolved`.",
    )
    thread: Annotated[str | None, Input(widget="hidden")] = Field(
        None, description="Id of the comment that it answers, if any."
    )

    def write(self, comments: Comments, caller: Caller, prediction_id: str) -> Comment:
        """Store the comment."""
        kind = CommentKind(self.kind)
        return comments.write(caller, prediction_id, self.text, kind, self.thread)
