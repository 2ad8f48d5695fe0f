"""Reference pages for the API: all calls and all kinds of problem."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from setwise.service.api.http.dependencies import answer
from setwise.service.api.http.openapi_answers import Json
from setwise.service.api.http.prefix import placed
from setwise.service.api.http.problem_kinds import ALL_KINDS, UNKNOWN_ADDRESS, ProblemKind
from setwise.service.api.http.problems import MEDIA_TYPE, HttpFault

router = APIRouter(include_in_schema=False)

_BY_SLUG = {kind.slug: kind for kind in ALL_KINDS}

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

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


@router.get("/docs")
def explain_calls(request: Request) -> Response:
    """Describe every call, from the OpenAPI document."""
    document: Json = request.app.openapi()
    return _page(request, "reference.html", document=document, calls=list(_calls(document)))


def _calls(document: Json) -> Iterator[Json]:
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            status, success = next(
                (status, response)
                for status, response in operation["responses"].items()
                if status.startswith("2")
            )
            yield {
                "id": operation["operationId"],
                "tag": operation["tags"][0],
                "method": method.upper(),
                "path": path,
                "description": operation["description"],
                "parameters": [
                    {"description": "", **parameter}
                    for parameter in operation.get("parameters", [])
                ],
                "requests": _examples(operation.get("requestBody", {}), schemas),
                "status": status,
                "answer": next(iter(_examples(success, schemas)), None),
                "problems": sorted(_problems(operation)),
            }


def _examples(content: Json, schemas: Json) -> list[str]:
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return [
        json.dumps(example, indent=2, ensure_ascii=False)
        for example in schemas.get(name, {}).get("examples", [])
    ]


def _problems(operation: Json) -> Iterator[str]:
    for response in operation["responses"].values():
        yield from response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {})


def _page(request: Request, template: str, **values: object) -> Response:
    written = placed(request, _templates.get_template(template).render(**values))
    # The policy allows only the page's own style, by its hash: no scripts, no frames, nothing from
    # other servers.
    style = written.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy}
    return Response(written, media_type="text/html", headers=headers)
