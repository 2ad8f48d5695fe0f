"""Notes in shorthand: fragments under headings, sections dropped as people drop them."""

from setwise.models.demo_notes.pen import Pen, capital, joined

_DISPOSAL = ("refer medics", "admit", "home with safety net", "d/w senior", "GP f/u", "bloods")
_LOOKS = ("looks better", "comfortable at rest", "sitting out", "slept poorly", "apyrexial")
_WARD_PLANS = (
    "PT/OT",
    "repeat bloods tomorrow",
    "home when safe",
    "VTE prophylaxis",
    "update family",
)
_SAFETY_NETS = (
    "r/v {weeks}",
    "see if no better",
    "999 if worse",
    "bloods then r/v",
    "safety-netted",
)


def emergency(pen: Pen) -> str:
    """Write the clerking of an emergency doctor."""
    chart = pen.chart
    who = f"{chart.age}{pen.one('', 'yo ', 'y ')}{chart.sex}"
    complaint = chart.presenting or [pen.one("unwell", "referred by GP", "brought by ambulance")]
    presenting = f"{pen.one('PC:', 'P/C', 'c/o', 'PC')} {joined(complaint)}"
    return pen.sections(
        f"{who} {presenting}" if pen.chance(0.7) else f"{presenting} ({who})",
        pen.denials(),
        pen.listed(
            pen.one("PMH", "PMH:", "PMHx", "Bg:"),
            chart.background,
            none=pen.one("nil", "nil of note", "") if not chart.medicines else "",
        ),
        pen.listed(pen.one("DH", "DH:", "Meds:", "Rx hx:"), chart.medicines),
        pen.listed(pen.one("FH", "FHx:"), chart.family),
        pen.listed(pen.one("SH", "SH:", "Social:"), chart.social),
        pen.one("NKDA", "", "", "Allergies: nil", "Pen allergic") if pen.chance(0.5) else "",
        pen.listed(pen.one("O/E", "O/E:", "Exam:", "o/e"), chart.findings),
        pen.listed(pen.one("Ix:", "Ix", "Results:"), chart.tests),
        pen.listed(
            pen.one("Imp:", "Imp", "Impression:", "∆", "Dx:"),
            [*chart.impression, *chart.ruled_out],
        ),
        pen.listed(
            pen.one("Plan:", "P:", "Plan"), [*chart.treatment, *pen.perhaps(0.45, *_DISPOSAL)]
        ),
    )


def triage(pen: Pen) -> str:
    """Write the few lines of a triage nurse."""
    chart = pen.chart
    arrived = pen.one("BIBA", "Walked in", "Self-presented", "Via GP", "Brought in by family")
    hour = f"{pen.rng.randint(0, 23):02d}{pen.rng.randint(0, 59):02d}"
    lead = chart.presenting or chart.impression[:1] or chart.findings[:1] or ["generally unwell"]
    known = [*chart.background, *chart.social]
    pen.rng.shuffle(known)
    return pen.sections(
        f"{pen.one(f'{hour}hrs', f'Triage {hour}', hour)} {chart.age}{chart.sex} {arrived} with "
        f"{joined(lead)}",
        pen.listed(pen.one("Known", "Hx of", "Background"), known),
        pen.listed(pen.one("Takes", "On"), chart.medicines),
        pen.listed(pen.one("Obs/exam:", "Noted:", "Looks:"), [*chart.findings, *chart.tests]),
        pen.denials(),
        pen.listed("FH:", chart.family),
        pen.listed(
            pen.one("Seen by Dr:", "Medic impression:", "Imp:"),
            [*chart.impression, *chart.ruled_out],
        ),
        pen.listed(pen.one("Given", "Done:", "For"), chart.treatment),
    )


def ward_round(pen: Pen) -> str:
    """Write an entry of the ward round."""
    chart = pen.chart
    day = pen.rng.randint(1, 9)
    problems = list(chart.impression)
    if chart.background and pen.chance(0.5):
        problems += chart.background
        background = ""
    else:
        background = pen.listed(pen.one("Bg", "PMH:", "Background:"), chart.background)
    if not problems:
        problems = [pen.one("as per clerking", "see above", "ongoing")]
    return pen.sections(
        f"{pen.one('WR', 'Ward round', 'PTWR', 'Cons WR')} day {day}, {chart.age}{chart.sex}",
        f"{pen.one('Admitted with', 'Came in with', 'Adm:')} {joined(chart.presenting)}"
        if chart.presenting
        else "",
        pen.numbered(pen.one("Problems", "Issues:", "Active problems:"), problems),
        background,
        pen.listed(pen.one("Meds", "Drug chart:", "On"), chart.medicines),
        pen.listed("FHx", chart.family),
        pen.listed(pen.one("Social:", "SH"), chart.social),
        pen.listed(pen.one("O/E", "Today:", "Exam"), [*chart.findings, *pen.perhaps(0.5, *_LOOKS)]),
        pen.listed(pen.one("Ix", "Results:", "Bloods/imaging:"), [*chart.tests, *chart.ruled_out]),
        pen.denials(),
        pen.listed(
            pen.one("Plan:", "Plan", "P"), [*chart.treatment, *pen.perhaps(0.6, *_WARD_PLANS)]
        ),
    )


def general_practice(pen: Pen) -> str:
    """Write an entry of a general practitioner."""
    chart = pen.chart
    complaint = joined(chart.presenting or [pen.one("here for review", "came for results")])
    seen = pen.one(
        "", "", "Hx: ", "Seen with [wife|daughter|carer]. ", "Tel cons. ", "Home visit. "
    )
    return pen.sections(
        f"{seen}{capital(complaint)}",
        pen.denials(),
        pen.listed(pen.one("PMH", "Hx of", "Known", "Background"), chart.background),
        pen.listed(pen.one("On", "Takes", "Repeat:"), chart.medicines),
        pen.listed(pen.one("FH", "Fam hx:"), chart.family),
        pen.listed(pen.one("SH:", "Lifestyle:"), chart.social),
        pen.listed(pen.one("O/E", "Ex:", "Exam"), chart.findings),
        pen.listed(pen.one("Results:", "Ix"), chart.tests),
        pen.listed(pen.one("Imp", "Imp:", "Diagnosis:", "A:", "I think"), chart.impression),
        capital(joined(chart.ruled_out)) if chart.ruled_out else "",
        pen.listed(
            pen.one("Plan:", "Rx", "P:"), [*chart.treatment, *pen.perhaps(0.5, *_SAFETY_NETS)]
        ),
    )
