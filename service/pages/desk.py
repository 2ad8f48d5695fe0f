"""The review desk: the page, and what its script asks for, with the same services as the API.

Question: which labels apply to this document?
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from setwise.limits import MOST_SET_LABELS
from setwise.service.api.http.dependencies import Edge, EdgeOf, ServicesOf, answer
from setwise.service.api.schemas import Query as Asked
from setwise.service.api.schemas import ReleaseQuery
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.errors import LeaseLost
from setwise.service.domain.labels import UNNAMED, LabelState
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES
from setwise.service.domain.predictions import Document, Reason
from setwise.service.domain.reviews import QueueFilter, ReviewKind, ReviewTask
from setwise.service.domain.routing.rules import AtMostRule, ExactlyOneRule, RequiresRule, Rule
from setwise.service.pages.documents.predictions import NO_NAME, UNREADABLE, urgency
from setwise.service.pages.plain_desk import Submitted, both_or_all, offers, shared, store
from setwise.service.pages.rendering import PAGE_POLICY, go, page
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.visitors import who_may, who_sends, whose_script_sends
from setwise.service.requests.reviews import CompletionRequest, SkipRequest
from setwise.service.services.all import Services
from setwise.service.sign_in.sessions import Visit

DESK = "/desk"
TASK = DESK + "/tasks/{task_id}"
DAY_S = 86_400.0
MOST_FOUND = 50
SKIP_REASONS = (
    "Outside my expertise",
    "Text is unreadable",
    "Conflict of interest",
)

COMMANDS = (
    ("add", "/", "Add a label, or remove one"),
    ("remove", "x", "Go to the next label of your set; Delete removes it"),
    ("missing", "m", "A label is missing: one applies that is in no list; or take that back"),
    ("none", "n", "None of the known labels fits: empty your set"),
    ("browse", "b", "Browse the labels"),
    ("words", "w", "Show words for and against a label"),
    ("find", "f", "Search in the document"),
    ("comment", "c", "Comment"),
    ("later", "l", "Later: back to the queue, behind all that waits now"),
    ("skip", "s", "Skip, with a reason"),
    ("undo", "u", "Undo the last change, then the last decisions"),
    ("pause", "p", "Pause or resume"),
    ("help", "?", "These keys"),
)
"""What single keys do: the command, its default key and its description."""

WITHHELD = (
    "No sets are suggested for this document: some are read from the text alone, so that answers "
    "stay independent. Choose the labels that apply."
)
"""The same sentence for every reason, so that it reveals none."""

UNTAUGHT = "There was no model yet when this document came. Choose the labels that apply."

Reads = Annotated[Visit, Depends(who_may(Permission.REVIEW))]
Sends = Annotated[Visit, Depends(whose_script_sends(Permission.REVIEW))]
Submits = Annotated[Visit, Depends(who_sends(Permission.REVIEW))]

router = APIRouter(route_class=PageRoute)

_Id = Annotated[str, Field(max_length=40)]
_Label = Annotated[str, Field(max_length=1_000)]


class Having(Asked):
    """What a tab has on its desk already, and the queue that its address names."""

    having: Annotated[Sequence[_Id], Field(max_length=100)] = ()
    segment: _Label | None = None
    label: _Label | None = None
    prioritized: bool = False


class Chosen(Asked):
    """Labels that a question is about."""

    labels: Annotated[list[_Label], Field(max_length=MOST_SET_LABELS)]


class DecisionForm(CompletionRequest):
    """What a reviewer decided, on which version of the task."""

    version: int


@router.get(DESK)
def show(
    edge: EdgeOf,
    visit: Reads,
    segment: Annotated[_Label, Query()] = "",
    label: Annotated[_Label, Query()] = "",
    prioritized: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """Show the desk; without a script, the task that lies on it."""
    filters = QueueFilter(segment or None, label or None, bool(prioritized) or None)
    return _page(edge, visit, filters)


@router.get(f"{DESK}/progress")
def progress(
    services: ServicesOf,
    visit: Reads,
    within_s: Annotated[float, Query(ge=0, le=2 * DAY_S)] = DAY_S,
) -> Response:
    """Count a person's submissions since their own midnight, and unread comments."""
    done = services.reviews.done_within(visit.caller, timedelta(seconds=within_s))
    comments = sum(document.new for document in services.comments.unread(visit.caller))
    return answer({"done": done, "comments": comments})


