"""Route that derives a stored decision again and explains it."""

from typing import Self

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.views import View
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import BlindReviewHeld, PredictionNotFound
from setwise.service.domain.routing.derivations import Derivation
from setwise.service.requests.policy import PolicyBody

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)


class DerivationBody(View, of=Derivation, shows="equal stored derived inputs draw_again"):
    """A stored decision, and the same decision derived again."""

    prediction_id: str
    policy: PolicyBody = Field(description="The version that decided.")

    @classmethod
    def of(cls, derived: Derivation) -> Self:
        """Return the body for a derivation."""
        return cls.show(
            derived, prediction_id=derived.prediction.id, policy=PolicyBody.of(derived.policy)
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
