"""Pages for people, made on the server. They work without JavaScript and load nothing foreign."""

import hashlib
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING

import structlog
from fastapi import APIRouter, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from service.domain.errors import StorageUnavailable
from service.domain.people import SYSTEM
from service.domain.predictions import Reason
from service.domain.routing import RoutingPolicy, ThresholdMode
from service.domain.versions import ModelVersion
from service.use_cases.report import Counts
from service.use_cases.verbs import Verbs

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# Only our own style sheets and images; no script at all, nothing inline, no framing.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

WHY = {
    Reason.ABOVE_THRESHOLD: "confident enough to be sent",
    Reason.BELOW_THRESHOLD: "less confident than the threshold",
    Reason.NO_THRESHOLD: "no threshold in force, so nothing is sent",
    Reason.OUT_OF_DOMAIN: "no word or feature that the model knows",
}

Clock = Callable[[], datetime]

log = structlog.get_logger(__name__)


def pages(verbs: Verbs, *, now: Clock = lambda: datetime.now(UTC)) -> APIRouter:
    """Return the routes of the pages.

    Parameters
    ----------
    verbs : Verbs
        What the pages show comes from the same verbs as the API.
    now : callable
        Gives the time that a page is made, in UTC.
    """
    router = APIRouter()

    @router.get("/")
    def start() -> Response:
        """Say what has been done with the documents that came in, and what waits."""
        try:
            overview = _overview(verbs)
        except StorageUnavailable as error:
            log.warning("page.unavailable", reason=error.detail)
            return _page("unavailable.html", {"now": now()}, HTTPStatus.SERVICE_UNAVAILABLE)
        return _page("start.html", {"now": now(), **overview})

    @router.get("/static/{name}")
    def asset(name: str) -> Response:
        """Give a style sheet or an image of the pages."""
        found = _assets().get(name)
        if found is None:
            return _page("missing.html", {"now": now()}, HTTPStatus.NOT_FOUND)
        # The address carries a digest of the content, so a copy never goes stale.
        caching = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(
            found.content, media_type=found.media_type, headers=SECURITY_HEADERS | caching
        )

    return router


@dataclass(frozen=True)
class Part:
    """One of the ways that documents went, as the start page shows it."""

    name: str
    slug: str
    count: int
    meaning: str


def _overview(verbs: Verbs) -> dict[str, object]:
    counts = verbs.summary(SYSTEM)
    policy = verbs.get_policy(SYSTEM)
    models = verbs.list_models(SYSTEM)
    return {
        "counts": counts,
        "parts": _parts(counts),
        "reasons": [(WHY[reason], n) for reason, n in counts.reasons.items() if n],
        "model": next((model for model in models if model.active), None),
        "n_models": len(models),
        "policy": policy,
        "rule": _rule(policy),
        "next_steps": list(_next_steps(counts, policy, models)),
    }


def _parts(counts: Counts) -> list[Part]:
    parts = [
        Part("Sent automatically", "sent", counts.auto_sent, "left without a person"),
        Part("Waiting", "waiting", counts.waiting, "in the queue for a reviewer"),
        Part("Being reviewed", "leased", counts.leased, "on a reviewer's desk right now"),
        Part("Reviewed", "completed", counts.completed, "settled by a person"),
    ]
    if counts.skipped:
        parts.append(Part("Passed on", "skipped", counts.skipped, "skipped twice, wait for a lead"))
    return parts


def _rule(policy: RoutingPolicy) -> str:
    """Say in a sentence how documents are routed now."""
    if not policy.auto_send:
        return "Automatic sending is switched off: every document waits for a person."
    if policy.threshold is None:
        return "No threshold is in force yet: every document waits for a person."
    origin = (
        "set by hand, not certified"
        if policy.threshold_mode is ThresholdMode.FIXED
        else "certified by audits"
    )
    return f"A label set is sent when its confidence is at least {policy.threshold:g} ({origin})."


def _next_steps(
    counts: Counts, policy: RoutingPolicy, models: Sequence[ModelVersion]
) -> Iterator[tuple[str, str | None]]:
    """Yield what still has to be done before documents flow: a sentence and a command."""
    if not any(model.active for model in models):
        if models:
            yield "Activate one of the registered models.", "setwise model activate ID"
        else:
            yield "Train a model on documents of yours.", "setwise train DATA --out model"
            yield "Register it and let it serve.", "setwise model add model --activate"
    if not counts.predictions:
        yield (
            "Make a key for the program that sends documents.",
            ("setwise key create --role client --name NAME"),
        )
        yield "Post a first document; the call is described under API.", None
    if policy.threshold is None:
        yield "Set a threshold, as an administrator, with PUT /v1/admin/policy.", None


# What browsers are sent.


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    content: bytes
    media_type: str
    address: str


@cache
def _assets() -> dict[str, Asset]:
    folder: Traversable = files("service.dashboard").joinpath("static")
    assets = {}
    for file in folder.iterdir():
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:12]
        media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        assets[file.name] = Asset(content, media_type, f"/static/{file.name}?v={digest}")
    return assets


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["share"] = _share
    environment.globals["static"] = lambda name: _assets()[name].address
    return environment


def _share(part: int, whole: int) -> str:
    """Write a share as a percentage that never rounds to nothing or to all.

    >>> [_share(part, 1000) for part in (0, 2, 426, 998, 1000)]
    ['0 %', '< 1 %', '43 %', '> 99 %', '100 %']
    """
    if part in {0, whole}:
        return "100 %" if part else "0 %"
    percent = 100 * part / whole
    if percent < 1:
        return "< 1 %"
    return "> 99 %" if percent > 99 else f"{percent:.0f} %"


def _page(
    template: str, values: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK
) -> Response:
    return Response(
        _templates().get_template(template).render(values),
        status_code=status,
        media_type="text/html",
        headers=SECURITY_HEADERS | {"Cache-Control": "no-store"},
    )
