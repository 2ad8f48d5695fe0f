"""Calibrators: learn one from reviews, read what it is worth, let it serve, go back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import Conflict, InvalidRequest, ModelUnavailable, StaleVersion
from setwise.service.domain.recalibration import Activate, Calibration, Noise, Rates
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.board.reliability import reliability
from setwise.service.pages.figures.numerals import chance, confidence, exactly, percent
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page, go, taken_away
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.recalibration import Options
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/calibrators"
JOBS = "/board/jobs"
PAGE = 25

NOISE = (
    (Noise.NONE.value, "Take reviewers at their word", ""),
    (
        Noise.KNOWN.value,
        "Correct for rates that are set",
        "Those of their groups, or the ones below for everybody.",
    ),
    (
        Noise.ESTIMATED.value,
        "Correct for rates that are estimated",
        "From answers that a lead decided, group by group.",
    ),
)
ACTIVATE = (
    (Activate.NEVER.value, "It waits for somebody to let it serve", ""),
    (
        Activate.IF_BETTER.value,
        "It serves at once if it is proved better",
        "By a paired test on rows that it has not seen.",
    ),
)

_UNPROVED = (
    "A certified threshold holds for one calibrator only: until one is proved for this one, "
    "nothing is sent by itself unless the threshold is fixed."
)
_PLACES = {"/rates": "alpha", "/rates/alpha": "alpha", "/rates/beta": "beta"}
_Refused = (Conflict, StaleVersion, ModelUnavailable)


def calibrator_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the calibrators."""
    router = APIRouter(route_class=Page)
    router.include_router(_changes(verbs, visitors))

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
        done: str = "",
        after: str | None = None,
    ) -> Response:
        """List the calibrators that were learnt, and offer to learn one."""
        form = Filled.of(noise=Noise.NONE.value, activate=Activate.NEVER.value)
        return _list(verbs, visit, form, notice=done, after=after)

    @router.post(HERE)
    def learn(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Have a calibrator learnt in the background, and follow the job."""
        options = _options(form)
        if options is not None:
            try:
                job = verbs.request_calibration(
                    visit.caller, options, request_id=request_id_of(request)
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            except ModelUnavailable as error:
                form.blame("", error.detail)
            else:
                return go(f"{JOBS}/{job.id}")
        return _list(verbs, visit, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    @router.get(f"{HERE}/{{calibration_id}}")
    def one(
        calibration_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
    ) -> Response:
        """Show one calibrator beside the one that served when it was learnt."""
        made = verbs.get_calibration(visit.caller, calibration_id)
        values = {
            "made": made,
            "measures": list(measures(made.report)),
            "verdict": verdict(made.report),
            "rows": part(made.report, "rows"),
            "routes": part(made.report, "routes"),
            "flips": list(flips(made.report)),
            "reliability": reliability(made.report),
            "address": f"{HERE}/{made.id}".__add__,
        }
        return framed("board_calibrator.html", values, visit=visit, section=HERE)

    @router.get(f"{HERE}/{{calibration_id}}/reliability.{{form}}")
    def numbers(
        calibration_id: str,
        form: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
    ) -> Response:
        """Give the numbers of the reliability diagram as CSV or JSON."""
        made = verbs.get_calibration(visit.caller, calibration_id)
        return taken_away(reliability(made.report), form)

    return router


def _changes(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which another calibrator comes to serve."""
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
        """Let the calibrator serve again that served before."""
        try:
            verbs.roll_back_calibration(visit.caller, request_id=request_id_of(request))
        except _Refused as error:
            return _back().ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "calibrator-rolled-back")

    @router.get(f"{HERE}/{{calibration_id}}/activate")
    def ask(
        calibration_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))],
    ) -> Response:
        """Say what activating a calibrator does, and ask."""
        return _question(verbs.get_calibration(visit.caller, calibration_id)).ask(visit, HERE)

    @router.post(f"{HERE}/{{calibration_id}}/activate")
    def activate(
        request: Request,
        calibration_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Let a calibrator serve."""
        try:
            verbs.activate_calibration(
                visit.caller, calibration_id, request_id=request_id_of(request)
            )
        except _Refused as error:
            question = _question(verbs.get_calibration(visit.caller, calibration_id))
            return question.ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "calibrator-activated")

    return router


def _list(
    verbs: Verbs,
    visit: Visit,
    form: Filled,
    *,
    notice: str = "",
    after: str | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    found = verbs.list_calibrations(visit.caller, after=after, limit=PAGE)
    values = {
        "found": found,
        "verdicts": {one.id: verdict(one.report) for one in found.items},
        "form": form,
        "noise": NOISE,
        "activate": ACTIVATE,
        "at_start": after is None,
    }
    return framed(
        "board_calibrators.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _options(form: Filled) -> Options | None:
    noise, activate = form.choice("noise", Noise), form.choice("activate", Activate)
    rates = None
    if form.text("alpha") or form.text("beta"):
        alpha, beta = form.percent("alpha"), form.percent("beta")
        rates = None if alpha is None or beta is None else Rates(alpha, beta)
    if form.faults or noise is None or activate is None:
        return None
    return Options(noise, activate, rates)


def _question(made: Calibration) -> Question:
    return Question(
        heading=f"Let calibrator {made.version[:12]} serve?",
        will=(
            "It is loaded first; should that fail, the present one goes on serving.",
            *routes_told(made.report),
            "Confidences of new documents are its own; the model and its label sets stay.",
            _UNPROVED,
            "You can roll back.",
        ),
        answer="Let it serve",
        address=f"{HERE}/{made.id}/activate",
        back=f"{HERE}/{made.id}",
        dangerous=False,
    )


def _back() -> Question:
    return Question(
        heading="Roll back to the calibrator before?",
        will=(
            "The calibrator that served before serves again; it may be the model's own.",
            "If a certificate holds for it, its threshold is in force at once.",
            "Rolling back once more returns to the present one.",
        ),
        answer="Roll back",
        address=f"{HERE}/rollback",
        back=HERE,
    )


# The report, in words.


def part(report: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """Return a part of a report; an empty one where it has none.

    >>> part({"before": {"brier": {"value": 0.1}}}, "before", "brier")
    {'value': 0.1}
    """
    found: object = report
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True)
class Measure:
    """One line of the comparison: a number before and after, each with its bounds.

    Attributes
    ----------
    better : bool or None
        Whether it changed for the better; None where neither direction is.
    """

    name: str
    meaning: str
    before: str
    after: str
    better: bool | None


_MEASURES = (
    ("brier", "Brier score", "mean squared error of the confidence; lower is better", -1),
    (
        "alignment_error",
        "Alignment error",
        "how far confidence is from accuracy; lower is better",
        -1,
    ),
    ("sharpness", "Sharpness", "how much confidence tells documents apart; higher is better", 1),
)


def measures(report: Mapping[str, object]) -> Iterator[Measure]:
    """Yield the lines of the comparison that a report has numbers for."""
    for key, name, meaning, sign in _MEASURES:
        pair = [part(report, when, key) for when in ("before", "after")]
        values = [_number(each.get("value")) for each in pair]
        better = None if None in values else sign * ((values[1] or 0) - (values[0] or 0)) > 0
        if values != [None, None]:
            yield Measure(name, meaning, _bounded(pair[0]), _bounded(pair[1]), better)
    target = _number(part(report, "automation").get("target"))
    pair = [part(report, "automation", when) for when in ("before", "after")]
    shares = [_number(each.get("coverage")) for each in pair]
    if target is not None and shares != [None, None]:
        better = None if None in shares else (shares[1] or 0) > (shares[0] or 0)
        meaning = f"share that could be sent at {exactly(target)} right"
        yield Measure("Automation", meaning, _automation(pair[0]), _automation(pair[1]), better)


def verdict(report: Mapping[str, object]) -> str:
    """Say whether a calibrator was found better than the one that served.

    >>> verdict({"comparison": {"better": True, "gain": 0.022, "p_value": 0.0001, "n": 1840}})
    'better: the Brier score falls by 0.0220 on 1,840 rows (p < 0.001)'
    """
    found = part(report, "comparison")
    gain, p_value, n = (_number(found.get(name)) for name in ("gain", "p_value", "n"))
    if gain is None or p_value is None:
        return str(found.get("reason") or "not compared")
    how = f"falls by {gain:.4f}" if gain >= 0 else f"rises by {-gain:.4f}"
    told = f"the Brier score {how} on {n or 0:,.0f} rows (p {chance(p_value)})"
    return f"better: {told}" if found.get("better") else f"not proved better: {told}"


def routes_told(report: Mapping[str, object]) -> list[str]:
    """Say how many recent documents would take another route."""
    routes = part(report, "routes")
    to_auto, to_review = part(routes, "to_auto"), part(routes, "to_review")
    if not routes:
        return []
    documents, sent, held = (
        f"{_number(each) or 0:,.0f}"
        for each in (routes.get("documents"), to_auto.get("count"), to_review.get("count"))
    )
    told = (
        f"Of {documents} recent documents, {sent} that waited would be sent and {held} that were "
        "sent would wait, at the present threshold."
    )
    return [told]


@dataclass(frozen=True)
class Flip:
    """A document that would take another route."""

    document: str
    before: float
    after: float
    sent: bool


def flips(report: Mapping[str, object]) -> Iterator[Flip]:
    """Yield the documents that would take another route, as far as the report lists them."""
    for name in ("to_auto", "to_review"):
        items = part(report, "routes", name).get("items")
        for one in items if isinstance(items, Sequence) else ():
            before, after = _number(one.get("before")), _number(one.get("after"))
            if before is not None and after is not None:
                yield Flip(str(one.get("document_id")), before, after, name == "to_auto")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounded(found: Mapping[str, object]) -> str:
    value, low, high = (_number(found.get(name)) for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    return (
        f"{value:.4f}" if low is None or high is None else f"{value:.4f} ({low:.4f} to {high:.4f})"
    )


def _automation(found: Mapping[str, object]) -> str:
    share, threshold = _number(found.get("coverage")), _number(found.get("threshold"))
    if share is None:
        return "unknown"
    return (
        percent(share) if threshold is None else f"{percent(share)} from {confidence(threshold)} on"
    )
