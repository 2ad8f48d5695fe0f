"""Server-rendered pages: they work without JavaScript and load nothing from elsewhere.

Question: how does the service stand, and what needs me now?
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response

from setwise.models.figures.numerals import percent, share_of, working_time
from setwise.service.api.http.dependencies import EdgeOf
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.documents import DocumentState
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.pages import cockpit, desk, documents, sign_in
from setwise.service.pages.board.sections import attention, board
from setwise.service.pages.board.start import START
from setwise.service.pages.documents import document, listing, recent, trial
from setwise.service.pages.figures.effort import reading_time
from setwise.service.pages.rendering import SECURITY_HEADERS, assets, page
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.visitors import who_may
from setwise.service.services.all import Services
from setwise.service.services.analysis.over_time import LAST_DAYS, Period
from setwise.service.services.reports import Counts
from setwise.service.sign_in.sessions import Visit

WHY = {
    Reason.ABOVE_THRESHOLD: "confident enough to be sent",
    Reason.BELOW_THRESHOLD: "less confident than the threshold",
    Reason.NO_THRESHOLD: "no threshold set, so nothing is sent",
    Reason.OUT_OF_DOMAIN: "far shorter or stranger than what the model learnt from",
    Reason.AUDIT: "confident, but drawn for an audit",
    Reason.BREAKER: "confident, but the breaker has tripped",
    Reason.RULE: "held back by a rule of the policy",
    Reason.NO_MODEL: "came before there was a model",
}


router = APIRouter(route_class=PageRoute)
for part in (
    sign_in.router,
    cockpit.router,
    listing.router,
    document.router,
    trial.router,
    recent.router,
    board(),
    desk.router,
):
    router.include_router(part)


@router.get("/")
def start(edge: EdgeOf, visit: Annotated[Visit, Depends(who_may())]) -> Response:
    """Say what has been done with the documents that came in, and what waits."""
    values = {
        "now": edge.now(),
        **_overview(edge.services, visit.caller, edge.prediction_checks["model"]()),
    }
    values["attention"] = attention(edge.services, visit)
    return page("start.html", values, visit=visit)


@router.get("/static/{name:path}")
def asset(name: str) -> Response:
    """Give a style sheet or an image of the pages."""
    asset = assets().get(name)
    if asset is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    # The address carries a digest of the content, so a copy never goes stale.
    caching = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(asset.content, media_type=asset.media_type, headers=SECURITY_HEADERS | caching)


@dataclass(frozen=True)
class StartPart:
    """Some of the documents, or of the review tasks, as the start page shows them."""

    name: str
    slug: str
    count: int
    meaning: str
    documents: Mapping[str, object]
    """Filter for the documents behind it."""


def _overview(services: Services, caller: Caller, unserved: str | None) -> dict[str, object]:
    # As the service itself: every role may see how much work there is, and the policy.
    counts = services.reports.summary(SYSTEM)
    policy = services.policy.get(SYSTEM)
    models = services.models.page(SYSTEM)
    return {
        "counts": counts,
        "ways": _ways(counts),
        "tasks": _tasks(counts),
        "reasons": [
            (WHY[reason], n, {"reason": reason}) for reason, n in counts.reasons.items() if n
        ],
        # Not every role may read the documents that all may count.
        "address": documents.address if caller.may(Permission.READ_ALL_PREDICTIONS) else None,
        "model": next((model for model in models if model.active), None),
        "n_models": len(models),
        "policy": policy,
        "rule": _rule(policy),
        "for_leads": services.queue.count_for_leads(caller) if _leads(caller) else 0,
        "missing": list(missing(caller, counts, policy, models, unserved)),
        "possible": list(possible(caller, counts)),
        "comments": services.comments.unread(caller) if caller.may(Permission.REVIEW) else (),
        "owner": _owner(services, caller),
        "talk_at": documents.HERE if caller.may(_SEES_ALL) else recent.HERE,
    }


def _leads(caller: Caller) -> bool:
    """Return whether a visitor decides what only leads may decide."""
    return caller.may(Permission.REVIEW) and caller.may(Permission.READ_ALL_PREDICTIONS)


def _owner(services: Services, caller: Caller) -> str:
    """Say what sending was worth lately, to those who may see reports."""
    if not caller.may(Permission.REPORT):
        return ""
    seen = services.reports.glance(caller, Period(LAST_DAYS))
    read = seen.effort
    if not seen.documents and not read.total.readings:
        return ""
    if not read.unread:
        sent = "Nothing went out unread in the last seven days"
    else:
        low, high = seen.accuracy.low, seen.accuracy.high
        right = (
            "; audits will tell how many of them are right"
            if low is None or high is None
            else f", {percent(low)} to {percent(high)} of them right"
        )
        share = share_of(read.unread, seen.documents)
        sent = f"In the last seven days {share} went out unread{right}"
    if not read.total.readings:
        return f"{sent}; people read nothing."
    if not read.unread or read.hours_without is None:
        return f"{sent}; people read for {working_time(3600 * read.hours)}."
    return f"{sent}; people read for {reading_time(read)}."


def _ways(counts: Counts) -> list[StartPart]:
    """Divide the documents."""
    held = counts.predictions - counts.auto_sent
    return [
        StartPart(
            "Sent automatically",
            "sent",
            counts.auto_sent,
            "without waiting for a reviewer",
            {"decision": Decision.AUTO},
        ),
        StartPart(
            "To a reviewer",
            "waiting",
            held,
            "sent as a reviewer decides",
            {"decision": Decision.REVIEW},
        ),
    ]


def _tasks(counts: Counts) -> list[StartPart]:
    """Divide the review tasks: a document has several where it is checked or disputed."""
    parts = [
        ("Waiting", "waiting", "in the queue for a reviewer", DocumentState.WAITING),
        ("Being reviewed", "leased", "on a reviewer's desk right now", DocumentState.HELD),
        ("Reviewed", "completed", "submitted by a reviewer", DocumentState.REVIEWED),
    ]
    if counts.skipped:
        parts.append(
            ("Skipped", "skipped", "skipped twice, waiting for a lead", DocumentState.SKIPPED)
        )
    return [
        StartPart(name, slug, getattr(counts, slug), meaning, {"state": state})
        for name, slug, meaning, state in parts
    ]


def _rule(policy: Policy) -> str:
    """Say in a sentence how documents are routed now."""
    if not policy.auto_send:
        return "Automatic sending is switched off: every document is reviewed."
    gate = policy.whole
    if gate is None:
        sending = sum(gate.sends for gate in policy.gates)
        return (
            "A label set is sent when its confidence reaches the threshold of its segment "
            f"({sending} of {len(policy.gates)} have one)."
        )
    if gate.threshold is None:
        return "No threshold is set yet: every document is reviewed."
    if gate.tripped:
        return "The breaker has tripped: every document is reviewed."
    origin = "certified by audits" if policy.certified else "set by hand, not certified"
    return f"A label set is sent when its confidence is at least {gate.threshold:g} ({origin})."


@dataclass(frozen=True)
class Step:
    """Something to do."""

    sentence: str
    """What it is."""
    command: str = ""
    """To type on the server; empty where a page does."""
    address: str = ""
    """Of the page where it is done; empty where there is none."""


def missing(
    caller: Caller,
    counts: Counts,
    policy: Policy,
    models: Sequence[ModelVersion],
    unserved: str | None,
) -> Iterator[Step]:
    """Yield what is missing before documents can be sent; only administrators can act on it.

    ``unserved``: Why no model serves; None if one does.
    """
    administers = caller.may(Permission.ADMINISTER)
    if not any(model.active for model in models):
        if administers and models:
            yield Step(
                "Activate one of the registered models.", "setwise model activate ID", _MODELS
            )
        elif not administers:
            yield Step("There is no model yet, so people read every document.")
        else:
            yield Step("Add labels and texts, and invite people to read them.", address=START)
            yield Step(
                "Or, with labelled documents, train a model and activate it.",
                "setwise train DATA --out model; setwise model add model --activate",
            )
    elif unserved and administers:
        yield Step(unserved, "setwise doctor", _MODELS)
    elif unserved:
        yield Step("The active model does not serve right now, so nothing can be predicted.")
    if not counts.predictions:
        if administers:
            yield Step(
                "Create a key for the program that sends documents.",
                "setwise key create --role client --name NAME",
                "/board/keys",
            )
            yield Step("Post a first document; see the API reference.", address="/docs")
        else:
            yield Step(
                "No documents yet; an administrator creates a key for the program that sends them."
            )
    if not policy.has_threshold:
        if administers:
            yield Step("Set a threshold; you see its effect first.", address="/board/policy")
        else:
            yield Step("No threshold is set yet, so every document is reviewed.")


def possible(caller: Caller, counts: Counts) -> Iterator[Step]:
    """Yield what a visitor can do here, the daily work first."""
    if caller.may(Permission.REVIEW):
        yield Step(
            "Review a document: read it, then press the number of the right set, or choose its "
            "labels. Press ? for all shortcuts."
            if counts.waiting
            else "No documents are waiting. Keep the desk open: new documents appear there "
            "automatically.",
            address="/desk",
        )
        yield Step("Read your last answers again, and correct one.", address="/recent")
    if caller.may(Permission.REPORT):
        yield Step(
            "Try another threshold and see its effect; this changes nothing.",
            address="/cockpit/details#what-if",
        )
        yield Step(
            "See how well confidence is calibrated, and where the errors are.",
            address="/cockpit/details#reliability",
        )
    if caller.may(Permission.ADMINISTER):
        yield Step(
            "Change what is sent automatically; you see the effect on recent documents before "
            "you save.",
            address="/board/policy",
        )
        yield Step(
            "Retrain the calibrator on reviews, and see which documents would be routed "
            "differently.",
            address="/board/calibrators",
        )
    if caller.may(Permission.READ_AUDIT_TRAIL):
        yield Step("See who did what, when and from where.", address="/board/audit")


_MODELS = "/board/models"
_SEES_ALL = Permission.READ_ALL_PREDICTIONS
