"""The comments on a document, below its text on each page that shows it."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Response

from setwise.service.domain.predictions import Prediction
from setwise.service.pages.forms import Filled
from setwise.service.pages.rendering import page
from setwise.service.requests.documents import CommentRequest
from setwise.service.services.all import Services
from setwise.service.sign_in.sessions import Visit


def stored(form: Filled, services: Services, visit: Visit, prediction_id: str) -> bool:
    """Store the comment in a form; return whether it could be stored, after noting why not."""

    def write(comment: CommentRequest) -> None:
        comment.write(services.comments, visit.caller, prediction_id)

    return form.carry_out(CommentRequest, write)


def commented(
    services: Services,
    visit: Visit,
    prediction: Prediction,
    address: str,
    values: Mapping[str, object],
    *,
    tried: Filled | None,
    refused: bool = False,
) -> Response:
    """Return the page of a document with its comments.

    ``address``: Of the page.
    ``tried``: The comment that could not be stored.
    ``refused``: Whether another form of the page was.
    """
    talk = {
        "threads": services.comments.of(visit.caller, prediction.id),
        "address": f"{address}/comments",
        "tried": tried or Filled.of(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if tried or refused else HTTPStatus.OK
    return page("documents.html", {**values, **talk}, visit=visit, status=status)
