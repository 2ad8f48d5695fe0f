"""The breaker: why nothing is sent, and how sending starts again."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.breaker import Position, Trip, TripCause
from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import Conflict, InvalidRequest
from setwise.service.domain.policy import ThresholdMode
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/breaker"

CAUSES = {
    TripCause.DRIFT: "audits say that the target is no longer met",
    TripCause.STALE: "too much was sent without an audit that was read to the end",
}
POSITIONS = {
    Position.TRIPPED: ("tripped", "bad"),
    Position.WATCHING: ("watching", "good"),
    Position.IDLE: ("idle", ""),
}


def breaker_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the breaker."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
        done: str = "",
    ) -> Response:
        """Show what the breaker watches and what it did."""
        state = verbs.get_breaker(visit.caller)
        word, tone = POSITIONS[state.watch.position]
        values = {
            "state": state,
            "word": word,
            "tone": tone,
            "counts": state.watch.counts(),
            "cause": cause,
        }
        return framed("board_breaker.html", values, visit=visit, section=HERE, notice=done)

    @router.get(f"{HERE}/reset")
    def ask(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))],
    ) -> Response:
        """Say what resetting does, and ask."""
        return _question(verbs, visit).ask(visit, HERE)

    @router.post(f"{HERE}/reset")
    def reset(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Let sending go on."""
        fixed = verbs.get_policy(visit.caller).threshold_mode is ThresholdMode.FIXED
        try:
            verbs.reset_breaker(visit.caller, uncertified=fixed, request_id=request_id_of(request))
        except (Conflict, InvalidRequest) as error:
            question = _question(verbs, visit)
            return question.ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "breaker-reset")

    return router


def cause(trip: Trip) -> str:
    """Say why the breaker tripped."""
    return CAUSES[trip.cause]


def _question(verbs: Verbs, visit: Visit) -> Question:
    fixed = verbs.get_policy(visit.caller).threshold_mode is ThresholdMode.FIXED
    word = (
        "The threshold was fixed by hand, so it goes on upon your word alone: nothing proves it."
        if fixed
        else "It takes a certificate from audits made since then; without one this is refused."
    )
    return Question(
        heading="Let label sets be sent again?",
        will=(
            "From the next document on, confident label sets leave without a person again.",
            word,
            "What was held back meanwhile stays with the reviewers.",
            "Who let it go on, and when, stands in the audit trail.",
        ),
        answer="Let them be sent",
        address=f"{HERE}/reset",
        back=HERE,
    )
