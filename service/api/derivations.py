"""Route that derives a stored decision again and explains it."""

from typing import Self

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import (
    AnswerBody,
)
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import BlindReviewHeld, PredictionNotFound
from setwise.service.domain.routing.derivations import DecisionInputs, DecisionResult, Derivation
from setwise.service.requests.policy import PolicyBody

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)


class DerivationBody(AnswerBody):
    """A stored decision, and the same decision derived again."""

    prediction_id: str
    equal: bool | None = Field(
        description="The same follows again; null where a rule may have read metadata that is "
        "forgotten."
    )
    stored: DecisionResult
    derived: DecisionResult
    inputs: DecisionInputs
    draw_again: float | None = Field(
        description="What the document's id and content draw with the present key: `inputs.draw`, "
        "unless the key was changed. Null where its content is erased or nothing was drawn."
    )
    policy: PolicyBody = Field(description="The version that decided.")

    @classmethod
    def of(cls, derived: Derivation) -> Self:
        """Return the body for a derivation."""
        return cls(
            prediction_id=derived.prediction.id,
            equal=derived.equal,
            stored=derived.stored,
            derived=derived.derived,
            inputs=derived.inputs,
            draw_again=derived.draw_again,
            policy=PolicyBody.of(derived.policy),
        )


@router.get(
    "/{prediction_id}/decision",
    response_model=DerivationBody,
    responses=documented(PredictionNotFound, BlindReviewHeld),
    dependencies=[needs(Permission.REPORT)],
)
def derive_decision(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """Explain why a document was sent or not.

    The decision is derived again from the stored inputs to prove it. Only leads, administrators and
    auditors may read it, because it reveals whether a document is audited.
    """
    return answer(DerivationBody.of(services.predictions.derive(caller, prediction_id)))
