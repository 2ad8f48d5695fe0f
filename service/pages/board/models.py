"""Models: verify one, run it in the shadow of the active one, compare them, activate it.

Question: is the new model better than the active one?
"""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import BaseModel

from setwise.models.figures.numerals import plain, share_of
from setwise.service.domain.documents import ModelDifference
from setwise.service.domain.errors import ModelNotFound
from setwise.service.domain.models import (
    CertificationCandidate,
    ComparedAnswer,
    ModelVersion,
    Tally,
)
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import Noise
from setwise.service.pages import documents
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, SectionState
from setwise.service.pages.board.jobs import JOBS
from setwise.service.requests import Input
from setwise.service.requests.models import CompareRequest, RetrainRequest
from setwise.service.services.models import ComparisonReport

MODELS = "/board/models"
PAGE = 50


def short(version: str) -> str:
    """Return as much of a version as people compare.

    >>> short("sha256:3f9c0b7a1d2e44")
    '3f9c0b7a1d2e'
    """
    return version.removeprefix("sha256:")[:12]


class Certified(BaseModel):
    """The form that certifies a model before it serves."""

    untrained: Annotated[
        bool,
        Input(
            "It was trained on none of the audits",
            "Otherwise only documents that arrived after the model was made count.",
            widget="tick",
        ),
    ] = False


class ShadowForm(BaseModel):
    """The form that starts or stops a shadow run."""

    end: Annotated[str, Input(widget="hidden")] = ""


def _compare(call: Call, form: CompareRequest) -> str:
    job = call.services.models.submit_compare(call.caller, call.id, form.documents)
    return f"{JOBS}/{job.id}"


def _certify(call: Call, form: Certified) -> str:
    candidate = CertificationCandidate(call.id, trained_on_audits=not form.untrained)
    job = call.services.certification.request(call.caller, candidate)
    return f"{JOBS}/{job.id}"


def _retrain(call: Call, form: RetrainRequest) -> str:
    job = call.services.retraining.request(call.caller, form.as_options())
    return f"{JOBS}/{job.id}"


def _shadow(call: Call, form: ShadowForm) -> str:
    if form.end:
        call.services.models.end_shadow(call.caller, call.id)
    else:
        call.services.models.begin_shadow(call.caller, call.id)
    return f"{MODELS}/{call.id}?done={'shadow-ended' if form.end else 'shadow-begun'}"


def _roll_back_question(_: Call) -> ui.Question:
    return ui.Question(
        "Roll back to the previous model?",
        (
            "The model that was active before the current one is loaded and activated again.",
            "The current one stays registered; you can activate it again.",
            "Past predictions keep the version that made them.",
        ),
        "Roll back",
        MODELS,
    )


def _activate_question(call: Call) -> ui.Question:
    models = call.services.models.page(call.caller)
    model = next((candidate for candidate in models if candidate.id == call.id), None)
    if model is None:
        raise ModelNotFound(f"No registered model has the id {call.id!r}.")
    tally = call.services.models.tally(call.caller, call.id)
    active = next((version for version in models if version.active), None)
    return ui.Question(
        f"Activate {short(model.version)}?",
        (
            "It is loaded first; if that fails, the current model stays active.",
            f"From then on it decides every document, in place of {short(active.version)}."
            if active
            else "From then on it decides every document.",
            flips(tally),
            (
                "A certified threshold holds for the model it was certified for. One that is "
                "certified for this model and fits the policy comes into force; without one "
                "nothing will be sent, unless the threshold is fixed."
            ),
            "No request is dropped, and you can roll back.",
        ),
        "Activate",
        f"{MODELS}/{model.id}",
        danger=False,
    )


def flips(tally: Tally) -> str:
    """Return what the comparison shows about a model.

    >>> flips(Tally())
    'It has not been compared with the active model; you can do that first.'
    """
    if not tally.compared:
        return "It has not been compared with the active model; you can do that first."
    return (
        f"Of {tally.compared:,} documents that both have scored, {tally.auto_candidate:,} that "
        f"were reviewed would be sent, and {tally.auto_serving:,} that were sent would be "
        f"reviewed; {tally.compared - tally.same_labels:,} would get another label set."
    )


