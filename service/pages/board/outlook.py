"""How many more audits a certificate takes, on the page of certificates."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel

from setwise.models.figures.numerals import exactly, plain, plural
from setwise.service.domain.certification import CertificationOutlook
from setwise.service.domain.errors import InvalidRequest
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Call
from setwise.service.pages.forms import Filled, inputs
from setwise.service.requests import Input
from setwise.service.services.analysis.proofs import why_refused


class RateForm(BaseModel):
    """Which audit rate to compare with the policy's."""

    rate: Annotated[
        float | None, Input("Another audit rate %", percent="any", pointers=("/query/rate",))
    ] = None


def outlook(call: Call, address: str) -> tuple[Filled, Sequence[ui.Piece]]:
    """Return the form, and a card with what each segment needs; no card without predictions."""
    form = Filled.of(rate=call.query.get("rate", ""))
    values = form.read(RateForm)
    rate = None if values is None else values.rate
    try:
        outlooks = call.services.certification.outlooks(call.caller, rate)
    except InvalidRequest as error:
        form.refused(error, inputs(RateForm))
        outlooks = call.services.certification.outlooks(call.caller)
    if not outlooks:
        return form, ()
    texts = [(each.segment or "", " ".join(_sentences(each))) for each in outlooks]
    (name, first), *_ = texts
    asked = {each.name: each.input for each in inputs(RateForm)}
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
    if awaited.certified:
        yield "A threshold is certified."
        if awaited.next_attempt_in is not None:
            yield (
                "The next attempt comes by itself after "
                f"{plural(awaited.next_attempt_in, 'audit')}; until then the certificate holds."
            )
        return
    if awaited.further_audits is None:
        why = why_refused(awaited.reason)
        yield f"No number of audits would probably certify a threshold: {why}."
        return
    if awaited.further_audits:
        more = plural(awaited.further_audits, "more audit")
        yield f"About {more} would probably certify a threshold."
    else:
        yield "There are probably enough audits to certify a threshold."
    if awaited.next_attempt_in is not None:
        yield f"The next attempt comes by itself after {plural(awaited.next_attempt_in, 'audit')}."
    for place, pace in enumerate(awaited.paces):
        rate = f"{'' if place else 'the present rate of '}{exactly(pace.rate)}"
        takes = "none come" if pace.weeks is None else f"that takes {_weeks(pace.weeks)}"
        yield f"At {rate}, {plain(pace.audits_a_week)} audits a week, {takes}."


def _weeks(weeks: int) -> str:
    """Write a number of weeks.

    >>> _weeks(0), _weeks(3)
    ('less than a week', 'about 3 weeks')
    """
    return f"about {plural(weeks, 'week')}" if weeks else "less than a week"
