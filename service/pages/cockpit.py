"""The cockpit: what leads look at to decide whether to trust the machine.

Question: is what is sent right enough, how much is automatic, and what waits?
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Response

from setwise.models.figures.numerals import confidence, percent, plural, span
from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.documents import Audited, DocumentState
from setwise.service.domain.errors import ModelUnavailable, NotFound
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.routing.audits import AuditMode
from setwise.service.pages import documents
from setwise.service.pages.figures import effort, errors, label_table, what_if, work
from setwise.service.pages.figures.label_table import LabelOrder
from setwise.service.pages.figures.table import Figure, Value
from setwise.service.pages.rendering import page, taken_away
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.visitors import who_may
from setwise.service.services.all import Services
from setwise.service.services.analysis.cockpit import Cockpit, Glance
from setwise.service.services.analysis.labels import LabelBasis, LabelTrust
from setwise.service.services.analysis.over_time import Granularity, Period
from setwise.service.services.analysis.what_if import WhatIf
from setwise.service.sign_in.sessions import Visit

LABELS_SHOWN = 50
HERE, DETAILS, LABELS = "/cockpit", "/cockpit/details", "/cockpit/labels"


@dataclass(frozen=True)
class CockpitQuery(Period):
    """What the address asks for."""

    threshold: float | None = None
    target_accuracy: float | None = None
    segment: str | None = None

    def of_segment(self, segment: str | None, below: str = "") -> str:
        """Return the address of the same for a segment."""
        return replace(self, segment=segment).address(below)

    def address(self, below: str = "", period: Period | None = None) -> str:
        """Return the address of the same, or of another time, or of something below."""
        values = vars(self) | vars(period or self)
        return f"{HERE}{below}?{urlencode({k: v for k, v in values.items() if v is not None})}"


def _periods(today: date) -> Sequence[tuple[str, Period]]:
    monday = Granularity.WEEK.start(today)
    return (
        ("Today", Period(1)),
        ("This week", Period(first=monday)),
        ("Last week", Period(first=monday - timedelta(days=7), last=monday - timedelta(days=1))),
        ("5 weeks", Period()),
        ("3 months", Period(91, Granularity.WEEK)),
        ("1 year", Period(364, Granularity.WEEK)),
    )


@dataclass(frozen=True)
class LabelTableQuery(CockpitQuery):
    """What the address of the label table asks for."""

    basis: LabelBasis = LabelBasis.SENT
    order: LabelOrder = LabelOrder.ERRORS
    find: str = ""
    page: int = 1


@dataclass(frozen=True)
class FigureSection:
    """Figures of the details that unfold together."""

    id: str
    name: str
    figures: Sequence[Figure]


Leads = Annotated[Visit, Depends(who_may(Permission.REPORT))]
QueryOf = Annotated[CockpitQuery, Depends()]

router = APIRouter(route_class=PageRoute)


@router.get(HERE)
def show(services: ServicesOf, visit: Leads, query: QueryOf) -> Response:
    """Show whether sending is right enough, how much is automatic, and what waits."""
    seen = services.reports.glance(visit.caller, query, segment=query.segment)
    figures = _with_documents(seen, (make(seen) for make in FIRST))
    values = {
        "tiles": _tiles(seen),
        "figures": figures,
        "lacking": services.labels.missing(visit.caller).sentence(),
        "lacking_documents": documents.address(beyond_model="true"),
        "may_retrain": visit.caller.may(Permission.ADMINISTER),
    }
    return page("cockpit.html", values | _frame(seen, query), visit=visit)


@router.get(DETAILS)
def details(services: ServicesOf, visit: Leads, query: QueryOf) -> Response:
    """Show what else is known, and what another threshold would do."""
    seen = services.reports.cockpit(visit.caller, query, segment=query.segment)
    answer = _what_if(services, visit.caller, query)
    may_change = visit.caller.may(Permission.ADMINISTER)
    figures = _with_documents(seen, (make(seen) for make in FURTHER))
    watched = [make(services, visit.caller, seen) for make in WATCHED]
    values = {
        "sections": [
            FigureSection("work", "Reading", [figures["queue"], figures["effort"]]),
            FigureSection(
                "calibration", "Confidence", [figures["reliability"], figures["confidence"]]
            ),
            FigureSection(
                "errors",
                "Where the errors are",
                [figures[name] for name in ("labels", "pairs", "sources", "sizes")],
            ),
            FigureSection("watch", "Safeguards", watched),
        ],
        "what_if": what_if.show(answer),
        "may_change": may_change,
        "use_it": _use(answer) if may_change else "",
    }
    return page("cockpit_details.html", values | _frame(seen, query), visit=visit)


@router.get(LABELS)
def labels(
    services: ServicesOf, visit: Leads, query: Annotated[LabelTableQuery, Depends()]
) -> Response:
    """Show which labels can be trusted."""
    seen = services.reports.glance(visit.caller, query, segment=query.segment)
    trust = _trust(services, visit.caller, query)
    found = label_table.chosen(trust, query.find, query.order)
    last = max(1, -(-len(found) // LABELS_SHOWN))
    place = min(max(query.page, 1), last)
    shown = found[(place - 1) * LABELS_SHOWN : place * LABELS_SHOWN]
    behind = partial(_address(seen), **between(seen.since.date(), seen.until))
    values = {
        "figure": label_table.figure(trust, shown),
        "rows": [(each, label_table.links(each, behind)) for each in shown],
        "number": len(found),
        "orders": list(LabelOrder),
        "place": place,
        "last": last,
        "at": lambda **more: replace(query, **more).address("/labels"),
        "share": label_table.share,
    }
    return page("cockpit_labels.html", values | _frame(seen, query), visit=visit)


@router.get(f"{LABELS}/table.{{form}}")
def download_labels(
    services: ServicesOf, form: str, visit: Leads, query: Annotated[LabelTableQuery, Depends()]
) -> Response:
    """Give the label table as CSV or JSON."""
    trust = _trust(services, visit.caller, query)
    rows = label_table.chosen(trust, query.find, query.order)
    return taken_away(label_table.figure(trust, rows), form)


def _trust(services: Services, caller: Caller, query: LabelTableQuery) -> LabelTrust:
    try:
        vocabulary = frozenset(services.reviews.predictors.active().labels)
    except ModelUnavailable:
        vocabulary = frozenset()
    return services.reports.labels(
        caller, vocabulary, query, segment=query.segment, basis=query.basis
    )


@router.get(f"{HERE}/{{name}}.{{form}}")
def download(services: ServicesOf, name: str, form: str, visit: Leads, query: QueryOf) -> Response:
    """Give the numbers of one figure as CSV or JSON."""
    seen = services.reports.cockpit(visit.caller, query, segment=query.segment)
    figures = [make(seen) for make in (*FIRST, *FURTHER)]
    figures.append(what_if.show(_what_if(services, visit.caller, query)).figure)
    if query.segment is not None:
        figures = [figure.within(query.segment) for figure in figures]
    figures += [make(services, visit.caller, seen) for make in WATCHED]
    figure = next((candidate for candidate in figures if candidate.name == name), None)
    if figure is None:
        raise NotFound("The cockpit has no such figure.")
    return taken_away(figure, form)


FIRST: Sequence[Callable[[Glance], Figure]] = (work.accuracy, work.volume)
FURTHER: Sequence[Callable[[Cockpit], Figure]] = (
    work.backlog,
    effort.effort,
    work.reliability,
    work.histogram,
    errors.labels,
    errors.pairs,
    errors.sources,
    errors.sizes,
)


def _breaker(services: Services, caller: Caller, seen: Glance) -> Figure:
    return errors.breaker(services.breaker.get(caller, seen.segment))


WATCHED: Sequence[Callable[[Services, Caller, Glance], Figure]] = (
    _breaker,
    lambda services, caller, _: errors.noise(services.annotators.groups(caller)),
)


def _what_if(services: Services, caller: Caller, query: CockpitQuery) -> WhatIf:
    return services.policy.preview(
        caller,
        threshold=query.threshold,
        target_accuracy=query.target_accuracy,
        segment=query.segment,
    )


def _use(answer: WhatIf) -> str:
    """Return the address of the policy's form with the tried threshold; empty if there is none."""
    threshold, target = answer.then.threshold, answer.after.target_accuracy
    if not answer.tried or threshold is None or answer.before.values:
        return ""
    filled = {"threshold.value": f"{threshold:.10g}", "target_accuracy": f"{100 * target:.10g}"}
    return f"/board/policy?{urlencode(filled)}"


