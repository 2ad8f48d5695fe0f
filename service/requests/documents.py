"""Requests about documents."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.limits import MOST_SET_LABELS
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.documents import Comment, CommentKind
from setwise.service.domain.labels import Additions
from setwise.service.requests import Input, RequestBody
from setwise.service.services.documents.comments import Comments

Labels = Annotated[list[str], Field(max_length=MOST_SET_LABELS)]
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


class BeyondModel(RequestBody):
    """What an answer says of labels that neither the model nor the catalogue has."""

    new_labels: Labels = Field(
        [],
        description="Those of `labels` that are new: they are added to the catalogue, and a "
        "lead decides on them.",
    )
    insist: bool = Field(
        False, description="Add new labels although the catalogue has similar ones."
    )
    label_missing: bool = Field(
        False,
        description="A label applies besides that is in no list, and you give it no name. The set "
        "counts as wrong, and teaches a model nothing.",
    )

    def additions(self) -> Additions:
        """Return what the answer says, for the service."""
        return Additions(self.new_labels, self.insist, self.label_missing)


class ReopenRequest(BeyondModel):
    """Why a document is to be decided again."""

    examples = (
        {"reason": "The patient called: it was the left knee."},
        {"reason": "I overlooked page two.", "labels": ["J18.9"]},
    )

    reason: Annotated[str, Input("Why", widget="textarea")] = Field(
        description="Shown with the document and to the person who decides. The last answer stays "
        "in the history."
    )
    labels: Labels | None = Field(
        None, description="Your own answer, at once. Without it, the document waits for review."
    )
