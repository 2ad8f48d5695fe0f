"""Route that derives a stored decision again and explains it."""

from typing import Literal, Self

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import AnswerBody, Mirror, Policy
from setwise.service.domain.errors import BlindReviewHeld, PredictionNotFound
from setwise.service.domain.routing import derivations as derivation
from setwise.service.requests import Example

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)

_RESULT: Example = {
    "decision": "auto",
    "reason": "above_threshold",
    "threshold": 0.9,
    "rule": None,
    "audit_role": "none",
    "inclusion_probability": 0.06,
}
_INPUTS: Example = {
    "labels": ["E11.9", "Z79.4"],
    "confidence": 0.93,
    "out_of_domain": False,
    "uncalibrated": False,
    "model_version": "3f9c0b7a1d2e",
    "calibrator_version": "9b1d77c0aa52",
    "policy_version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
    "draw": 0.417,
}


class DecisionResult(Mirror):
    """A decision, its reason and its audit."""

    examples = (_RESULT,)

    decision: Literal["auto", "review"]
    reason: str
    threshold: float | None = Field(
        description="Least confidence that would have been sent; null where nothing would."
    )
    rule: str | None = Field(description="The rule that held the document back.")
    audit_role: Literal["none", "certification", "training"]
    inclusion_probability: float | None = Field(
        description="Probability, before the draw, that a person would read the document."
    )


class DecisionInputs(AnswerBody):
    """The inputs of a decision, as stored with the prediction."""

    examples = (_INPUTS,)

    labels: list[str]
    confidence: float
    out_of_domain: bool
    uncalibrated: bool = Field(
        description="Nothing has taught the model how sure to be: a fixed threshold does not apply."
    )
    model_version: str
    calibrator_version: str
    policy_version: str
    draw: float | None = Field(
        description="The number in [0, 1) that decided whether the document is audited; null for "
        "predictions from before there were audits."
    )


class DerivationBody(AnswerBody):
    """A stored decision, and the same decision derived again."""

    examples = (
        {
            "prediction_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
            "equal": True,
            "stored": _RESULT,
            "derived": _RESULT,
            "inputs": _INPUTS,
            "draw_again": 0.417,
            "policy": {
                "version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
                "tripped": False,
                "target_accuracy": 0.95,
                "risk": 0.1,
                "auto_send": True,
                "threshold": {"mode": "fixed", "value": 0.9, "certificate_id": None},
                "audit": {
                    "certification_rate": 0.04,
                    "ramp_up_rate": None,
                    "training_rate": 0.02,
                    "mode": "hold",
                },
                "overlap_rate": 0.0,
                "gold_reread_rate": 0.1,
                "confidence_floor": None,
                "rules": [],
                "segment_by": None,
                "segment_bounds": [],
                "most_segments": 10,
                "segments": [],
            },
        },
    )

    prediction_id: str
    equal: bool | None = Field(
        description="The same follows again; null where a rule may have read metadata that is "
        "forgotten."
    )
    stored: DecisionResult
    derived: DecisionResult
    inputs: DecisionInputs
    draw_again: float | None = Field(
        description="What the document's content draws with the present key: `inputs.draw`, unless "
        "the key was changed. Null where its content is erased or nothing was drawn."
    )
    policy: Policy = Field(description="The version that decided.")

    @classmethod
    def of(cls, derived: derivation.Derivation) -> Self:
        """Return the body for a derivation."""
        prediction, scored = derived.prediction, derived.prediction.scored
        return cls(
            prediction_id=prediction.id,
            equal=derived.equal,
            stored=DecisionResult.of(derived.stored),
            derived=DecisionResult.of(derived.derived),
            inputs=DecisionInputs(
                labels=list(scored.labels),
                confidence=scored.confidence,
                out_of_domain=scored.out_of_domain,
                uncalibrated=scored.uncalibrated,
                model_version=scored.model_version,
                calibrator_version=scored.calibrator_version,
                policy_version=prediction.policy_version,
                draw=prediction.selection.draw,
            ),
            draw_again=derived.draw_again,
            policy=Policy.of(derived.policy),
        )


@router.get(
    "/{prediction_id}/decision",
    response_model=DerivationBody,
    responses=documented(PredictionNotFound, BlindReviewHeld),
)
def derive_decision(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """Explain why a document was sent or not.

    The decision is derived again from the stored inputs to prove it. Only leads, administrators and
    auditors may read it, because it reveals whether a document is audited.
    """
    return answer(DerivationBody.of(services.predictions.derive(caller, prediction_id)))
