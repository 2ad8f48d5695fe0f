"""Start: what is missing before a first model, and how far people are: labels, texts, readers.

Question: what is missing before the first model?
"""

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from markupsafe import Markup
from pydantic import BaseModel
from starlette.datastructures import FormData, UploadFile

from setwise.models.figures.numerals import plural
from setwise.service.api.http.dependencies import edge_of
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import UploadTooLarge
from setwise.service.domain.jobs import Job
from setwise.service.domain.predictions import Reason
from setwise.service.domain.retraining import RARE, Learning
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call
from setwise.service.pages.board.jobs import JOBS
from setwise.service.pages.board.label_decisions import LABELS
from setwise.service.pages.board.people import PEOPLE
from setwise.service.pages.documents import address
from setwise.service.pages.figures.learning import learning_curve
from setwise.service.pages.forms import lines
from setwise.service.pages.rendering import go
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.visitors import who_may
from setwise.service.requests import Input
from setwise.service.services.all import Services
from setwise.service.services.documents.reading import line_of, lines_of_file
from setwise.service.services.reports import Counts
from setwise.service.sign_in.sessions import CSRF_FIELD, Visit

START = "/board/start"
TEXTS = START + "/texts"
"""Takes files of texts, however large; middleware limits other bodies."""

_FORM_BYTES = 1_000_000  # beside the files

ELSEWHERE = Markup(
    "If you like, a language model or rules suggest label sets from the start: register them with "
    "<code>setwise model add --external --labels labels.txt --activate</code>, and send what they "
    "answer with each text, as <code>examples/llm_answers.py</code> does. Reviewers then see other "
    "answers than those of a model of your own, and models no longer come by themselves."
)

MOST_RARE = 20
"""Rare labels that are named."""


class LabelList(BaseModel):
    """The form that adds labels."""

    typed: Annotated[str, Input("Labels, one a line", widget="textarea", pointers=("/labels",))] = (
        ""
    )
    file: Annotated[str, Input("Or a file of them", "A text file, one a line.", widget="file")] = ""
    insist: Annotated[bool, Input("Add labels that look alike: each is meant", widget="tick")] = (
        False
    )


def _add_labels(call: Call, form: LabelList) -> None:
    text = "\n".join(part for part in (form.typed, form.file) if part)
    call.services.labels.add(call.caller, text, insist=form.insist)


ADD_LABELS = Action(
    START + "/labels",
    _add_labels,
    LabelList,
    heading="Add labels",
    label="Add labels",
    then=START,
    notices={"labels-added": "The labels are added; people can give them now."},
)


class TextFile(BaseModel):
    """The form that brings texts to read."""

    texts: Annotated[
        str,
        Input(
            "File of texts",
            "JSON Lines, CSV or Parquet, each also gzipped, with the texts in `text`; or .txt, one "
            "text a line.",
            widget="file",
        ),
    ] = ""
    column: Annotated[str, Input("Column of the texts", "If it is not `text`.")] = ""
    pasted: Annotated[str, Input("Or texts, one a line", widget="textarea")] = ""


ADD_TEXTS = Action(
    TEXTS, lambda _, __: None, TextFile, heading="Add texts to read", label="Add texts"
)
"""Only its form is drawn: `take_texts` reads what it sends."""

router = APIRouter(route_class=PageRoute)


@router.post(TEXTS)
async def take_texts(
    request: Request, visit: Annotated[Visit, Depends(who_may(Permission.ADMINISTER))]
) -> Response:
    """Store texts, and lead to the job that takes them one by one."""
    edge = edge_of(request)
    declared = request.headers.get("content-length", "")
    if not declared.isdecimal() or int(declared) > edge.max_upload_bytes + _FORM_BYTES:
        raise UploadTooLarge(f"A file may have at most {edge.max_upload_bytes:,} bytes.")
    async with request.form(max_files=1, max_fields=10, max_part_size=_FORM_BYTES) as form:
        edge.sessions.check(request, visit, _text(form, CSRF_FIELD))
        job = await run_in_threadpool(_queue, edge.services, visit.caller, form)
    return go(f"{JOBS}/{job.id}")


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _queue(services: Services, caller: Caller, form: FormData) -> Job:
    """Queue a job for the texts of a form."""
    file, column = form.get("texts"), _text(form, "column").strip() or "text"
    pasted = [line_of(text) for text in lines(_text(form, "pasted"))]
    with services.files.receive(caller) as upload, TemporaryDirectory(prefix="setwise-") as folder:
        if isinstance(file, UploadFile) and file.filename:
            place = Path(folder) / (PurePosixPath(file.filename.replace("\\", "/")).name or "file")
            with place.open("wb") as copy:
                shutil.copyfileobj(file.file, copy)
            for line in lines_of_file(place, column):
                upload.write(line)
        upload.write(b"".join(pasted))
    job, _ = services.files.submit_scoring(caller, upload)
    return job


