"""Plans of audits: a form, the plans that it leads to, and how soon a drop is found."""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from markupsafe import Markup
from pydantic import BaseModel

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import InvalidRequest
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import BoardPage, Call
from setwise.service.pages.figures.chart import Axis, Frame, chart, count_ticks, percent_ticks
from setwise.service.pages.figures.marks import Line
from setwise.service.pages.figures.numerals import exactly, percent, plain, plural
from setwise.service.pages.figures.table import Column, Figure, Kind
from setwise.service.pages.forms import Filled, Input, ProperShare, Share, inputs, number
from setwise.service.services.analysis.plans import Plan, Planned, PlanRequest

PLAN = "/board/certifications/plan"
MOST_PLANS = 15

_Number = Annotated[float, number(0, 1e9)]


class PlanForm(BaseModel):
    """What to plan for; empty fields take the values of the policy or of recent weeks."""

    target: Annotated[
        ProperShare | None,
        Input("Target %", "Empty: the policy's.", pointers=("/target_accuracy",)),
    ] = None
    documents: Annotated[
        _Number | None,
        Input("Documents a week", "Empty: as in recent weeks.", pointers=("/documents_a_week",)),
    ] = None
    missed: Annotated[Share, Input("Errors that auditors overlook %", pointers=("/miss_rate",))] = (
        0.05
    )
    drop: Annotated[Share, Input("Drop to find, % below the target")] = 0.05
    certificate_weeks: Annotated[_Number | None, Input("Weeks to a certificate, at most")] = 26
    find_weeks: Annotated[_Number | None, Input("Weeks to find the drop, at most")] = 26
    audit_price: Annotated[_Number, Input("Price of an audit")] = 1.0
    review_price: Annotated[_Number, Input("Price of a review")] = 1.0
    error_price: Annotated[_Number, Input("Price of an error sent")] = 10.0

    def as_request(self) -> PlanRequest:
        """Return the request for the service."""
        given = self.model_dump(exclude={"target", "documents", "missed"})
        return PlanRequest(
            target_accuracy=self.target,
            documents_a_week=self.documents,
            miss_rate=self.missed,
            **given,
        )


_USUAL = {
    "missed": "5",
    "drop": "5",
    "certificate_weeks": "26",
    "find_weeks": "26",
    "audit_price": "1",
    "review_price": "1",
    "error_price": "10",
}


def _plan(call: Call) -> ui.View:
    form = Filled.of(**{**_USUAL, **call.query})
    read = form.read(PlanForm)
    found = None
    if read is not None:
        try:
            found = call.services.certification.plan(call.caller, read.as_request())
        except InvalidRequest as error:
            form.refused(error, PlanForm)
    asked = ui.Filters(PLAN, {one.name: one.input for one in inputs(PlanForm)}, form, label="Plan")
    wrong = [Markup('<p class="error">{}</p>').format(fault) for fault in form.faults.get("", ())]
    return ui.View(
        "Plan audits",
        (asked, *wrong, *(_parts(found) if found else ())),
        lead="How many audits prove a threshold and find a drop soon enough, and what they cost.",
        terms=("certificate", "audit"),
        status=HTTPStatus.OK if found or not call.query else HTTPStatus.UNPROCESSABLE_ENTITY,
    )


def _parts(found: Planned) -> Sequence[ui.Piece]:
    shown = list(found.items[:MOST_PLANS])
    if found.now is not None:
        shown = [found.now, *(one for one in shown if one.rates != found.now.rates)]
    return (
        ui.text(found.sentence),
        ui.Table("Plans", _columns(found), shown),
        ui.Diagram(_delays(found)),
        ui.text(
            f"Simulated for {found.documents_a_week:,.0f} documents a week and "
            f"{plural(found.confidences, 'confidence')}, which are taken to be right. “At first” "
            "is the share audited until there is a certificate; readings a week are those before "
            "and after it. The first number of weeks is enough in half of the cases, the second in "
            "80 of 100 for a certificate and in 90 of 100 for a drop. The cost is the mean over "
            "the first year.",
            "quiet",
        ),
    )