def _frame(seen: Glance, query: CockpitQuery) -> dict[str, object]:
    chosen = Period(query.days, query.pace, query.first, query.last)
    return {
        "now": seen.at,
        "seen": seen,
        "query": query,
        "periods": [(*period, period[1] == chosen) for period in _periods(seen.at.date())],
    }


def _with_documents(seen: Glance, figures: Iterable[Figure]) -> dict[str, Figure]:
    behind = _documents(seen)
    return {figure.name: replace(figure, documents=behind.get(figure.name)) for figure in figures}


def _address(seen: Glance) -> Callable[..., str]:
    """Return what makes addresses of lists of documents."""
    return partial(documents.address, segment=seen.segment)


def between(first: date, last: date) -> dict[str, str]:
    """Return the filter for documents of these days."""
    end = last + timedelta(days=1)
    return {"created_from": f"{first}T00:00", "created_before": f"{end}T00:00"}


def _documents(seen: Glance) -> Mapping[str, Callable[[Sequence[Value]], str]]:
    """Return the addresses of the documents behind the rows of figures, by name."""
    within, address = between(seen.since.date(), seen.until), _address(seen)

    def in_row(days: int, row: Sequence[Value], **more: object) -> str:
        first = date.fromisoformat(str(row[0]))
        last = min(first + timedelta(days=days - 1), seen.until)
        return address(**between(first, last), **more)

    def confident(row: Sequence[Value]) -> str:
        top = None if row[1] == 1 else row[1]  # the end is excluded, and a confidence may be 1
        return address(confidence_from=row[0], confidence_to=top, **within)

    return {
        "volume": partial(in_row, seen.pace.days),
        "accuracy": partial(in_row, 7, audited=Audited.DRAWN),
        "confidence": confident,
        "pairs": lambda row: address(
            label=row[0], final_label=row[1], state=DocumentState.CONTRADICTED, **within
        ),
        "labels": lambda row: address(label=row[0], state=DocumentState.CONTRADICTED, **within),
    }