_ONE = f"{MODELS}/{{model_id}}"
ROLL_BACK = Action(
    f"{MODELS}/rollback",
    lambda call, _: call.services.models.roll_back(call.caller, call.query.get("leaving")),
    ask=_roll_back_question,
    then=MODELS,
    notices={"model-rolled-back": "The previous model is active again."},
)
ACTIVATE = Action(
    f"{_ONE}/activate",
    lambda call, _: call.services.models.activate(call.caller, call.id),
    ask=_activate_question,
    then=MODELS,
    notices={"model-activated": "The model is active; other processes follow within seconds."},
)
VERIFY = Action(
    f"{_ONE}/verify",
    lambda call, _: call.services.models.verify(call.caller, call.id),
    then=_ONE,
    notices={"model-sound": "The model loads and predicts."},
)
COMPARE = Action(
    f"{_ONE}/compare",
    _compare,
    CompareRequest,
    heading="Compare on recent documents",
    label="Compare",
)
CERTIFY = Action(
    f"{_ONE}/certify",
    _certify,
    Certified,
    heading="Certify on the audits of other models",
    label="Certify",
)
RETRAIN = Action(
    f"{MODELS}/retrain",
    _retrain,
    RetrainRequest,
    heading="Train a new version",
    label="Retrain",
    hint="Runs in the background, for minutes or hours.",
)
SHADOW = Action(
    f"{_ONE}/shadow",
    _shadow,
    ShadowForm,
    notices={
        "shadow-begun": "The model scores live documents from now on and decides nothing.",
        "shadow-ended": "The shadow run has stopped; its scores are kept.",
    },
)


def summary(model: ModelVersion) -> str:
    """Return in a few words what a model is."""
    method, labels = model.summary.get("method"), model.summary.get("n_labels")
    words = [str(method)] if method else []
    if model.summary.get("kind") == "external":
        words = ["external: reads another model's answers"]
    return ", ".join([*words, *([f"{labels:,} labels"] if isinstance(labels, int) else [])])


def metrics(model: ModelVersion) -> list[tuple[str, str]]:
    """Return what training measured of a model."""
    metrics = model.summary.get("metrics")
    if not isinstance(metrics, Mapping):
        return []
    alike = [("Warning", "It gives the same set to every document.")]
    return [
        *(alike if metrics.get("one_set") is True else []),
        *(
            (str(name).replace("_", " ").capitalize(), plain(float(value)))
            for name, value in metrics.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ),
    ]


def _retrain_page(call: Call) -> ui.View:
    return ui.View(
        "Retrain the model?",
        (
            ui.text(
                "It learns from reviewed documents whose texts are kept; those drawn to certify "
                "teach nothing. The new version is registered, scores live documents in the shadow "
                "if no other one does, and is compared with the active one on the same audits."
            ),
            ui.text("What serves does not change: you activate the new version yourself."),
            call.form(RETRAIN, noise=Noise.NONE.value),
        ),
    )


_COLUMNS: Sequence[ui.Column[ModelVersion]] = (
    ui.Column(
        "Version",
        lambda model: ui.link(f"{MODELS}/{model.id}", ui.code(short(model.version))),
        "head",
    ),
    ui.Column("Description", summary),
    ui.Column("Registered", lambda model: model.created_at),
    ui.Column(
        "State",
        lambda model: ui.badge("active", "good") if model.active else ui.badge("registered"),
    ),
)


def _models(call: Call) -> ui.View:
    models = call.services.models.page(call.caller)
    active = next((model for model in models if model.active), None)
    empty = Markup(
        "No model is registered yet. Train one with <code>setwise train DATA --out model</code> "
        "and register it with <code>setwise model add model --activate</code>."
    )
    return ui.View(
        "Models",
        (ui.Table("Models", _COLUMNS, models, empty),),
        buttons=(
            ui.Go("Retrain", RETRAIN.address, ""),
            *(
                (
                    ui.Go(
                        "Roll back", f"{ROLL_BACK.address}?{urlencode({'leaving': active.version})}"
                    ),
                )
                if active and len(models) > 1
                else ()
            ),
        ),
        lead="One is active; verify and compare others before you activate them.",
        terms=("confidence", "calibrator"),
    )


def _model(call: Call) -> ui.View:
    routes_only = call.query.get("routes") == "yes"
    report = call.services.models.comparison(
        call.caller, call.id, routes_only=routes_only, after=call.after, limit=PAGE
    )
    model, here = report.model, f"{MODELS}/{report.model.id}"
    parts: list[ui.Piece] = [
        ui.Facts(
            (
                ("Version", ui.code(model.version)),
                ("Description", summary(model) or "unknown"),
                ("Registered", ui.instant(model.created_at, zone=True)),
            )
        )
    ]
    if measured := metrics(model):
        parts.append(ui.More("Metrics from training", [ui.Facts(measured)]))
    verify = ui.Press("Verify", f"{here}/verify")
    if model.active:
        state = ui.badge("active", "good")
        parts.append(ui.Buttons((verify,)))
    else:
        state = ui.badge("shadow", "leased") if report.shadow else ui.badge("registered")
        shadow = (
            ui.Press("Stop shadow run", f"{here}/shadow", fields={"end": "yes"})
            if report.shadow
            else ui.Press("Start shadow run", f"{here}/shadow")
        )
        parts += [
            ui.Buttons((ui.Go("Activate", f"{here}/activate", ""), verify, shadow)),
            ui.heading("Compared with the active model"),
            *_comparison(report),
            call.form(COMPARE, documents="1000"),
            call.form(CERTIFY),
            *(_differences(call, report, routes_only=routes_only) if report.tally.compared else ()),
        ]
    return ui.View(f"Model {short(model.version)}", parts, badge=state)


