"""The comments on a document, below its text on each page that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Form

from setwise.service.domain.documents import CommentKind
from setwise.service.domain.errors import InvalidRequest
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
            faults = [f"It {one.detail}." for one in refusal.faults]
            self.fault = " ".join([refusal.detail, *faults])
        return not self.fault


def comments_of(
    services: Services, visit: Visit, prediction_id: str, address: str, tried: Written | None
) -> Mapping[str, object]:
    """Return what a page needs to show the comments; ``tried`` is what was refused."""
    return {
        "talk": services.comments.of(visit.caller, prediction_id),
        "address": f"{address}/comments",
        "tried": tried or Written(),
    }