@router.get(f"{DESK}/labels")
def find(
    services: ServicesOf,
    visit: Annotated[Visit, Depends(who_may(Permission.READ_QUEUE))],
    query: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Search the labels of the model and the catalogue, for each page on which one is typed."""
    labels = services.labels.search(visit.caller, query, limit=MOST_FOUND)
    return answer({"items": labels.items, "total": labels.total})


@router.get(f"{DESK}/labels/new")
def look_alike(
    services: ServicesOf, visit: Reads, label: Annotated[str, Query(max_length=200)]
) -> Response:
    """Return what is known of a label that was typed whole."""
    return answer(services.labels.look_up(visit.caller, label))


@router.get(f"{DESK}/notes")
def notes(services: ServicesOf, visit: Reads) -> Response:
    """Return what is known of labels, and the parent that each must have beside it."""
    described, beside = services.labels.notes(visit.caller), services.queue.parents(visit.caller)
    every = services.labels.search(visit.caller, limit=MOST_LABEL_NOTES).items if described else ()
    offered = {match.label: "" if match.in_model else match.state for match in every}
    return answer(
        {
            "notes": [
                {
                    **each._asdict(),
                    "known": each.label in offered,
                    "kind": offered.get(each.label),
                    "beside": beside.get(each.label),
                }
                for each in described
            ]
        }
    )


@router.post(f"{DESK}/next")
def take(edge: EdgeOf, visit: Sends, asked: Having) -> Response:
    """Give a task that the person holds and this tab does not have, or claim one."""
    services = edge.services
    mine = (task for task in services.queue.mine(visit.caller) if task.id not in asked.having)
    queue = QueueFilter(asked.segment, asked.label, asked.prioritized)
    task = next(mine, None) or services.queue.claim(visit.caller, queue)
    if task is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return answer(item(services, visit.caller, task, edge.attachment_hosts))


def _held(services: Services, task: ReviewTask) -> Response:
    return answer({"version": task.version, "expires_in_s": services.queue.lease_left_s(task)})


@router.post(TASK + "/heartbeat")
def extend(services: ServicesOf, task_id: str, visit: Sends) -> Response:
    """Keep a task for longer."""
    return _held(services, services.queue.extend(visit.caller, task_id))


@router.post(TASK + "/take-back")
def take_back(services: ServicesOf, task_id: str, visit: Sends) -> Response:
    """Keep a task, even if it has returned to the queue."""
    try:
        return _held(services, services.queue.extend(visit.caller, task_id))
    except LeaseLost as lost:
        task = services.queue.claim(visit.caller, only=task_id)
        if task is None:
            raise LeaseLost("Another reviewer has this task now, or it waits for a lead.") from lost
        return _held(services, task)


@router.post(TASK + "/release")
def release(services: ServicesOf, task_id: str, visit: Sends, released: ReleaseQuery) -> Response:
    """Give a task back to the queue, and say for how long the page offers to undo it."""
    services.queue.release(visit.caller, task_id, later=released.later)
    return answer({"undo_s": services.reviews.undo_window.total_seconds()})


@router.post(TASK + "/check")
def check(services: ServicesOf, task_id: str, visit: Sends, chosen: Chosen) -> Response:
    """Say which rules a label set breaks."""
    task = services.queue.my_task(visit.caller, task_id)
    (broken,) = services.queue.check(visit.caller, task, [chosen.labels])
    return answer({"warnings": warnings_of(broken)})


@router.post(TASK + "/explain")
def explain(services: ServicesOf, task_id: str, visit: Sends, chosen: Chosen) -> Response:
    """Say which terms of the document speak for or against labels."""
    task = services.queue.my_task(visit.caller, task_id)
    weighed = services.queue.explain(visit.caller, task, chosen.labels)
    return answer({"terms": [[term._asdict() for term in terms] for terms in weighed]})


@router.post(TASK + "/decide")
def decide(services: ServicesOf, task_id: str, visit: Sends, decision: DecisionForm) -> Response:
    """Store a decision, and say for how long it may be taken back."""
    decided = services.reviews.decide(
        visit.caller,
        task_id,
        decision.labels,
        decision.comment,
        decision.version,
        additions=decision.additions(),
    )
    return answer({"version": decided.task.version, "undo_s": decided.undo_s})


@router.post(TASK + "/undo")
def undo(edge: EdgeOf, task_id: str, visit: Sends) -> Response:
    """Take the last decision or skip back, and give its task again."""
    task = edge.services.reviews.undo(visit.caller, task_id)
    return answer(item(edge.services, visit.caller, task, edge.attachment_hosts))


@router.post(TASK + "/skip")
def skip(services: ServicesOf, task_id: str, visit: Sends, skipped: SkipRequest) -> Response:
    """Skip a task, and say for how long that may be taken back."""
    services.queue.skip(visit.caller, task_id, skipped.reason)
    return answer({"undo_s": services.reviews.undo_window.total_seconds()})


def _page(
    edge: Edge, visit: Visit, filters: QueueFilter, unsaid: Submitted | None = None
) -> Response:
    """Return the desk; ``unsaid`` is a form that could not be submitted."""
    mine = edge.services.queue.mine(visit.caller)
    task = item(edge.services, visit.caller, mine[0]) if mine else None
    values = {
        "now": edge.now(),
        "task": task,
        "offers": offers(mine[0]) if mine else (),
        "shared": shared(mine[0]) if mine else (),
        "both_or_all": both_or_all(mine[0]) if mine else "",
        "skip_reasons": SKIP_REASONS,
        "commands": COMMANDS,
        "segments": edge.services.queue.segments(visit.caller),
        "queue": filters,
        "unsaid": unsaid,
        "no_name": NO_NAME,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if unsaid else HTTPStatus.OK
    shown = page("desk.html", values, visit=visit, status=status)
    if edge.attachment_hosts:
        hosts = " ".join(f"https://{host}" for host in sorted(edge.attachment_hosts))
        policy = PAGE_POLICY.replace("img-src 'self'", f"img-src 'self' {hosts}")
        shown.headers["Content-Security-Policy"] = f"{policy}; object-src {hosts}"
    return shown


Json = dict[str, object]

_WHY: Mapping[Reason, str] = {
    Reason.BELOW_THRESHOLD: "The model's confidence is below the threshold.",
    Reason.NO_THRESHOLD: "No threshold is set, so every document is reviewed.",
    Reason.OUT_OF_DOMAIN: "It is far shorter or stranger than the documents the model learnt from.",
    Reason.BREAKER: "Automatic sending is paused, so every document is reviewed.",
    Reason.RULE: "A rule of the policy requires a review.",
}

_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_NAMED = 5
"""Labels of a rule that are named; a long rule would bury the warning."""


def attachment(metadata: Mapping[str, object], hosts: Collection[str]) -> Json | None:
    """Return where a document's file is, if it may be shown, and as what.

    >>> attachment({"attachment_url": "https://files.example/a.pdf?x"}, ["files.example"])
    {'host': 'files.example', 'url': 'https://files.example/a.pdf?x', 'shown': 'pdf'}
    >>> attachment({"attachment_url": "https://u@files.example/a.pdf"}, ["files.example"])["url"]
    """
    url = metadata.get("attachment_url")
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return {"host": url, "url": None, "shown": None}
    allowed = parts.scheme == "https" and parts.netloc in hosts
    end = PurePosixPath(parts.path).suffix.lower()
    kind = "pdf" if end == ".pdf" else "image" if end in _IMAGES else None
    return {"host": parts.netloc or url, "url": url if allowed else None, "shown": kind}


def item(services: Services, caller: Caller, task: ReviewTask, hosts: Collection[str] = ()) -> Json:
    """Describe a task that ``caller`` holds."""
    document, scored = task.shown, task.prediction.scored
    blind = task.blind or not task.candidates
    sets = [] if blind else [candidate.labels for candidate in task.candidates]
    warnings = [warnings_of(broken) for broken in services.queue.check(caller, task, sets)]
    return {
        "id": task.id,
        "version": task.version,
        "document": {
            "id": document.id,
            "text": document.text,
            "features": document.features,
            "metadata": document.metadata,
            "answer": document.answer,
            "missing": _missing(document),
            "attachment": attachment(document.metadata, hosts),
        },
        # A blind task looks like any review for which the model has no suggestion.
        "kind": (ReviewKind.REVIEW if task.blind else task.kind).value,
        "why": None if task.blind else _why(task),
        "withheld": WITHHELD if task.candidates else UNTAUGHT,
        "urgency": urgency(task.prediction.document.priority, task.due_at, services.reviews.now()),
        "candidates": None
        if blind
        else [
            {"labels": candidate.labels, "confidence": candidate.confidence, "warnings": warned}
            for candidate, warned in zip(task.candidates, warnings, strict=True)
        ],
        "marginals": None if blind else scored.marginals,
        "answers": list(task.answers) or None,
        "beyond": _beyond(services, caller, task),
        "skips": _skips(services, caller, task) or None,
        "expires_in_s": services.queue.lease_left_s(task),
    }


def _missing(document: Document) -> str:
    """Say why there is no text."""
    if document.unreadable:
        return UNREADABLE
    return "This document came without its text. Read it where it is kept."


def _beyond(services: Services, caller: Caller, task: ReviewTask) -> Mapping[str, LabelState]:
    """Return the labels of answers that the model lacks, each with its state."""
    labels = {label for answer in task.answers for label in answer} - {UNNAMED}
    if labels <= task.prediction.scored.named.keys():
        return {}
    catalogue = services.labels.catalogue(caller)
    beyond = (each for each in catalogue if each.label in labels and not each.in_model)
    return {each.label: each.state for each in beyond}


def _skips(services: Services, caller: Caller, task: ReviewTask) -> list[str]:
    """Say to a lead who skipped a task, and why."""
    skips = task.skips_shown_to(caller)
    if not skips:
        return []
    names = services.documents.reviewers(caller)
    return [f"{names.get(skip.reviewer, 'A reviewer')} skipped it: {skip.reason}" for skip in skips]


def _why(task: ReviewTask) -> str | None:
    if task.kind is ReviewKind.ADJUDICATION:
        return "Two answers differ; yours decides."
    if task.kind is ReviewKind.REOPENED:
        return f"Reopened: {task.because}" if task.because else "Reopened."
    if task.skipped_often:
        return "Two reviewers skipped it; you decide."
    if task.prediction.rule is not None:
        return f"The rule “{task.prediction.rule}” requires a review."
    if task.prediction.scored.uncalibrated:
        return "The model's confidence is not calibrated yet, so every document is reviewed."
    return _WHY.get(task.prediction.reason)


def warnings_of(broken: Sequence[Rule]) -> list[str]:
    """Say in sentences what rules demand that a label set breaks."""
    return [f"Rule “{rule.name}”: {_demand(rule)}." for rule in broken]


def _demand(rule: Rule) -> str:
    match rule:
        case ExactlyOneRule():
            return f"exactly one of {_listed(rule.labels)} is expected"
        case AtMostRule(labels=None):
            return f"at most {rule.n} label{'s' if rule.n != 1 else ''} are expected"
        case AtMostRule(labels=labels):
            return f"at most {rule.n} of {_listed(labels or ())} are expected"
        case RequiresRule():
            return f"{rule.label} comes with {_listed(rule.labels)}"
        case _:
            return "not met"


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")


@router.post(f"{DESK}/claim")
def claim(services: ServicesOf, visit: Submits) -> Response:
    """Lay the next task on the desk."""
    if not services.queue.mine(visit.caller):
        services.queue.claim(visit.caller)
    return go(DESK)


@router.post(f"{DESK}/submit")
def submit(edge: EdgeOf, visit: Submits, form: Annotated[Submitted, Depends()]) -> Response:
    """Submit a set, and lay the next task on the desk."""
    task = edge.services.queue.my_task(visit.caller, form.task)
    labels = form.decided(task)
    if labels is None:
        form.fault = (
            "Choose one answer, and write labels, or tick that one is missing, only for "
            "“These labels”."
        )
    elif store(edge.services, visit.caller, task, labels, form):
        return go(DESK)
    return _page(edge, visit, QueueFilter(), form)