def _start(call: Call) -> ui.View:
    services, caller = call.services, call.caller
    labels = services.labels.search(caller, limit=0).total
    counts = services.reports.summary(caller)
    facts: list[tuple[str, object]] = [
        ("Labels", ui.link(LABELS, f"{labels:,}")),
        ("Documents", ui.link(address(), f"{counts.predictions:,}")),
        ("Came before a model", f"{counts.reasons[Reason.NO_MODEL]:,}"),
        ("Wait for a reader", f"{counts.waiting:,}"),
        ("Reviews done", f"{counts.completed:,}"),
    ]
    learning = services.retraining.learning(caller)
    if learning.next_at is not None:
        facts.append(("Next model by itself", f"at {plural(learning.next_at, 'answer')}"))
    far: list[ui.Piece] = [
        ui.Card("How far you are", [ui.Facts(facts)]),
        ui.Diagram(learning_curve(learning)),
        *_rare(learning),
    ]
    suggests = any(model.active for model in services.models.page(SYSTEM))
    if not suggests:
        far.append(ui.Card("Suggestions from elsewhere", [ui.text(ELSEWHERE)]))
    forms: list[ui.Piece] = []
    if caller.may(Permission.ADMINISTER):
        invite = (
            ui.text("Each gets a link, sets a password and reads documents at the desk."),
            ui.Buttons((ui.Go("Invite a person", PEOPLE),)),
        )
        forms = [call.form(ADD_LABELS), call.form(ADD_TEXTS), ui.Card("Invite people", invite)]
    parts = [*far, *forms] if counts.predictions else [*forms, *far]
    return ui.View("Start", parts, lead=_lead(labels, counts, learning, suggests=suggests))


def _rare(learning: Learning) -> Iterator[ui.Piece]:
    """Yield a card about labels that are hardly learnt yet."""
    if not learning.answers or not learning.rare:
        return
    named = ", ".join(f"{rare.label} ({rare.documents})" for rare in learning.rare[:MOST_RARE])
    more = len(learning.rare) - MOST_RARE
    yield ui.Card(
        f"{plural(len(learning.rare), 'label')} with fewer than {RARE} examples",
        [ui.text(f"{named}, and {more:,} more" if more > 0 else named)],
    )


def _lead(labels: int, counts: Counts, learning: Learning, *, suggests: bool) -> str:
    """Say what comes next."""
    if not labels:
        return "No labels yet. Add them, then texts, and invite people to read."
    if not counts.predictions:
        return "No texts yet. Add some here, or let a program post them to /v1/predictions."
    if not counts.completed:
        return "Texts wait to be read. Open the desk, or invite people."
    so_far = f"{plural(learning.answers, 'answer')} so far."
    return f"{so_far} {_model(learning, suggests=suggests)}"


def _model(learning: Learning, *, suggests: bool) -> str:
    """Say what became of the newest model."""
    if not learning.curve:
        return "Go on at the desk."
    if not learning.curve[-1].helps:
        return "The newest model ranks no better than the most frequent sets yet."
    made = plural(learning.curve[-1].answers, "answer")
    if not suggests:
        return f"A model of {made} is registered; nothing suggests on the desk yet."
    others = "" if learning.answers <= learning.curve[-1].answers else ", none of them an audit"
    return f"The desk suggests sets; the newest model learnt from {made}{others}."


PAGES = (
    BoardPage(
        START,
        _start,
        (ADD_LABELS,),
        name="Start",
        meaning="Begin without a model: labels, texts and people.",
        needed=(Permission.REPORT,),
    ),
)
