"""Requests about documents."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.documents import Comment, CommentKind
from setwise.service.requests import Input, RequestBody
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.selections import MOST_CHANGED, SelectionOutcome, Selections


class CommentRequest(RequestBody):
    """What others should know about a document."""

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


class ActionKind(StrEnum):
    """What to do with documents."""

    ASSIGN = "assign"
    PRIORITIZE = "prioritize"
    DEPRIORITIZE = "deprioritize"
    REOPEN = "reopen"


class ActionRequest(RequestBody):
    """Something to do with several documents."""

    model_config = ConfigDict(strict=False)

    action: ActionKind
    ids: list[str] = Field(max_length=MOST_CHANGED, description="Ids of predictions.")
    assignee: str | None = Field(
        None, description="To `assign`: id of the person; null lets anyone review them again."
    )
    reason: str = Field("", description="To `reopen`: shown to the person who decides.")

    def carry_out(self, selections: Selections, caller: Caller) -> SelectionOutcome:
        """Do it with all the documents."""
        match self.action:
            case ActionKind.ASSIGN:
                return selections.assign(caller, self.ids, self.assignee)
            case ActionKind.REOPEN:
                return selections.reopen(caller, self.ids, self.reason)
            case _:
                first = self.action is ActionKind.PRIORITIZE
                return selections.prioritize(caller, self.ids, first=first)
