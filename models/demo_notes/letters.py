"""Notes in full sentences: the discharge summary and the clinic letter."""

from collections.abc import Sequence

from setwise.models.demo_notes.pen import Pen, capital, joined


def discharge(pen: Pen) -> str:
    """Write the summary of a stay in hospital."""
    chart, he, his = pen.chart, pen.he, pen.his
    numbered = pen.author.layout == "lines" and bool(chart.impression)
    treated = (f"{he} was treated for", f"{he} was diagnosed with", "The diagnosis was")
    text = " ".join(
        (
            _arrival(pen),
            *_told(pen, (f"{he} denied", f"{he} reported no"), [" or ".join(chart.denied)]),
            *_told(pen, ("Examination:", "On examination:", "On arrival:"), chart.findings),
            *pen.tests_told(),
            *_told(pen, treated, [] if numbered else chart.impression),
            *_told(pen, ("There was",), chart.ruled_out),
            *_told(
                pen, (f"{he} received", f"{he} was managed with", "Treatment:"), chart.treatment
            ),
            *_told(pen, (f"{his} past history includes", "Background:"), chart.background),
            *_told(pen, ("Regular medicines:", f"{he} takes", "Discharged on"), chart.medicines),
            *_told(pen, ("Family history:",), chart.family),
            *_told(pen, ("Social history:",), chart.social),
            *_follow_up(pen),
        )
    )
    if not numbered:
        return text
    return pen.numbered(pen.one("Diagnoses", "Diagnosis:"), chart.impression) + f"\n\n{text}"


def _told(pen: Pen, leads: tuple[str, ...], items: Sequence[str]) -> list[str]:
    """Write a sentence about the items; none when there are none."""
    kept = [item for item in items if item]
    return [f"{pen.one(*leads)} {joined(kept)}."] if kept else []


def _arrival(pen: Pen) -> str:
    if not pen.chart.presenting:
        return f"{capital(pen.patient())} was under our care {pen.one('for {days}')}."
    lead = pen.one(
        f"Thank you for taking over the care of {pen.patient()}, who was admitted with",
        f"{capital(pen.patient())} came in with",
        f"{capital(pen.patient())} was admitted with",
    )
    return f"{lead} {joined(pen.chart.presenting)}."


def _follow_up(pen: Pen) -> list[str]:
    if not pen.chance(0.55):
        return []
    return [
        pen.one(
            "We would be grateful if you could repeat the bloods in {weeks}.",
            "No follow-up planned.",
            "Clinic in {weeks}.",
            "Please continue the medicines as listed.",
            "Discharged home, independent as before.",
        )
    ]


def clinic(pen: Pen) -> str:
    """Write to the patient's own doctor after a visit."""
    chart, he = pen.chart, pen.he
    listed = [*chart.impression, *chart.background]
    him = "her" if chart.sex == "F" else "him"
    opening = pen.one(
        f"I reviewed {pen.patient()} in clinic today.",
        f"Thank you for referring {pen.patient()}, whom I saw today.",
    )
    reports = (f"{he} describes", f"{he} gives a history of", f"{he} reports")
    story = (
        opening,
        *_told(pen, reports, chart.presenting),
        *_told(pen, (f"{he} denies",), [" or ".join(chart.denied)]),
        *_told(pen, ("Socially:",), chart.social),
        *_told(pen, ("In the family:",), chart.family),
        *_told(pen, ("On examination:",), chart.findings),
    )
    closing = (
        *_told(pen, ("I found",), chart.ruled_out),
        *_told(pen, ("I have suggested", "We agreed on"), chart.treatment),
        pen.one(f"I will see {him} again in {{months}}.", "Discharged to your care.", ""),
    )
    parts = (
        f"Dear {pen.one('Dr Hale', 'Dr Osei', 'Dr Lindqvist', 'colleague')},",
        pen.numbered("Diagnoses:", listed) if listed else "",
        pen.listed("Current medication:", chart.medicines),
        " ".join(story),
        " ".join(pen.tests_told()),
        " ".join(closing).strip(),
    )
    return "\n".join(part for part in parts if part)
