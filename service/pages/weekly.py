"""The weekly report: a page to print or to send, with what changed since the week before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.reports import Share
from setwise.service.pages.figures import work
from setwise.service.pages.figures.numerals import percent, plural
from setwise.service.services.all import Services
from setwise.service.services.analysis.over_time import EARLIEST, Pace, Period, Row

WEEKS = 8
"""Weeks in its charts; the last is the one that it reports on."""

WEEK = timedelta(days=7)

_HAPPENED: Mapping[str, str] = {
    "policy.changed": "The policy was changed.",
    "policy.certified": "Audits proved a threshold.",
    "policy.not_certified": "Audits were evaluated and proved no threshold.",
    "policy.tripped": "The breaker stopped automatic sending.",
    "breaker.reset": "Automatic sending was resumed after the breaker had tripped.",
    "calibration.activated": "Another calibrator was activated.",
    "model.activated": "Another model was activated.",
}


@dataclass(frozen=True)
class Line:
    """A number of this week and of the week before."""

    name: str
    now: str
    before: str
    change: str


def report(
    services: Services, caller: Caller, day: date | None, today: date, segment: str | None = None
) -> dict[str, object]:
    """Return the values of the page for the week of a day; without one, the last full week.

    Raises `setwise.service.domain.errors.InvalidRequest` if there is no such week yet, or the
    policy does not list the segment.

    ``segment``: Count only this segment's documents.
    """
    day = day or today - WEEK
    if not EARLIEST + WEEKS * WEEK <= day <= today:
        fault = FieldFault("/query/week", f"must be a day up to {today}")
        raise InvalidRequest("There is no report on this week.", [fault])
    monday = Pace.WEEK.start(day)
    sunday, following = monday + WEEK - timedelta(days=1), monday + WEEK
    asked = Period(pace=Pace.WEEK, first=monday - (WEEKS - 1) * WEEK, last=sunday)
    seen = services.reports.glance(caller, asked, segment=segment)
    midnights = [datetime.combine(each, time(), UTC) for each in (monday, following)]
    before, now = seen.rows[-2:]

    def address(week: date, of: str | None = segment) -> str:
        named = {} if of is None else {"segment": of}
        return f"/cockpit/report?{urlencode({'week': week, **named})}"

    return {
        "now": seen.at,
        "seen": seen,
        "segment": segment,
        "address": address,
        "week": monday.isocalendar(),
        "monday": monday,
        "sunday": sunday,
        "earlier": monday - WEEK,
        "later": following if following <= today else None,
        "unfinished": sunday >= today,
        "right_enough": work.right_enough(seen),
        "lines": list(_lines(now, before)),
        "changes": [
            (event.at, _HAPPENED[event.action])
            for event in services.reports.changes(caller, *midnights)
        ],
        "figures": [work.accuracy(seen), work.volume(seen)],
    }


def _lines(now: Row, before: Row) -> Iterator[Line]:
    def line(name: str, this: int, last: int) -> Line:
        return Line(name, f"{this:,}", f"{last:,}", f"{this - last:+,}" if this != last else "none")

    yield line("Documents received", now.documents, before.documents)
    yield line("Sent automatically", now.sent, before.sent)
    this, last = (work.ratio(row.sent, row.documents) for row in (now, before))
    points = "unknown"
    if this is not None and last is not None:
        change = round(100 * (this - last), 1)
        points = f"{change:+.1f} points" if change else "none"
    yield Line("Share sent automatically", percent(this), percent(last), points)
    accuracies = _bounded(now.accuracy), _bounded(before.accuracy)
    yield Line("Accuracy of what was sent", *accuracies, compared(now.accuracy, before.accuracy))
    yield line("Held for an audit", now.audited, before.audited)
    yield line("Reviews opened", now.arrived, before.arrived)
    yield line("Reviews submitted", now.completed, before.completed)
    yield line("Waiting at the end", now.backlog, before.backlog)


def _bounded(share: Share) -> str:
    if share.value is None:
        return "not checked"
    checks = plural(share.checked, "check")
    few = "only " if share.few else ""
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)}, {few}{checks})"


def compared(now: Share, before: Share) -> str:
    """Say whether checks show that an accuracy changed: whether its bounds lie apart.

    >>> compared(Share(90, 88, 0.98, 0.94, 1.0), Share(90, 70, 0.78, 0.7, 0.85))
    'better: the bounds do not overlap'
    >>> compared(Share(9, 8, 0.9, 0.6, 1.0), Share(90, 70, 0.78, 0.7, 0.85))
    'none that the checks show'
    """
    if None in {now.low, now.high, before.low, before.high}:
        return "unknown"
    if (now.low or 0.0) > (before.high or 0.0):
        return "better: the bounds do not overlap"
    if (now.high or 0.0) < (before.low or 0.0):
        return "worse: the bounds do not overlap"
    return "none that the checks show"
