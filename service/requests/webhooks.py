"""Requests for webhooks."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.service.domain.webhooks import SUBSCRIBABLE, EndpointChange, MessageType
from setwise.service.requests import Input, RequestBody

Subscribable = Literal[
    "prediction.auto_sent", "review.completed", "document.corrected", "policy.tripped"
]
EVENTS = {
    MessageType.PREDICTION_AUTO_SENT: "a label set is sent automatically",
    MessageType.REVIEW_COMPLETED: "a reviewer submits a label set",
    MessageType.DOCUMENT_CORRECTED: "a label set that was sent turns out to be wrong",
    MessageType.POLICY_TRIPPED: "the breaker stops automatic sending",
}


class WebhookRequest(RequestBody):
    """Your URL that receives messages."""

    url: Annotated[str, Input("Address", widget="url")] = Field(
        description="An `https` address on the public internet."
    )
    description: Annotated[str, Input("Description")] = Field(
        "", description="Who runs it, for your own use."
    )
    events: Annotated[
        list[Subscribable],
        Input(
            "Events (none selected: all of them)",
            widget="boxes",
            choices=[(kind.value, kind.value, f"When {EVENTS[kind]}.") for kind in SUBSCRIBABLE],
        ),
    ] = Field(default_factory=list, max_length=20, description="Types of messages; [] for all.")
    enabled: Annotated[bool, Input("On", "Messages wait while it is off.", "tick")] = Field(
        True, description="While false, deliveries wait; they go out in order once it is true."
    )

    def as_change(self) -> EndpointChange:
        """Return the change for the service."""
        events = [MessageType(kind) for kind in self.events]
        return EndpointChange(self.url, self.description, events, self.enabled)
