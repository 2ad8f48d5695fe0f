"""Calibrators: retrain one from reviews, read its report, activate it, roll back.

Question: are the confidences still honest, and would a new calibrator help?
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Response
from markupsafe import Markup

from setwise.models.figures.numerals import confidence, exactly, percent
from setwise.models.results import AutomationAt, Estimate
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import ModelUnavailable
from setwise.service.domain.recalibration import (
    Activate,
    Calibration,
    Noise,
)
from setwise.service.domain.recalibration.report import (
    CalibrationReport,
    CalibratorComparison,
    RouteChange,
    RoutesChanged,
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
            _routes(calibration.report.routes),
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
    ("activate", "noise", "rates.alpha", "rates.beta"),
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


def _compared(comparison: CalibratorComparison) -> Markup:
    """Return the verdict of the comparison, without its numbers."""
    tone: ui.Tone = "" if comparison.proved is None else "good" if comparison.proved else "bad"
    return ui.badge(_verdict(comparison), tone)


def _verdict(comparison: CalibratorComparison) -> str:
    return comparison.sentence.partition(":")[0]


_COLUMNS: Sequence[ui.Column[Calibration]] = (
    ui.Column(
        "Version",
        lambda calibration: ui.link(
            f"{CALIBRATORS}/{calibration.id}", ui.code(calibration.version[:12])
        ),
        "head",
    ),
    ui.Column("Than the one before", lambda calibration: _compared(calibration.report.comparison)),
    ui.Column("Compared on", lambda calibration: calibration.report.comparison.n, "count"),
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
    if not newest:
        return SectionState("None has been trained on reviews yet.")
    state = "active" if newest[0].active else "not active"
    return SectionState(f"The newest: {_verdict(newest[0].report.comparison)}, {state}.")


_MEASURED: Sequence[ui.Column["Measure"]] = (
    ui.Column(
        "On documents that it has not seen",
        lambda metric: ui.joined(metric.name, ui.sub(metric.meaning)),
        "head",
    ),
    ui.Column("Before", lambda metric: metric.before, "count"),
    ui.Column("After", lambda metric: metric.shown_after(), "count"),
)
_FLIPS: Sequence[ui.Column[tuple[RouteChange, Markup]]] = (
    ui.Column("Document", lambda row: row[0].prediction_id, "head"),
    ui.Column("Confidence before", lambda row: f"{row[0].before:.3f}", "count"),
    ui.Column("After", lambda row: f"{row[0].after:.3f}", "count"),
    ui.Column("Route", lambda row: row[1]),
)


def _calibrator(call: Call) -> ui.View:
    calibration = call.services.recalibration.get(call.caller, call.id)
    report, sentence = calibration.report, calibration.report.comparison.sentence
    verdict = _verdict(report.comparison)
    return ui.View(
        f"Calibrator {calibration.version[:12]}",
        (
            *(ui.text(each, "note") for each in report.warnings),
            ui.Diagram(reliability(report), f"{CALIBRATORS}/{calibration.id}".__add__),
            ui.Card("Documents whose route would change", _route_parts(report.routes)),
            ui.More(
                "Advanced",
                [
                    ui.text(f"{sentence[:1].upper()}{sentence[1:]}."),
                    ui.Table(
                        "Measures before and after",
                        _MEASURED,
                        list(measures(report)),
                        "There were too few documents to compare.",
                        kind="effect",
                    ),
                    *_judgements(report),
                    ui.heading("Trained on"),
                    ui.Facts(_training(calibration)),
                ],
            ),
        ),
        badge=_state(calibration),
        buttons=()
        if calibration.active
        else (ui.Go("Activate", f"{CALIBRATORS}/{calibration.id}/activate", ""),),
        lead=f"{verdict[:1].upper()}{verdict[1:]} than the calibrator before it."
        if report.comparison.reason is None
        else f"{sentence[:1].upper()}{sentence[1:]}.",
        terms=("calibrator", "threshold"),
    )


def _route_parts(routes: RoutesChanged) -> Iterator[ui.Piece]:
    threshold = f"The threshold is {confidence(routes.threshold)}, from {routes.threshold_from}."
    yield ui.text(f"{_routes(routes)} {threshold}")
    sent, reviewed = ui.badge("would be sent", "good"), ui.badge("would be reviewed", "warn")
    rows = [(change, sent) for change in routes.to_auto.items]
    rows += [(change, reviewed) for change in routes.to_review.items]
    if rows:
        table = ui.Table("Documents and their routes", _FLIPS, rows)
        yield ui.More(f"{len(rows):,} of them", [table], open=len(rows) <= FEW)


def _training(calibration: Calibration) -> Iterator[tuple[str, object]]:
    yield "When", ui.instant(calibration.created_at, zone=True)
    version = ui.code(calibration.model_version.removeprefix("sha256:")[:12])
    yield "Model", ui.link(f"/board/models/{calibration.model_id}", version)
    yield "Compared with", ui.code(calibration.replaces[:12])
    yield "Reviewers' errors", _CORRECTED[calibration.noise]
    rows = calibration.report.rows
    yield (
        "Reviews",
        f"{rows.used:,}: {rows.agreed:,} confirmed, {rows.contradicted:,} contradicted",
    )
    for why, n in rows.excluded.items():
        if n:
            yield "Excluded", f"{n:,}: {why}"


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


def measures(report: CalibrationReport) -> Iterator[Measure]:
    """Yield the lines of the comparison that a report has numbers for."""
    for key, name, meaning in _MEASURES:
        before, after = (getattr(half, key) for half in (report.before, report.after))
        better = report.comparison.proved if key == "brier" else None
        if before is not None and after is not None:
            yield Measure(name, meaning, _bounded(before), _bounded(after), better)
    at_target = report.automation
    yield Measure(
        "Sent automatically",
        f"share that could be sent at {exactly(at_target.target)} right",
        _automation(at_target.before),
        _automation(at_target.after),
        None,
    )


def _judgements(report: CalibrationReport) -> Iterator[Markup]:
    """Yield what the confidences were worth before, and are worth after, in a sentence each."""
    yield ui.text(f"Before: {report.before.judgement.sentence}")
    yield ui.text(f"After: {report.after.judgement.sentence}")


def _routes(routes: RoutesChanged) -> str:
    """Return how many recent documents would take another route."""
    return (
        f"Of {routes.documents:,} recent documents, {routes.to_auto.count:,} that were reviewed "
        f"would be sent, and {routes.to_review.count:,} that were sent would be reviewed."
    )


def _bounded(estimate: Estimate) -> str:
    return f"{estimate.value:.4f} ({estimate.low:.4f} to {estimate.high:.4f})"


def _automation(point: AutomationAt) -> str:
    share, threshold = percent(point.coverage), point.threshold
    return share if threshold is None else f"{share} from {confidence(threshold)}"