_ROUTES: Sequence[ui.Column[tuple[str, int, int, Mapping[str, str]]]] = (
    ui.Column("Route", lambda row: row[0], "head"),
    ui.Column("Documents", lambda row: documents.counted(row[1], **row[3]), "count"),
    ui.Column("Share", lambda row: share_of(row[1], row[2]), "count"),
)


def _comparison(report: ComparisonReport) -> list[ui.Piece]:
    tally, parts = report.tally, list[ui.Piece]()
    if report.shadow:
        since = ui.instant(report.shadow.started_at, zone=True)
        parts.append(
            ui.text(
                ui.joined("It has scored live documents since ", since, " and decides nothing."),
                "note",
            )
        )
    if not tally.compared:
        empty = "Not compared yet. Start a shadow run, or score recent documents again."
        return [*parts, ui.text(empty, "empty")]
    same = share_of(tally.same_labels, tally.compared)
    rows = (
        ("Both send", tally.auto_both, ModelDifference.BOTH_SEND),
        (
            "Only the active model sends; this one would not",
            tally.auto_serving,
            ModelDifference.ONLY_ACTIVE_SENDS,
        ),
        (
            "Only this model would send; the active one did not",
            tally.auto_candidate,
            ModelDifference.ONLY_CANDIDATE_SENDS,
        ),
        ("Both leave to reviewers", tally.review_both, ModelDifference.NEITHER_SENDS),
    )
    behind = {"candidate": report.model.id}
    return [
        *parts,
        ui.text(
            ui.joined(
                f"Of {tally.compared:,} documents that both have scored, {tally.same_labels:,} "
                f"({same}) get the same label set; ",
                documents.counted(
                    tally.compared - tally.same_labels, **behind, difference=ModelDifference.LABELS
                ),
                " another one.",
            )
        ),
        ui.Table(
            "Routes",
            _ROUTES,
            [
                (route, n, tally.compared, {**behind, "difference": label.value})
                for route, n, label in rows
            ],
        ),
    ]


def _labels(labels: Sequence[str], confidence: float) -> Markup:
    return ui.joined(", ".join(labels) or "no labels", " ", ui.sub(f"{confidence:.3f}"))


def _route(other: ComparedAnswer) -> Markup:
    if other.same_decision:
        return ui.quiet("the same")
    return ui.badge("would be sent" if other.decision == "auto" else "would be reviewed", "warn")


_DIFFERING: Sequence[ui.Column[tuple[ComparedAnswer, Prediction]]] = (
    ui.Column(
        "Document",
        lambda row: ui.joined(
            ui.link(documents.of_document(row[1].id), row[1].document.id or row[1].id),
            ui.sub(ui.instant(row[1].created_at)),
        ),
        "head",
    ),
    ui.Column(
        "Active model",
        lambda row: _labels(row[1].scored.best.labels, row[1].scored.best.confidence),
    ),
    ui.Column("This model", lambda row: _labels(row[0].labels, row[0].confidence)),
    ui.Column("Route", lambda row: _route(row[0])),
)


def _differences(call: Call, report: ComparisonReport, *, routes_only: bool) -> list[ui.Piece]:
    here, strong = f"{MODELS}/{report.model.id}", Markup("<strong>{}</strong>")
    every, flipped = "All differences", "Only where the route changes"
    choice = (
        ui.joined(ui.link(here, every), " · ", strong.format(flipped))
        if routes_only
        else ui.joined(strong.format(every), " · ", ui.link(f"{here}?routes=yes", flipped))
    )
    differing, query = report.differing, {"routes": "yes"} if routes_only else {}
    empty = f"None{': every document would take the same route' if routes_only else ''}."
    return [
        ui.heading("Documents on which they differ"),
        ui.text(choice),
        ui.Table("Documents that differ", _DIFFERING, differing.items, empty),
        ui.Pager(here, differing.next_after, query, started=call.after is None),
    ]


def _state(call: Call) -> SectionState:
    models = call.services.models.page(call.caller)
    active = next((version for version in models if version.active), None)
    if active is None:
        return SectionState("None is active, so nothing can be predicted.", wrong=True)
    return SectionState(f"{short(active.version)} is active; {len(models):,} registered.")


PAGES = (
    BoardPage(
        MODELS,
        _models,
        (ROLL_BACK,),
        name="Models",
        meaning="Which model is active, and how others compare.",
        state=_state,
    ),
    BoardPage(RETRAIN.address, _retrain_page, (RETRAIN,), section=MODELS),
    BoardPage(_ONE, _model, (ACTIVATE, VERIFY, COMPARE, CERTIFY, SHADOW), section=MODELS),
)
