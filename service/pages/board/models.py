"""Models: check one, let it shadow the present one, see whose route would flip, let it serve."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.comparison import Tally
from setwise.service.domain.errors import Conflict, InvalidRequest, ModelNotFound
from setwise.service.domain.models import ModelVersion
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.models import MOST_COMPARED
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/models"
JOBS = "/board/jobs"
PAGE = 50

_UNPROVED = (
    "A certified threshold holds for the model it was proved for: until audits prove one for this "
    "model, it sends nothing unless the threshold is fixed."
)


def model_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the models."""
    router = APIRouter(route_class=Page)
    router.include_router(_changes(verbs, visitors))

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """List the registered models."""
        models = verbs.list_models(visit.caller)
        values = {"models": models, "summaries": {one.id: summary(one) for one in models}}
        return framed("board_models.html", values, visit=visit, section=HERE, notice=done)

    @router.get(f"{HERE}/{{model_id}}")
    def one(
        model_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
        routes: str = "",
        after: str | None = None,
    ) -> Response:
        """Show a model beside the one that serves."""
        return _one(verbs, visit, model_id, notice=done, routes_only=routes == "yes", after=after)

    router.include_router(_trials(verbs, visitors))
    return router


def _trials(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which a model is tried before it serves."""
    router = APIRouter(route_class=Page)

    @router.post(f"{HERE}/{{model_id}}/verify")
    def verify(
        model_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Load a model beside the one that serves."""
        try:
            verbs.verify_model(visit.caller, model_id)
        except Conflict as error:
            return _one(verbs, visit, model_id, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(f"{HERE}/{model_id}", "model-sound")

    @router.post(f"{HERE}/{{model_id}}/compare")
    def compare(
        request: Request,
        model_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Have a model score recent documents again, in the background."""
        documents = form.whole("documents", 1, MOST_COMPARED)
        if documents is not None:
            try:
                job = verbs.submit_compare(
                    visit.caller, model_id, documents, request_id=request_id_of(request)
                )
            except InvalidRequest as error:
                form.refused(error, {"/documents": "documents"})
            else:
                return go(f"{JOBS}/{job.id}")
        return _one(verbs, visit, model_id, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    @router.post(f"{HERE}/{{model_id}}/shadow")
    def shadow(
        request: Request,
        model_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Let a model score live documents, or no longer."""
        request_id = request_id_of(request)
        ends = form.text("end") == "yes"
        try:
            if ends:
                verbs.end_shadow(visit.caller, model_id, request_id=request_id)
            else:
                verbs.begin_shadow(visit.caller, model_id, request_id=request_id)
        except Conflict as error:
            return _one(verbs, visit, model_id, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(f"{HERE}/{model_id}", "shadow-ended" if ends else "shadow-begun")

    return router


def _changes(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which another model comes to serve."""
    router = APIRouter(route_class=Page)

    @router.get(f"{HERE}/rollback")
    def ask_back(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))],
    ) -> Response:
        """Say what rolling back does, and ask."""
        return _back().ask(visit, HERE)

    @router.post(f"{HERE}/rollback")
    def roll_back(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Let the model serve again that served before."""
        try:
            verbs.roll_back_model(visit.caller, request_id=request_id_of(request))
        except Conflict as error:
            return _back().ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "model-rolled-back")

    @router.get(f"{HERE}/{{model_id}}/activate")
    def ask(
        model_id: str, visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))]
    ) -> Response:
        """Say what activating a model does, and ask."""
        return _question(verbs, visit, model_id).ask(visit, HERE)

    @router.post(f"{HERE}/{{model_id}}/activate")
    def activate(
        request: Request,
        model_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Let a model serve."""
        try:
            verbs.activate_model(visit.caller, model_id, request_id=request_id_of(request))
        except (Conflict, InvalidRequest) as error:
            question = _question(verbs, visit, model_id)
            return question.ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "model-activated")

    return router


def _one(
    verbs: Verbs,
    visit: Visit,
    model_id: str,
    *,
    form: Filled | None = None,
    refusal: str = "",
    notice: str = "",
    routes_only: bool = False,
    after: str | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    report = verbs.get_comparison(
        visit.caller, model_id, routes_only=routes_only, after=after, limit=PAGE
    )
    values = {
        "model": report.model,
        "summary": summary(report.model),
        "metrics": metrics(report.model),
        "shadow": report.shadow,
        "tally": report.tally,
        "differing": report.differing,
        "routes_only": routes_only,
        "at_start": after is None,
        "query": {"routes": "yes"} if routes_only else {},
        "form": form or Filled.of(documents="1000"),
        "refusal": refusal,
    }
    return framed(
        "board_model.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _question(verbs: Verbs, visit: Visit, model_id: str) -> Question:
    models = verbs.list_models(visit.caller)
    model = next((one for one in models if one.id == model_id), None)
    if model is None:
        raise ModelNotFound(f"No registered model has the id {model_id!r}.")
    tally = verbs.get_comparison(visit.caller, model_id, limit=1).tally
    serving = next((one for one in models if one.active), None)
    return Question(
        heading=f"Let {short(model.version)} serve?",
        will=(
            "It is loaded first; should that fail, the present model goes on serving.",
            f"From then on it decides every document, in place of {short(serving.version)}."
            if serving
            else "From then on it decides every document.",
            *flips(tally),
            _UNPROVED,
            "No request is dropped, and you can roll back.",
        ),
        answer="Let it serve",
        address=f"{HERE}/{model_id}/activate",
        back=f"{HERE}/{model_id}",
        dangerous=False,
    )


def flips(tally: Tally) -> list[str]:
    """Say what the comparison tells of a model.

    >>> flips(Tally())
    ['It has not been compared with the present model; you can do that first.']
    """
    if not tally.compared:
        return ["It has not been compared with the present model; you can do that first."]
    told = (
        f"Of {tally.compared:,} documents that both have scored, {tally.auto_candidate:,} that "
        f"waited would be sent, and {tally.auto_serving:,} that were sent would wait; "
        f"{tally.compared - tally.same_labels:,} would get another label set."
    )
    return [told]


def short(version: str) -> str:
    """Return as much of a version as people compare.

    >>> short("sha256:3f9c0b7a1d2e44")
    '3f9c0b7a1d2e'
    """
    return version.removeprefix("sha256:")[:12]


def summary(model: ModelVersion) -> list[str]:
    """Say in a few words what a model is."""
    told = model.summary
    words = [str(told["method"])] if told.get("method") else []
    if isinstance(told.get("n_labels"), int):
        words.append(f"{told['n_labels']:,} labels")
    return words


def metrics(model: ModelVersion) -> dict[str, float]:
    """Return what a model's training measured of it."""
    found = model.summary.get("metrics")
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name).replace("_", " "): float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _back() -> Question:
    return Question(
        heading="Roll back to the model before?",
        will=(
            "The model that served before the present one is loaded and serves again.",
            "The present one stays registered; rolling back once more returns to it.",
            "What was predicted keeps the version that predicted it.",
        ),
        answer="Roll back",
        address=f"{HERE}/rollback",
        back=HERE,
    )
