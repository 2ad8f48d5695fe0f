"""How many more audits a certificate takes, on the page of certificates."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel

from setwise.models.figures.numerals import exactly, plain, plural, working_time
from setwise.service.domain.certification import CertificationOutlook
from setwise.service.domain.errors import InvalidRequest
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Call
from setwise.service.pages.forms import Filled, inputs
from setwise.service.requests import Input
from setwise.service.services.analysis.proofs import why_refused


class OutlookForm(BaseModel):
    """What to compare with the policy's audit rate and target."""

    rate: Annotated[
        float | None, Input("Another audit rate %", percent="any", pointers=("/query/rate",))
    ] = None
    target: Annotated[
        float | None, Input("Another target %", percent="any", pointers=("/query/target",))
    ] = None


def outlook(call: Call, address: str) -> tuple[Filled, Sequence[ui.Piece]]:
    """Return the form, and a card with what each segment needs; no card without predictions."""
    names = [each.name for each in inputs(OutlookForm)]
    form = Filled.of(**{name: call.query.get(name, "") for name in names})
    values = form.read(OutlookForm) or OutlookForm()
    try:
        outlooks = call.services.outlook.of_segments(call.caller, values.rate, values.target)
    except InvalidRequest as error:
        form.refused(error, inputs(OutlookForm))
        outlooks = call.services.outlook.of_segments(call.caller)
    if not outlooks:
        return form, ()
    texts = [(each.segment or "", " ".join(_sentences(each))) for each in outlooks]
    (name, first), *_ = texts
    asked = {each.name: each.input for each in inputs(OutlookForm)}
    return form, (
        ui.Card(
            "How many more audits?",
            [
                ui.Facts(texts) if name else ui.text(first),
                ui.Filters(address, asked, form, label="Compare"),
            ],
        ),
    )


def _sentences(awaited: CertificationOutlook) -> Iterator[str]:
    """Yield how many more audits a segment needs, and how long they take."""
    target = exactly(awaited.target)
    if awaited.certified:
        yield f"A threshold is certified for {target}."
        if awaited.next_attempt_in is not None:
            yield (
                "The next attempt comes by itself after "
                f"{plural(awaited.next_attempt_in, 'audit')}; until then the certificate holds."
            )
        return
    if awaited.further_audits is None:
        why = why_refused(awaited.reason)
        yield f"No number of audits would probably certify a threshold for {target}: {why}."
        return
    if awaited.further_audits:
        more = plural(awaited.further_audits, "more audit")
        hours = (
            "" if awaited.hours is None else f", {working_time(3600 * awaited.hours)} of reading,"
        )
        yield f"About {more}{hours} would probably certify a threshold for {target}."
    else:
        yield f"There are probably enough audits to certify a threshold for {target}."
    if awaited.next_attempt_in is not None:
        yield f"The next attempt comes by itself after {plural(awaited.next_attempt_in, 'audit')}."
    if awaited.too_recent:
        yield (
            f"{plural(awaited.too_recent, 'recent audit')} will count once none of them waits for "
            "a reader or a lead."
        )
    for place, pace in enumerate(awaited.paces):
        rate = f"{'' if place else 'the present rate of '}{exactly(pace.rate)}"
        takes = "none come" if pace.weeks is None else f"that takes {_weeks(pace.weeks)}"
        a_week = f"{plain(pace.audits_a_week)} audits"
        if pace.hours_a_week is not None:
            a_week += f" and {working_time(3600 * pace.hours_a_week)}"
        yield f"At {rate}, {a_week} a week, {takes}."


def _weeks(weeks: int) -> str:
    """Write a number of weeks.

    >>> _weeks(0), _weeks(3)
    ('less than a week', 'about 3 weeks')
    """
    return f"about {plural(weeks, 'week')}" if weeks else "less than a week"
