"""Reference pages for the API: every operation and all kinds of problem."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from setwise.service.api.http.dependencies import answer, edge_of
from setwise.service.api.http.openapi_answers import Json
from setwise.service.api.http.prefix import placed
from setwise.service.api.http.problem_kinds import ALL_KINDS, UNKNOWN_ADDRESS, ProblemKind
from setwise.service.api.http.problems import HttpFault
from setwise.service.api.http.reference_calls import calls_of

router = APIRouter(include_in_schema=False)

_BY_SLUG = {kind.slug: kind for kind in ALL_KINDS}

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def prose(text: str) -> Markup:
    """Return a text of the document as HTML: names in backticks become code.

    >>> prose("`a < b` or 1 < 2")
    Markup('<code>a &lt; b</code> or 1 &lt; 2')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 -- escaped just here


_CODE = re.compile(r"`([^`]+)`")
_templates.filters["prose"] = prose

Accept = Annotated[str, Header()]


@router.get("/problems")
def explain_problems(request: Request, accept: Accept = "") -> Response:
    """List every kind of problem."""
    if "text/html" in accept:
        return _page(request, "problems.html", kinds=ALL_KINDS)
    explained = [_explanation(kind) for kind in ALL_KINDS]
    return Response(json.dumps({"items": explained}), media_type="application/json")


@router.get("/problems/{slug}")
def explain_problem(request: Request, slug: str, accept: Accept = "") -> Response:
    """Explain one kind of problem, as a page or as JSON."""
    if slug not in _BY_SLUG:
        raise HttpFault(UNKNOWN_ADDRESS, f"No kind of problem is called {slug!r}; see /problems.")
    if "text/html" in accept:
        return _page(request, "problem.html", kind=_BY_SLUG[slug])
    return answer(_explanation(_BY_SLUG[slug]))


def _explanation(kind: ProblemKind) -> Json:
    return {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status.value,
        "meaning": kind.meaning,
    }


@router.get("/openapi.json")
def describe_calls(request: Request) -> Response:
    """Return the OpenAPI document."""
    state = request.app.state
    if not hasattr(state, "openapi_json"):
        state.openapi_json = json.dumps(request.app.openapi(), ensure_ascii=False).encode()
    return _lasting(state.openapi_json, "application/json")


@router.get("/docs")
def explain_calls(request: Request, query: str = "") -> Response:
    """Describe every operation, or those that have all words of a query."""
    document: Json = request.app.openapi()
    words = query.casefold().split()
    every = list(calls_of(document))
    calls = [call for call in every if all(word in call.searched for word in words)]
    values = {"document": document, "calls": calls, "total": len(every), "query": query}
    base = edge_of(request).sessions.base(request)
    return _page(request, "reference.html", **values, base=base)


def _page(request: Request, template: str, **values: object) -> Response:
    written = placed(request, _templates.get_template(template).render(**values))
    # The policy allows only the page's own style, by its hash, and its search: no scripts, no
    # frames, nothing from other servers.
    style = written.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Vary": "Accept"}
    return _lasting(written.encode(), "text/html", headers)


def _lasting(content: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return what changes only with a release: clients keep it, and ask whether it has changed."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    cached = {"Cache-Control": "no-cache", "ETag": etag, **(headers or {})}
    return Response(content, media_type=media_type, headers=cached)
