"""Routes for calibrators learnt from reviews."""

from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import version_in
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import JobBody, accepted
from setwise.service.api.schemas import Listed, Paged
from setwise.service.api.views import View
from setwise.service.domain.accounts.callers import Permission
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
from setwise.service.domain.recalibration import (
    Calibration,
    ServingCalibrator,
)
from setwise.service.requests.recalibration import CalibrationRequest

router = APIRouter(
    prefix="/v1/admin/calibrations", tags=["administration"], route_class=StrictRoute
)

_SWITCH = (CalibrationDamaged, CalibrationOfAnotherModel, ModelUnavailable)


class CalibrationBody(
    View,
    of=Calibration,
    shows="id model_id model_version replaces noise active report requested_by created_at",
):
    """A calibrator learnt from reviews, compared with the one that served."""

    calibrator_version: str = Field(description="Predictions carry it while it serves.")

    @classmethod
    def of(cls, stored: Calibration) -> Self:
        """Return the body for a calibrator."""
        return cls.show(stored, calibrator_version=stored.version)


class CalibrationPage(Listed[CalibrationBody]):
    """One page of calibrators, newest first."""


class ServingCalibration(View, of=ServingCalibrator, shows="threshold notice"):
    """The calibrator that serves, and whether anything is sent."""

    model_id: str
    model_version: str
    calibrator_version: str
    calibration: CalibrationBody | None = Field(description="null is the model's own calibrator.")
    threshold_mode: ThresholdMode

    @classmethod
    def of(cls, serving: ServingCalibrator) -> Self:
        """Return the body for the calibrator that serves."""
        stored = serving.calibration
        return cls.show(
            serving,
            model_id=serving.model.id,
            model_version=serving.model.version,
            calibrator_version=serving.version,
            calibration=None if stored is None else CalibrationBody.of(stored),
            threshold_mode=serving.policy.threshold_mode,
        )


@router.post(
    "",
    status_code=202,
    response_model=JobBody,
    responses=answering("Location", status=202) | documented(ModelUnavailable),
    dependencies=[needs(Permission.ADMINISTER)],
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


@router.get(
    "", response_model=CalibrationPage, dependencies=[needs(Permission.REPORT, Permission.INSPECT)]
)
def list_calibrations(caller: CallerOf, query: Annotated[Paged, Query()], edge: EdgeOf) -> Response:
    """List the calibrators of all models, newest first."""
    read = partial(edge.services.recalibration.page, caller)
    return listed(edge, query, "calibrations", read, CalibrationBody.of)


@router.post(
    "/rollback",
    response_model=ServingCalibration,
    responses=documented(*_SWITCH, NothingToRollBack, StaleVersion, VersionRequired),
    dependencies=[needs(Permission.ADMINISTER)],
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
    "/{calibration_id}",
    response_model=CalibrationBody,
    responses=documented(CalibrationNotFound),
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def get_calibration(caller: CallerOf, calibration_id: str, services: ServicesOf) -> Response:
    """Read one calibrator with its report."""
    return answer(CalibrationBody.of(services.recalibration.get(caller, calibration_id)))


@router.post(
    "/{calibration_id}/activate",
    response_model=ServingCalibration,
    responses=documented(*_SWITCH, CalibrationNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def activate_calibration(caller: CallerOf, calibration_id: str, services: ServicesOf) -> Response:
    """Activate a calibrator of the active model.

    The calibrator is loaded first. It serves in this process when the response arrives and in the
    other processes within seconds. A certificate holds for one calibrator only: in mode
    `certified`, nothing is sent until a threshold is certified for this one, as `notice` says.
    """
    return answer(ServingCalibration.of(services.recalibration.activate(caller, calibration_id)))
