"""Requests for reviews."""

from typing import Annotated

from pydantic import Field

from setwise.limits import MOST_SET_LABELS
from setwise.service.domain.labels import Additions
from setwise.service.requests import Input, RequestBody

Labels = Annotated[list[str], Field(max_length=MOST_SET_LABELS)]


class SkipRequest(RequestBody):
    """Why the reviewer skips the task."""

    reason: str


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


class CompletionRequest(BeyondModel):
    """The label set that is right."""

    labels: Labels = Field(description="Every label that applies; [] when none does.")
    comment: str | None = None


class ReopenRequest(BeyondModel):
    """Why a document is to be decided again."""

    reason: Annotated[str, Input("Why", widget="textarea")] = Field(
        description="Shown with the document and to the person who decides. The last answer stays "
        "in the history."
    )
    labels: Labels | None = Field(
        None, description="Your own answer, at once. Without it, the document waits for review."
    )
