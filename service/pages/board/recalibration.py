"""Calibrators: retrain one from reviews, read its report, activate it, roll back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Response
from markupsafe import Markup

from setwise.models.figures.numerals import confidence, exactly, percent
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import ModelUnavailable
from setwise.service.domain.recalibration import (
    Activate,
    Calibration,
    Noise,
    proved,
    verdict,
)
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, SectionState
from setwise.service.pages.board.jobs import JOBS
from setwise.service.pages.board.reliability import reliability
from setwise.service.pages.rendering import taken_away
from setwise.service.requests.recalibration import CalibrationRequest

CALIBRATORS = "/board/calibrators"
PAGE = 25
FEW = 20
"""So many documents are listed without a click."""

_CORRECTED = {
    Noise.NONE: "not corrected for",
    Noise.KNOWN: "corrected for, at known rates",
    Noise.ESTIMATED: "corrected for, at estimated rates",
}


def _retrain(call: Call, form: CalibrationRequest) -> str:
    job = call.services.recalibration.request(call.caller, form.as_options())
    return f"{JOBS}/{job.id}"


def _activate_question(call: Call) -> ui.Question:
    calibration = call.services.recalibration.get(call.caller, call.id)
    return ui.Question(
        f"Activate calibrator {calibration.version[:12]}?",
        (
            "It is loaded first; if that fails, the current one stays active.",
            *route_changes(calibration.report),
            "It sets the confidence of new documents; the model and its label sets stay.",
            (
                "A certified threshold holds for one calibrator only: until one is certified for "
                "this one, nothing is sent automatically unless the threshold is fixed."
            ),
            "You can roll back.",
        ),
        "Activate",
        f"{CALIBRATORS}/{calibration.id}",
        danger=False,
    )


def _roll_back_question(_: Call) -> ui.Question:
    return ui.Question(
        "Roll back to the previous calibrator?",
        (
            "The calibrator that was active before is activated again; it may be the model's own.",
            "If a certificate holds for it, its threshold applies at once.",
            "The current one is kept; you can activate it again.",
        ),
        "Roll back",
        CALIBRATORS,
    )


_ONE = f"{CALIBRATORS}/{{calibration_id}}"
RETRAIN = Action(
    CALIBRATORS,
    _retrain,
    CalibrationRequest,
    heading="Retrain the calibrator",
    label="Retrain",
    hint="Runs in the background for up to a few minutes.",
    blames={ModelUnavailable: ""},
)
ACTIVATE = Action(
    f"{_ONE}/activate",
    lambda call, _: call.services.recalibration.activate(call.caller, call.id),
    ask=_activate_question,
    then=CALIBRATORS,
    notices={
        "calibrator-activated": "The calibrator is active; other processes follow within seconds."
    },
)
ROLL_BACK = Action(
    f"{CALIBRATORS}/rollback",
    lambda call, _: call.services.recalibration.roll_back(call.caller, call.query.get("leaving")),
    ask=_roll_back_question,
    then=CALIBRATORS,
    notices={"calibrator-rolled-back": "The previous calibrator is active again."},
)


def _state(calibration: Calibration) -> Markup:
    return ui.badge("active", "good") if calibration.active else ui.badge("inactive")


_COLUMNS: Sequence[ui.Column[Calibration]] = (
    ui.Column(
        "Version",
        lambda calibration: ui.link(
            f"{CALIBRATORS}/{calibration.id}", ui.code(calibration.version[:12])
        ),
        "head",
    ),
    ui.Column("Compared with the previous one", lambda calibration: verdict(calibration.report)),
    ui.Column("Trained", lambda calibration: calibration.created_at),
    ui.Column("State", _state),
)


def _calibrators(call: Call) -> ui.View:
    page = call.services.recalibration.page(call.caller, after=call.after, limit=PAGE)
    serving = call.services.recalibration.serving_version(call.caller)
    empty = (
        "None has been trained on reviews yet; each model uses its own. Once reviewers have "
        "submitted a few hundred documents, retrain."
    )
    return ui.View(
        "Calibrators",
        (
            ui.Table("Calibrators", _COLUMNS, page.items, empty),
            ui.Pager(CALIBRATORS, page.next_after, {}, started=call.after is None),
            call.form(RETRAIN, noise=Noise.NONE.value, activate=Activate.NEVER.value),
        ),
        buttons=(ui.Go("Roll back", f"{ROLL_BACK.address}?{urlencode({'leaving': serving})}"),)
        if page.items and serving
        else (),
        lead="A calibrator turns a model's score into a confidence that can be taken literally. It "
        "is trained on reviews; the model itself stays as it is.",
        terms=("calibrator", "confidence", "checked"),
    )


def _newest(call: Call) -> SectionState:
    newest = call.services.recalibration.page(call.caller, after=None, limit=1).items
    return SectionState(
        f"The newest, compared with the one before it, is {verdict(newest[0].report)}."
        if newest
        else "None has been trained on reviews yet."
    )


_MEASURED: Sequence[ui.Column["Measure"]] = (
    ui.Column(
        "On documents that it has not seen",
        lambda metric: ui.joined(metric.name, ui.sub(metric.meaning)),
        "head",
    ),
    ui.Column("Before", lambda metric: metric.before, "count"),
    ui.Column("After", lambda metric: metric.shown_after(), "count"),
)
_FLIPS: Sequence[ui.Column["Flip"]] = (
    ui.Column("Document", lambda change: change.document, "head"),
    ui.Column("Confidence before", lambda change: f"{change.before:.3f}", "count"),
    ui.Column("After", lambda change: f"{change.after:.3f}", "count"),
    ui.Column(
        "Route",
        lambda change: (
            ui.badge("would be sent", "good")
            if change.sent
            else ui.badge("would be reviewed", "warn")
        ),
    ),
)


def _warnings(report: Mapping[str, object]) -> Sequence[str]:
    warnings = report.get("warnings")
    return [str(each) for each in warnings] if isinstance(warnings, list) else []


def _calibrator(call: Call) -> ui.View:
    calibration = call.services.recalibration.get(call.caller, call.id)
    verdict_said = verdict(calibration.report)
    return ui.View(
        f"Calibrator {calibration.version[:12]}",
        (
            *(ui.text(each, "note") for each in _warnings(calibration.report)),
            ui.Card(
                "Before and after",
                [
                    ui.Table(
                        "Measures before and after",
                        _MEASURED,
                        list(measures(calibration.report)),
                        "There were too few documents to compare.",
                        kind="effect",
                    ),
                    *judgements(calibration.report),
                ],
            ),
            ui.Diagram(reliability(calibration.report), f"{CALIBRATORS}/{calibration.id}".__add__),
            ui.Card("Documents whose route would change", _route_parts(calibration.report)),
            ui.Card("Trained on", [ui.Facts(_training(calibration))]),
        ),
        badge=_state(calibration),
        buttons=()
        if calibration.active
        else (ui.Go("Activate", f"{CALIBRATORS}/{calibration.id}/activate", ""),),
        lead=f"{verdict_said[:1].upper()}{verdict_said[1:]}.",
        terms=("calibrator", "threshold"),
    )


def _route_parts(report: Mapping[str, object]) -> Iterator[ui.Piece]:
    routes, documents = part(report, "routes"), list(flips(report))
    for says in route_changes(report):
        threshold = _number(routes.get("threshold"))
        at = (
            ""
            if threshold is None
            else (
                f" The threshold is {confidence(threshold)}, from {routes.get('threshold_from')}."
            )
        )
        yield ui.text(says + at)
    if documents:
        table = ui.Table("Documents and their routes", _FLIPS, documents)
        yield ui.More(f"{len(documents):,} of them", [table], open=len(documents) <= FEW)


def _training(calibration: Calibration) -> Iterator[tuple[str, object]]:
    yield "When", ui.instant(calibration.created_at, zone=True)
    version = ui.code(calibration.model_version.removeprefix("sha256:")[:12])
    yield "Model", ui.link(f"/board/models/{calibration.model_id}", version)
    yield "Compared with", ui.code(calibration.replaces[:12])
    yield "Reviewers' errors", _CORRECTED[calibration.noise]
    rows = part(calibration.report, "rows")
    if rows:
        used, agreed, contradicted = (
            f"{_number(rows.get(name)) or 0:,.0f}" for name in ("used", "agreed", "contradicted")
        )
        yield "Reviews", f"{used}: {agreed} confirmed, {contradicted} contradicted"
    for why, n in part(rows, "excluded").items():
        if n:
            yield "Excluded", f"{_number(n) or 0:,.0f}: {why}"


def _download(call: Call) -> Response:
    """Return the numbers of the reliability diagram as CSV or JSON."""
    calibration = call.services.recalibration.get(call.caller, call.ids["calibration_id"])
    return taken_away(reliability(calibration.report), call.ids["form"])


_NEEDED = (Permission.REPORT, Permission.INSPECT)
PAGES = (
    BoardPage(
        CALIBRATORS,
        _calibrators,
        (RETRAIN, ROLL_BACK),
        name="Calibrators",
        meaning="How confidence is calibrated, before and after retraining.",
        state=_newest,
        needed=_NEEDED,
    ),
    BoardPage(_ONE, _calibrator, (ACTIVATE,), section=CALIBRATORS, needed=_NEEDED),
    BoardPage(f"{_ONE}/reliability.{{form}}", _download, section=CALIBRATORS, needed=_NEEDED),
)


# The report, in words.


def part(report: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """Return a part of a report; an empty one where it has none.

    >>> part({"before": {"brier": {"value": 0.1}}}, "before", "brier")
    {'value': 0.1}
    """
    value: object = report
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Measure:
    """One line of the comparison: a number before and after, each with its bounds."""

    name: str
    meaning: str
    before: str
    after: str
    better: bool | None
    """Whether the paired test proves it better or worse; None where it proves neither, and for
    every measure that it does not test.
    """

    def shown_after(self) -> object:
        """Return the number after, coloured by whether it is better."""
        if self.better is None:
            return self.after
        return Markup('<span class="{}">{}</span>').format(
            "better" if self.better else "worse", self.after
        )


_MEASURES = (
    ("brier", "Brier score", "mean squared error of the confidence; lower is better"),
    (
        "alignment_error",
        "Alignment error",
        "how far confidence is from accuracy; lower is better",
    ),
    ("sharpness", "Sharpness", "how well confidence separates documents; higher is better"),
)


def measures(report: Mapping[str, object]) -> Iterator[Measure]:
    """Yield the lines of the comparison that a report has numbers for."""
    for key, name, meaning in _MEASURES:
        pair = [part(report, when, key) for when in ("before", "after")]
        values = [_number(each.get("value")) for each in pair]
        better = proved(report) if key == "brier" else None
        if values != [None, None]:
            yield Measure(name, meaning, _bounded(pair[0]), _bounded(pair[1]), better)
    target = _number(part(report, "automation").get("target"))
    pair = [part(report, "automation", when) for when in ("before", "after")]
    shares = [_number(each.get("coverage")) for each in pair]
    if target is not None and shares != [None, None]:
        meaning = f"share that could be sent at {exactly(target)} right"
        yield Measure(
            "Sent automatically", meaning, _automation(pair[0]), _automation(pair[1]), None
        )


def judgements(report: Mapping[str, object]) -> Iterator[Markup]:
    """Yield what the confidences were worth before, and are worth after, in a sentence each."""
    for when in ("before", "after"):
        sentence = part(report, when, "judgement").get("sentence")
        if sentence is not None:
            yield ui.text(f"{when.capitalize()}: {sentence}")


def route_changes(report: Mapping[str, object]) -> list[str]:
    """Return how many recent documents would take another route."""
    routes = part(report, "routes")
    to_auto, to_review = part(routes, "to_auto"), part(routes, "to_review")
    if not routes:
        return []
    documents, sent, held = (
        f"{_number(each) or 0:,.0f}"
        for each in (routes.get("documents"), to_auto.get("count"), to_review.get("count"))
    )
    return [
        (
            f"Of {documents} recent documents, {sent} that were reviewed would be sent, and {held} "
            "that were sent would be reviewed."
        )
    ]


@dataclass(frozen=True)
class Flip:
    """A document that would take another route, by the id of its prediction."""

    document: str
    before: float
    after: float
    sent: bool


def flips(report: Mapping[str, object]) -> Iterator[Flip]:
    """Yield the documents that would take another route, as far as the report lists them."""
    for name in ("to_auto", "to_review"):
        items = part(report, "routes", name).get("items")
        for item in items if isinstance(items, Sequence) else ():
            before, after = _number(item.get("before")), _number(item.get("after"))
            if before is not None and after is not None:
                yield Flip(str(item.get("prediction_id")), before, after, name == "to_auto")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounded(estimate: Mapping[str, object]) -> str:
    value, low, high = (_number(estimate.get(name)) for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    return (
        f"{value:.4f}" if low is None or high is None else f"{value:.4f} ({low:.4f} to {high:.4f})"
    )


def _automation(point: Mapping[str, object]) -> str:
    share, threshold = _number(point.get("coverage")), _number(point.get("threshold"))
    if share is None:
        return "unknown"
    return percent(share) if threshold is None else f"{percent(share)} from {confidence(threshold)}"
