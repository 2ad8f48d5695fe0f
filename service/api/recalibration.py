"""Routes for calibrators learnt from reviews."""

from datetime import datetime
from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field, JsonValue

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import version_in
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, ServicesOf, answer, listed
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import JobBody, accepted
from setwise.service.api.schemas import AnswerBody, Listed, Paged, Probability
from setwise.service.domain import recalibration as calibration
from setwise.service.domain.errors import (
    CalibrationDamaged,
    CalibrationNotFound,
    CalibrationOfAnotherModel,
    ModelUnavailable,
    NothingToRollBack,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.recalibration import Noise, ServingCalibrator
from setwise.service.requests import Example
from setwise.service.requests.recalibration import CalibrationRequest

router = APIRouter(
    prefix="/v1/admin/calibrations", tags=["administration"], route_class=StrictRoute
)

_SWITCH = (CalibrationDamaged, CalibrationOfAnotherModel, ModelUnavailable)
_NOTICE = (
    "No certificate holds for this calibrator yet, so everything goes to review until its audits "
    "certify a threshold: POST /v1/admin/certifications."
)
_EXAMPLE: Example = {
    "id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
    "model_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a01",
    "model_version": "3f9c0b7a1d2e",
    "calibrator_version": "5ce1b0a94d77",
    "replaces": "90ab12cd34ef",
    "noise": "none",
    "active": False,
    "report": {
        "rows": {
            "used": 1840,
            "agreed": 1391,
            "contradicted": 449,
            "by_source": {"audit": 212, "review": 1628},
            "excluded": {"drawn to certify: what proves the threshold teaches nothing": 96},
        },
        "before": {"brier": {"value": 0.171, "low": 0.158, "high": 0.184}},
        "after": {
            "brier": {"value": 0.149, "low": 0.138, "high": 0.160},
            "judgement": {
                "verdict": "routes",
                "sentence": "Routes: it ranks (AUROC 0.812, 0.781 to 0.843), and its numbers fit.",
            },
        },
        "automation": {
            "target": 0.95,
            "before": {"threshold": 0.97, "coverage": 0.21, "accuracy": 0.951},
            "after": {"threshold": 0.94, "coverage": 0.33, "accuracy": 0.95},
        },
        "comparison": {"better": True, "n": 1840, "gain": 0.022, "p_value": 0.0001},
        "routes": {"documents": 5000, "to_auto": {"count": 41}, "to_review": {"count": 187}},
        "sending": _NOTICE,
    },
    "requested_by": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a99",
    "created_at": "2026-11-21T09:00:00Z",
}


class CalibrationBody(AnswerBody):
    """A calibrator learnt from reviews, compared with the one that served."""

    examples = (_EXAMPLE,)

    id: str
    model_id: str
    model_version: str
    calibrator_version: str = Field(description="Predictions carry it while it serves.")
    replaces: str = Field(description="Version of the calibrator that it was compared with.")
    noise: Noise
    active: bool = Field(description="It serves whenever its model does.")
    report: dict[str, JsonValue] = Field(
        description=(
            "`rows` used, and excluded by reason; `before` and `after` on rows that the "
            "calibrator did not see: Brier score, alignment error, sharpness, reliability curve, "
            "`judgement`; "
            "`automation` at the target; the paired `comparison`; `routes` that would change; "
            "what would happen to `sending`; `warnings`, each a sentence."
        )
    )
    requested_by: str
    created_at: datetime

    @classmethod
    def of(cls, stored: calibration.Calibration) -> Self:
        """Return the body for a calibrator."""
        own = {name: value for name, value in vars(stored).items() if name != "location"}
        version = own.pop("version")
        return cls.model_validate(
            {**own, "calibrator_version": version, "report": dict(stored.report)}
        )


class CalibrationPage(Listed[CalibrationBody]):
    """One page of calibrators, newest first."""


class ServingCalibration(AnswerBody):
    """The calibrator that serves, and whether anything is sent."""

    examples = (
        {
            "model_id": _EXAMPLE["model_id"],
            "model_version": _EXAMPLE["model_version"],
            "calibrator_version": _EXAMPLE["calibrator_version"],
            "calibration": {**_EXAMPLE, "active": True},
            "threshold": None,
            "threshold_mode": "certified",
            "notice": _NOTICE,
        },
    )

    model_id: str
    model_version: str
    calibrator_version: str
    calibration: CalibrationBody | None = Field(description="null is the model's own calibrator.")
    threshold: Probability | None = Field(
        description="Least confidence that is sent; null if nothing is sent."
    )
    threshold_mode: ThresholdMode
    notice: str = Field(description="Whether anything is sent, and what to do if not.")

    @classmethod
    def of(cls, serving: ServingCalibrator) -> Self:
        """Return the body for the calibrator that serves."""
        stored = serving.calibration
        return cls(
            model_id=serving.model.id,
            model_version=serving.model.version,
            calibrator_version=serving.version,
            calibration=None if stored is None else CalibrationBody.of(stored),
            threshold=serving.threshold,
            threshold_mode=serving.policy.threshold_mode,
            notice=serving.notice,
        )


@router.post(
    "",
    status_code=202,
    response_model=JobBody,
    responses=answering("Location", status=202) | documented(ModelUnavailable),
)
def request_calibration(
    caller: CallerOf, body: CalibrationRequest, services: ServicesOf
) -> Response:
    """Queue a job that learns a calibrator for the active model.

    It learns from reviews. Audits drawn to certify are excluded: data that proves a threshold must
    not train the calibrator. The model and the label sets that it predicts do not change. One
    recalibration runs at a time; while it runs, this returns its job. The job's result names the
    calibrator. The job fails, with advice, if there are too few reviews (`not-enough-reviews`) or
    if the error rates of reviewers are unknown (`rates-unknown`).
    """
    return accepted(services.recalibration.request(caller, body.as_options()))


@router.get("", response_model=CalibrationPage)
def list_calibrations(caller: CallerOf, query: Annotated[Paged, Query()], edge: EdgeOf) -> Response:
    """List the calibrators of all models, newest first."""
    read = partial(edge.services.recalibration.page, caller)
    return listed(edge, query, "calibrations", read, CalibrationBody.of)


@router.post(
    "/rollback",
    response_model=ServingCalibration,
    responses=documented(*_SWITCH, NothingToRollBack, StaleVersion, VersionRequired),
)
def roll_back_calibration(
    caller: CallerOf,
    services: ServicesOf,
    if_match: Annotated[
        str | None,
        Header(
            description="The `calibrator_version` to leave, in quotes, as predictions carry it. "
            "Required."
        ),
    ] = None,
) -> Response:
    """Activate the calibrator that served before the one named in `If-Match`.

    It may be the model's own. If it has a valid certificate, its threshold is in force at once. If
    another calibrator serves, nothing happens: a repeated request cannot undo the first.
    """
    serving = services.recalibration.roll_back(caller, version_in(if_match))
    return answer(ServingCalibration.of(serving))


@router.get(
    "/{calibration_id}", response_model=CalibrationBody, responses=documented(CalibrationNotFound)
)
def get_calibration(caller: CallerOf, calibration_id: str, services: ServicesOf) -> Response:
    """Read one calibrator with its report."""
    return answer(CalibrationBody.of(services.recalibration.get(caller, calibration_id)))


@router.post(
    "/{calibration_id}/activate",
    response_model=ServingCalibration,
    responses=documented(*_SWITCH, CalibrationNotFound),
)
def activate_calibration(caller: CallerOf, calibration_id: str, services: ServicesOf) -> Response:
    """Activate a calibrator of the active model.

    The calibrator is loaded first. It serves in this process when the response arrives and in the
    other processes within seconds. A certificate holds for one calibrator only: in mode
    `certified`, nothing is sent until a threshold is certified for this one, as `notice` says.
    """
    return answer(ServingCalibration.of(services.recalibration.activate(caller, calibration_id)))
