"""The cockpit: what leads look at to decide whether to trust the machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Response

from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.documents import Audited, State
from setwise.service.domain.errors import NotFound
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.predictions import Decision
from setwise.service.domain.routing.segments import OTHER, value_of
from setwise.service.pages import documents
from setwise.service.pages.figures import (
    errors as cockpit_errors,
)
from setwise.service.pages.figures import (
    what_if as cockpit_what_if,
)
from setwise.service.pages.figures import (
    work as cockpit_figures,
)
from setwise.service.pages.figures.numerals import (
    confidence,
    exactly,
    percent,
    plural,
    span,
    working_time,
)
from setwise.service.pages.figures.table import Figure, Value
from setwise.service.pages.rendering import page, taken_away
from setwise.service.pages.routes import Page
from setwise.service.pages.visitors import who_may
from setwise.service.services.all import Services
from setwise.service.services.analysis.over_time import Pace
from setwise.service.services.reports import USUAL_DAYS, Cockpit, WhatIf
from setwise.service.sign_in.sessions import Visit

HERE = "/cockpit"
PERIODS = (
    ("Today", 1, Pace.DAY),
    ("7 days", 7, Pace.DAY),
    ("5 weeks", USUAL_DAYS, Pace.DAY),
    ("3 months", 91, Pace.WEEK),
    ("1 year", 364, Pace.WEEK),
)


@dataclass(frozen=True)
class Asked:
    """What the address asks for."""

    days: int = USUAL_DAYS
    pace: Pace = Pace.DAY
    threshold: float | None = None
    target: float | None = None
    segment: str | None = None

    def covers(self, days: int, pace: Pace) -> bool:
        """Return whether it is this time that is asked for."""
        return (days, pace) == (self.days, self.pace)

    def of_segment(self, segment: str | None) -> str:
        """Return the address of the same for a segment."""
        return replace(self, segment=segment).address()

    def address(self, below: str = "", *, days: int | None = None, pace: Pace | None = None) -> str:
        """Return the address of the same, or of another time, or of something below."""
        wanted: dict[str, object] = {"days": days or self.days, "pace": pace or self.pace}
        if self.threshold is not None:
            wanted["threshold"] = self.threshold
        if self.target is not None:
            wanted["target"] = self.target
        if self.segment is not None:
            wanted["segment"] = self.segment
        return f"{HERE}{below}?{urlencode(wanted)}"


Leads = Annotated[Visit, Depends(who_may(Permission.REPORT))]

router = APIRouter(route_class=Page)


@router.get(HERE)
def show(services: ServicesOf, visit: Leads, asked: Annotated[Asked, Depends()]) -> Response:
    """Show every figure for a time, and what another threshold would do."""
    seen, figures = _read(services, visit.caller, asked)
    values = {
        "now": seen.at,
        "seen": seen,
        "asked": asked,
        "periods": [
            (name, asked.address(days=days, pace=pace), asked.covers(days, pace))
            for name, days, pace in PERIODS
        ],
        "tiles": _tiles(seen),
        "figures": figures,
        "compared": cockpit_what_if.compared(seen),
        "curve": cockpit_what_if.for_script(seen),
        "may_change": visit.caller.may(Permission.ADMINISTER),
    }
    return page("cockpit.html", values, visit=visit)


@router.get(f"{HERE}/{{name}}.{{form}}")
def download(
    services: ServicesOf,
    name: str,
    form: str,
    visit: Leads,
    asked: Annotated[Asked, Depends()],
) -> Response:
    """Give the numbers of one figure as CSV or JSON."""
    _, figures = _read(services, visit.caller, asked)
    found = figures.get(name)
    if found is None:
        raise NotFound("The cockpit has no such figure.")
    return taken_away(found, form)


FIGURES: tuple[Callable[[Cockpit], Figure], ...] = (
    cockpit_figures.volume,
    cockpit_figures.accuracy,
    cockpit_figures.backlog,
    cockpit_what_if.what_if,
    cockpit_figures.reliability,
    cockpit_figures.histogram,
    cockpit_errors.labels,
    cockpit_errors.pairs,
    cockpit_errors.sources,
    cockpit_errors.sizes,
)


def _read(services: Services, caller: Caller, asked: Asked) -> tuple[Cockpit, dict[str, Figure]]:
    seen = services.reports.cockpit(
        caller,
        days=asked.days,
        pace=asked.pace,
        what_if=WhatIf(asked.threshold, asked.target),
        segment=asked.segment,
    )
    figures = [make(seen) for make in FIGURES]
    behind = _documents(seen)
    figures = [replace(one, documents=behind.get(one.name)) for one in figures]
    unit = None if asked.segment is None else value_of(seen.policy.unit)
    watched = services.breaker.get(caller, None if unit == OTHER else unit)
    figures.append(cockpit_errors.breaker(watched))
    figures.append(cockpit_errors.noise(services.annotators.groups(caller)))
    return seen, {figure.name: figure for figure in figures}


def _address(seen: Cockpit) -> Callable[..., str]:
    """Return what makes addresses of lists of documents; none of what no list can show."""
    if value_of(seen.segment) == OTHER:
        return lambda **_: ""
    return partial(documents.address, segment=seen.segment)


def _documents(seen: Cockpit) -> Mapping[str, Callable[[Sequence[Value]], str]]:
    """Return the addresses of the documents behind the rows of figures, by name."""
    since, address = f"{seen.since:%Y-%m-%dT%H:%M}", _address(seen)
    if value_of(seen.segment) == OTHER:
        return {}

    def between(days: int, row: Sequence[Value], **more: object) -> str:
        first = datetime.fromisoformat(str(row[0]))
        last = first + timedelta(days=days)
        span = {"created_from": first, "created_before": last}
        return address(**{name: f"{at:%Y-%m-%dT%H:%M}" for name, at in span.items()}, **more)

    def confident(row: Sequence[Value]) -> str:
        top = None if row[1] == 1 else row[1]  # the end is excluded, and a confidence may be 1
        return address(confidence_from=row[0], confidence_to=top, created_from=since)

    return {
        "volume": partial(between, 7 if seen.pace is Pace.WEEK else 1),
        "accuracy": partial(between, 7, audited=Audited.DRAWN),
        "confidence": confident,
        "pairs": lambda row: address(
            label=row[0], final_label=row[1], state=State.CONTRADICTED, created_from=since
        ),
        "labels": lambda row: address(label=row[0], state=State.CONTRADICTED, created_from=since),
    }


@dataclass(frozen=True)
class Tile:
    """One number that is read first."""

    name: str
    number: str
    beside: str
    meaning: str
    slug: str
    """Class that colours it."""
    term: str = ""
    """Word of the glossary that explains its name, if any does."""
    documents: str = ""
    """Address of the documents behind it, if any are."""


def _tiles(seen: Cockpit) -> list[Tile]:
    accuracy, queue = seen.accuracy, seen.queue
    met = accuracy.value is None or accuracy.value >= seen.policy.target_accuracy
    share = cockpit_figures.ratio(seen.sent, seen.documents)
    # Audits rest on draws, so a held document counts too; outcomes tell of what was sent.
    wrong = (
        {"audited": Audited.CONTRADICTED}
        if seen.drawn
        else {"state": State.CONTRADICTED, "decision": Decision.AUTO}
    )
    since, address = f"{seen.since:%Y-%m-%dT%H:%M}", _address(seen)
    return [
        Tile(
            "Sent automatically",
            percent(share, 0) if seen.documents else "none",
            f"{seen.sent:,} of {seen.documents:,}" if seen.documents else "",
            "of the documents in this period" if seen.documents else "no documents",
            "sent",
            "coverage",
            address(state=State.SENT, created_from=since) if seen.sent else "",
        ),
        Tile(
            "Accuracy of what was sent",
            percent(accuracy.value),
            "",
            f"{percent(accuracy.low)} to {percent(accuracy.high)}, from "
            + plural(accuracy.checked, "audit" if seen.drawn else "outcome")
            + cockpit_figures.undecided(seen)
            + (f". {accuracy.correction}" if accuracy.correction else "")
            if accuracy.value is not None
            else "no audit has been completed yet",
            "" if accuracy.value is None else "good" if met else "bad",
            "set accuracy",
            "" if accuracy.value is None else address(**wrong, created_from=since),
        ),
        _certificate_tile(seen),
        Tile(
            "Queue",
            f"{queue.waiting:,}",
            f"oldest {span(queue.oldest_s)}" if queue.waiting else "",
            _queue_end(seen),
            "waiting",
            documents=address(state=State.WAITING) if queue.waiting else "",
        ),
        Tile(
            "Reviewing time saved",
            "unknown" if seen.hours_saved is None else working_time(3600 * seen.hours_saved),
            "" if seen.seconds is None else f"{span(seen.seconds)} per document",
            "the time it would take to review everything that was sent"
            if seen.seconds is not None
            else "known after the first review",
            "completed",
        ),
    ]


def _queue_end(seen: Cockpit) -> str:
    if not seen.queue.waiting:
        return "the queue is empty"
    if not seen.queue.arriving and not seen.queue.completing:
        return "its pace is known after the first full day"
    empty = seen.queue.empty_in_days
    if empty is None:
        return "not shrinking at the current pace"
    return f"empty in about {plural(max(1, round(empty)), 'day')} at the current pace"


def _certificate_tile(seen: Cockpit) -> Tile:
    state = seen.certificate
    target = exactly(seen.policy.target_accuracy)
    name, term = "Certificate", "certified"
    if seen.policy.segmentation is not None:
        parts = seen.policy.units
        number = f"{sum(part.sends for part in parts)} of {len(parts)}"
        detail = "segments send; the policy page says how many audits the others need"
        return Tile(name, number, f"{plural(state.audits, 'audit')} completed", detail, "", term)
    if state.certified and state.since is not None and state.threshold is not None:
        return Tile(
            name,
            "proved",
            f"since {state.since:%-d %b}",
            f"at least {target} of what is sent at {confidence(state.threshold)} is right; "
            + (_next_attempt(seen) or f"based on {plural(state.audits, 'audit')}"),
            "good",
            term,
        )
    by_hand = seen.policy.threshold_mode is ThresholdMode.FIXED
    number = "by hand" if by_hand else "not yet"
    newest = state.newest
    proof = "the threshold was set by hand; no audits have proved it" if by_hand else ""
    if newest is not None and newest.threshold is not None:
        proof = f"audits prove a threshold of {confidence(newest.threshold)}"
    return Tile(
        name,
        number,
        f"{plural(state.audits, 'audit')} completed",
        "; ".join(filter(None, (proof, _next_attempt(seen)))),
        "warn",
        term,
    )


def _next_attempt(seen: Cockpit) -> str:
    state = seen.certificate
    parts = []
    if state.next_attempt_in:
        parts.append(f"next attempt in {plural(state.next_attempt_in, 'audit')}")
    elif state.next_attempt_in == 0:
        parts.append("the next attempt is due")
    if state.audits_needed is not None and state.audits_needed > state.audits:
        missing = state.audits_needed - state.audits
        parts.append(f"about {plural(missing, 'audit')} more would probably prove a threshold")
    return "; ".join(parts)
