"""The cockpit's figure on what people read, and how long."""

from setwise.models.figures.chart import Axis, ChartFrame, round_ticks
from setwise.models.figures.marks import Bar, Bars
from setwise.models.figures.numerals import plain, plural, span, working_time
from setwise.service.domain.effort import Effort, Reading
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind
from setwise.service.pages.figures.work import HALF, TEXT, dates, drawn, iso, period_name
from setwise.service.services.analysis.cockpit import Glance
from setwise.service.services.analysis.over_time import Granularity

READINGS = {
    Reading.ASSISTED: ("sent", "with a suggestion"),
    Reading.BLIND: ("audited", "blind"),
    Reading.SECOND: ("waiting", "second readings"),
    Reading.ADJUDICATION: ("link", "leads' decisions"),
}


def reading_time(effort: Effort) -> str:
    """Return how long people read, and how long they would if nothing were sent unread."""
    hours = working_time(3600 * effort.hours)
    without = working_time(3600 * (effort.hours_without or 0.0))
    return (
        f"{hours}, as long as without sending"
        if hours == without
        else f"{hours} instead of {without}"
    )


def effort(seen: Glance) -> Figure:
    """Return how long people read, by week and kind of reading."""
    figure = Figure(
        "effort",
        "What reading costs",
        _effort_says(seen.effort),
        [
            FigureColumn("week", TEXT),
            *(FigureColumn(reading.value) for reading in Reading),
            FigureColumn("unread"),
            FigureColumn("hours", Kind.HOURS, "Reading"),
            FigureColumn("hours_without", Kind.HOURS, "Reading everything once"),
        ],
        [
            [
                iso(row),
                *(time.readings for time in row.effort.times.values()),
                row.effort.unread,
                row.effort.hours,
                row.effort.hours_without,
            ]
            for row in seen.weeks
        ],
        empty="No document was read in this period.",
        terms=("audit",),
        legend=tuple(READINGS.values()),
        end_first=True,
    )
    most = max(row.effort.hours for row in seen.weeks)
    if not most:
        return figure
    unit, axis = working_axis(most, "week")
    bars = [
        Bar(
            place,
            place + 1,
            tuple(
                (time.seconds / 3600 / unit, READINGS[reading][0])
                for reading, time in row.effort.times.items()
            ),
            f"{period_name(row, Granularity.WEEK)}: {_readings(row.effort) or 'nothing read'}",
        )
        for place, row in enumerate(seen.weeks)
    ]
    frame = ChartFrame(Axis(0, len(seen.weeks), dates(seen.weeks), "week from"), axis, width=HALF)
    return drawn(figure, frame, [Bars(bars)])


def _effort_says(effort: Effort) -> str:
    if not effort.total.readings:
        return "No document was read in this period."
    says = f"People read for {working_time(3600 * effort.hours)}: {_readings(effort)}."
    if effort.hours_without is not None:
        says += (
            " Reading everything once would have taken "
            f"{working_time(3600 * effort.hours_without)}."
        )
    if effort.readings_per_sent is not None:
        sent = plural(effort.unread, "document was", "documents were")
        says += f" {sent} sent unread: {plain(effort.readings_per_sent)} readings for each."
    return says


def _readings(effort: Effort) -> str:
    return ", ".join(
        f"{time.readings:,} {READINGS[reading][1]} at {span(time.each_s)} each"
        for reading, time in effort.times.items()
        if time.each_s is not None
    )


_UNITS = (("hours", 1.0), ("minutes", 1 / 60), ("seconds", 1 / 3600))


def working_axis(most: float, per: str) -> tuple[float, Axis]:
    """Return a unit in hours in which so many hours are a number to read, and its axis.

    >>> unit, axis = working_axis(0.2, "day")
    >>> 60 * unit, axis.title, axis.ticks[-1]
    (1.0, 'reviewer minutes per day', (10, '10'))
    """
    name, unit = next((each for each in _UNITS if most >= 1.5 * each[1]), _UNITS[-1])
    highest = most / unit or 1.0
    return unit, Axis(0, highest, round_ticks(0, highest, 5), f"reviewer {name} per {per}")
