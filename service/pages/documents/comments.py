"""The comments on a document, below its text on each page that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Response

from setwise.service.domain.documents import CommentKind
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.predictions import Prediction
from setwise.service.pages.forms import Filled
from setwise.service.pages.rendering import page
from setwise.service.services.all import Services
from setwise.service.sign_in.sessions import Visit


@dataclass
class Written:
    """What the form of a comment sends."""

    text: Annotated[str, Form()] = ""
    kind: Annotated[CommentKind, Form()] = CommentKind.COMMENT
    thread: Annotated[str | None, Form()] = None
    fault: str = field(init=False, default="")
    """Why it was refused."""

    def stored(self, services: Services, visit: Visit, prediction_id: str) -> bool:
        """Store it; return whether it could be stored, and note why not."""
        try:
            services.comments.write(
                visit.caller, prediction_id, self.text.strip(), self.kind, self.thread
            )
        except InvalidRequest as refusal:
            faults = [f"It {fault.detail}." for fault in refusal.faults]
            self.fault = " ".join([refusal.detail, *faults])
        return not self.fault


def commented(
    services: Services,
    visit: Visit,
    prediction: Prediction,
    address: str,
    values: Mapping[str, object],
    *,
    refused: Filled | Written | None,
) -> Response:
    """Return the page of a document with its comments.

    ``address``: Of the page.
    ``refused``: The form, or the comment, that could not be stored.
    """
    talk = {
        "threads": services.comments.of(visit.caller, prediction.id),
        "address": f"{address}/comments",
        "tried": refused if isinstance(refused, Written) else Written(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return page("documents.html", {**values, **talk}, visit=visit, status=status)