def _columns(found: Planned) -> Sequence[ui.Column[Plan]]:
    def rates(plan: Plan) -> Markup:
        tags = []
        if plan == found.recommended:
            tags.append(ui.badge("recommended", "good"))
        if plan == found.now:
            tags.append(ui.badge("policy now"))
        return ui.joined(exactly(plan.rates.certification_rate), *(ui.joined(" ", x) for x in tags))

    return (
        ui.Column("Audited", rates, "head"),
        ui.Column("At first", lambda one: exactly(one.rates.ramp_up_rate), "count"),
        ui.Column("Read again", lambda one: exactly(one.rates.gold_reread_rate), "count"),
        ui.Column("Certificate, weeks", lambda one: _range(one.weeks, one.weeks_at_most), "count"),
        ui.Column(
            "Sent", lambda one: None if one.automation is None else percent(one.automation), "count"
        ),
        ui.Column("Readings a week", _readings, "count"),
        ui.Column(
            "Drop found, weeks",
            lambda one: one.delay and _range(one.delay.weeks, one.delay.weeks_at_most),
            "count",
        ),
        ui.Column("Cost a week", lambda one: plain(one.cost_a_week), "count"),
    )


def _range(usual: int | None, at_most: int | None) -> str | None:
    """Return the usual number of weeks, and the most.

    >>> _range(4, 6), _range(4, None), _range(None, None)
    ('4 to 6', '4 or more', None)
    """
    if usual is None:
        return None
    return f"{usual:,} or more" if at_most is None else f"{usual:,} to {at_most:,}"


def _readings(plan: Plan) -> str:
    before = f"{plan.ramp_up.readings:,.0f}"
    return before if plan.running is None else f"{before}, {plan.running.readings:,.0f}"


def _delays(found: Planned) -> Figure:
    """Return the delays at each audit rate, with the recommended share read again."""
    chosen = found.recommended or found.items[0]
    delays = {
        one.rates.certification_rate: one.delay
        for one in found.items
        if one.rates.gold_reread_rate == chosen.rates.gold_reread_rate and one.delay is not None
    }
    known = [
        (rate, delay.weeks, delay.weeks_at_most)
        for rate, delay in sorted(delays.items())
        if delay.weeks is not None and delay.weeks_at_most is not None
    ]
    figure = Figure(
        "delays",
        "How soon a drop is found",
        "Too few of these plans find it.",
        [
            Column("audited", Kind.SHARE),
            Column("weeks in half of the cases", Kind.COUNT),
            Column("weeks in 90 of 100 cases", Kind.COUNT),
        ],
        known,
        empty="Plan higher rates of audits, or a larger drop.",
        legend=(("link stroke", "in half of the cases"), ("waiting stroke", "in 90 of 100 cases")),
        whole=True,
    )
    if len(known) < 2:
        return figure
    low, high = known[0], known[-1]
    says = (
        f"Audits of {exactly(low[0])} find it after {plural(low[1], 'week')} in half of the cases, "
        f"audits of {exactly(high[0])} after {plural(high[1], 'week')}."
    )
    frame = Frame(
        Axis(0.0, high[0], percent_ticks(0.0, high[0]), "share that is audited"),
        Axis(0.0, low[2], count_ticks(low[2]), "weeks until it is found"),
        width=760,
        height=300,
    )
    marks = [
        Line([(rate, float(weeks)) for rate, weeks, _ in known], "link"),
        Line([(rate, float(most)) for rate, _, most in known], "waiting"),
    ]
    return replace(figure, says=says, svg=chart(figure.name, figure.title, says, frame, marks))


PAGES = (BoardPage(PLAN, _plan, section="/board/certifications", needed=(Permission.REPORT,)),)