@dataclass(frozen=True)
class Tile:
    """A question, answered by a number."""

    question: str
    number: str
    beside: str
    meaning: str
    slug: str
    """Class that colours it."""
    documents: str = ""
    """Address of the documents behind it, if any are."""
    promise: str = ""
    """What the confidences say of it."""
    broken: bool = False
    """Whether checks contradict that, so that recalibration is offered."""


def _tiles(seen: Glance) -> list[Tile]:
    accuracy, queue = seen.accuracy, seen.queue
    # Audits rest on draws, so a held document counts too if it was confident enough to be sent;
    # outcomes tell of what was sent.
    audited = Reason.AUDIT if seen.policy.audits.mode is AuditMode.HOLD else Reason.ABOVE_THRESHOLD
    wrong = (
        {"audited": Audited.CONTRADICTED, "reason": audited}
        if seen.drawn
        else {"state": DocumentState.CONTRADICTED, "decision": Decision.AUTO}
    )
    within, address = between(seen.since.date(), seen.until), _address(seen)
    return [
        Tile(
            "Is what we send right enough?",
            percent(accuracy.value),
            ""
            if accuracy.value is None
            else f"{percent(accuracy.low)} to {percent(accuracy.high)}, from "
            + plural(accuracy.checked, "audit" if seen.drawn else "outcome"),
            f"{work.right_enough(seen)} {_certificate(seen)}",
            {True: "good", False: "bad", None: ""}[seen.met],
            "" if accuracy.value is None else address(**wrong, **within),
            work.promise(seen),
            broken=seen.promise_holds is False,
        ),
        Tile(
            "How much is automatic?",
            percent(work.ratio(seen.sent, seen.documents)) if seen.documents else "none",
            f"{seen.sent:,} of {plural(seen.documents, 'document')} in this period"
            if seen.documents
            else "",
            _saved(seen),
            "sent",
            address(state=DocumentState.SENT, **within) if seen.sent else "",
        ),
        Tile(
            "What waits?",
            f"{queue.waiting:,}",
            f"oldest {span(queue.oldest_s)}{_overdue(seen)}" if queue.waiting else "",
            f"{_queue_end(seen)}{work.undecided(seen)}.",
            "waiting",
            documents=address(state=DocumentState.WAITING) if queue.waiting else "",
        ),
    ]


def _saved(seen: Glance) -> str:
    if not seen.documents:
        return "There were no documents in this period."
    read = seen.effort
    if read.hours_without is None:
        return "The time this saves is known after the first review."
    return f"People read for {effort.reading_time(read)}."


def _overdue(seen: Glance) -> str:
    return f", {seen.queue.overdue:,} overdue" if seen.queue.overdue else ""


def _queue_end(seen: Glance) -> str:
    if not seen.queue.waiting:
        return "The queue is empty"
    if not seen.queue.arriving and not seen.queue.completing:
        return "Its pace is known after the first full day"
    empty = seen.queue.empty_in_days
    if empty is None:
        return "Not shrinking at the current pace"
    return f"Empty in about {plural(max(1, round(empty)), 'day')} at the current pace"


def _certificate(seen: Glance) -> str:
    """Say what the certificate proves, or what it lacks."""
    state = seen.certificate
    if seen.gate is None:
        gates = seen.policy.gates
        sending = sum(gate.sends for gate in gates)
        return (
            f"{sending} of {plural(len(gates), 'segment')} {'sends' if sending == 1 else 'send'}."
        )
    if state.certified and state.since is not None and state.threshold is not None:
        proof = f"Certified since {state.since:%-d %B} from {confidence(state.threshold)}"
    elif state.newest is not None and state.newest.threshold is not None:
        proof = f"Not certified, but an attempt certified {confidence(state.newest.threshold)}"
    else:
        proof = (
            "Not certified yet"
            if seen.policy.certified
            else "Not certified: the threshold was set by hand"
        )
    return "; ".join(filter(None, (proof, _next_attempt(seen)))) + "."


def _next_attempt(seen: Glance) -> str:
    progress, parts = seen.certificate.progress, []
    if progress.missing:
        parts.append(f"next attempt in {plural(progress.missing, 'audit')}")
    elif progress.missing == 0:
        parts.append("the next attempt is due")
    # What is certified holds, whatever later attempts find.
    needed = None if seen.certificate.certified else progress.needed
    if needed is not None and needed > progress.audits:
        missing = needed - progress.audits
        parts.append(f"about {plural(missing, 'audit')} more would probably prove a threshold")
    return "; ".join(parts)
