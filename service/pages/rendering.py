"""Templates, static files, the places in the header and the glossary."""

import gzip
import hashlib
import mimetypes
import posixpath
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import RedirectResponse

from setwise.models.figures import numerals
from setwise.service.api.http.encodings import reads_gzip
from setwise.service.api.http.reference import prose
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.pages.figures.table import Figure
from setwise.service.sign_in.sessions import Visit

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""For pages: only files of this server, nothing inline, no framing."""

SECURITY_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    # Not no-referrer, under which browsers send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def go(address: str) -> Response:
    """Take the browser elsewhere; what it does there is a GET."""
    return RedirectResponse(
        address, HTTPStatus.SEE_OTHER, headers={**SECURITY_HEADERS, "Cache-Control": "no-store"}
    )


def page(
    template: str,
    values: Mapping[str, object] | None = None,
    *,
    visit: Visit | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    """Return a page made from a template.

    ``values``: What the template names. ``now`` is the present time unless given.
    ``visit``: Who reads it; their places, their name and a way to sign out stand in the header.
    """
    context = {"now": datetime.now(UTC), **(values or {}), "visit": visit}
    return Response(
        templates().get_template(template).render(context),
        status_code=status,
        media_type="text/html",
        headers=SECURITY_HEADERS | {"Cache-Control": "no-store"},
    )


def taken_away(figure: Figure, form: str) -> Response:
    """Return the numbers of a figure as a file.

    Raises `NotFound` if ``form`` is neither ``csv`` nor ``json``.
    """
    if form not in {"csv", "json"}:
        raise errors.NotFound("Numbers are available as CSV or JSON.")
    content, media_type = (
        (figure.as_csv(), "text/csv") if form == "csv" else (figure.as_json(), "application/json")
    )
    headers = {
        **SECURITY_HEADERS,
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="setwise-{figure.name}.{form}"',
    }
    return Response(content, media_type=media_type, headers=headers)


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    content: bytes
    media_type: str
    address: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files that pages refer to, by their path below ``/static``."""
    marks = files("setwise.models.figures").joinpath("marks.css")
    contents = {"marks.css": marks.read_bytes()}
    contents |= _contents(files("setwise.service.pages").joinpath("static"))
    by_name: dict[str, Asset] = {}

    def asset(name: str) -> Asset:
        if name not in by_name:

            def versioned(module: re.Match[bytes]) -> bytes:
                version = asset(_beside(name, module[1].decode())).address.partition("?")[2]
                return b'from "%s?%s"' % (module[1], version.encode())

            # A module imports others beside it; browsers need the address with the version.
            content = _IMPORT.sub(versioned, contents[name])
            digest = hashlib.sha256(content).hexdigest()[:12]
            media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            by_name[name] = Asset(content, media_type, f"/static/{name}?v={digest}")
        return by_name[name]

    for name in contents:
        asset(name)
    return by_name


def _contents(folder: "Traversable", above: str = "") -> dict[str, bytes]:
    """Return the content of each file in a folder and the folders in it, by path."""
    contents: dict[str, bytes] = {}
    for each in folder.iterdir():
        name = f"{above}{each.name}"
        contents |= _contents(each, f"{name}/") if each.is_dir() else {name: each.read_bytes()}
    return contents


def _beside(name: str, module: str) -> str:
    """Return the path of what a module imports, from the module's own.

    >>> _beside("desk/picker.js", "../keys.js")
    'keys.js'
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), module))


_IMPORT = re.compile(rb'from "(\.{1,2}/[\w./-]+\.js)"')


@cache
def templates() -> Environment:
    """Return the templates of the pages."""
    environment = Environment(
        loader=PackageLoader("setwise.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["share"] = numerals.share_of
    environment.filters["plain"] = numerals.plain
    environment.filters["percentage"] = numerals.percent
    environment.filters["exactly"] = numerals.exactly
    environment.filters["confidence"] = numerals.confidence
    environment.filters["prose"] = prose
    environment.globals["static"] = lambda name: assets()[name].address
    environment.globals["places_for"] = places_for
    environment.globals["for_programs"] = FOR_PROGRAMS
    environment.globals["glossary"] = GLOSSARY
    return environment


# An attacker who can make a browser request a page, and sees the length of the compressed response,
# could guess a secret in it bit by bit (BREACH: Gluck, Harris and Prado, Black Hat USA 2013). The
# only secret in a page, the token of its forms, therefore looks different in each response.

LEAST_BYTES = 1_000
"""Anything shorter fits in one packet anyway."""

_LEVEL = 5  # higher levels take twice the time for a few percent
_KINDS = ("text/", "application/json", "application/problem+json", "image/svg+xml")


def compressed(request: Request, response: Response) -> Response:
    """Compress a response, in place, if it pays and the browser reads gzip."""
    body = getattr(response, "body", b"")  # streaming responses have none
    if len(body) < LEAST_BYTES or not response.headers.get("Content-Type", "").startswith(_KINDS):
        return response
    response.headers.add_vary_header("Accept-Encoding")
    if reads_gzip(request.headers.get("Accept-Encoding", "")):
        response.body = gzip.compress(body, _LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    return response


GLOSSARY: dict[str, str] = tomllib.loads(
    files("setwise.service.pages").joinpath("glossary.toml").read_text("utf-8")
)
"""What words mean, for a fold beside them."""


@dataclass(frozen=True)
class NavigationPlace:
    """A page that the header of every page leads to."""

    name: str
    """As people read it."""
    address: str
    """The path of the page; what lies below it counts as being there."""
    needed: tuple[Permission, ...] = ()
    """Any one of these lets a visitor in; empty for anyone signed in."""
    invitation: str = ""
    """What the button on the start page says."""


# In the order of the header; a test requests every address.
PLACES: tuple[NavigationPlace, ...] = (
    NavigationPlace("Overview", "/"),
    NavigationPlace("Review", "/desk", (Permission.REVIEW,), "Review the next document"),
    NavigationPlace(
        "Documents", "/documents", (Permission.READ_ALL_PREDICTIONS,), "Find a document"
    ),
    NavigationPlace("Try", "/try", (Permission.READ_ALL_PREDICTIONS,)),
    NavigationPlace("Cockpit", "/cockpit", (Permission.REPORT,), "See how the model performs"),
    NavigationPlace(
        "Board", "/board", (Permission.INSPECT, Permission.REPORT), "Manage the service"
    ),
)

FOR_PROGRAMS = (
    NavigationPlace("API", "/docs"),
    NavigationPlace("Problems", "/problems"),
    NavigationPlace("OpenAPI", "/openapi.json"),
)
"""What the foot of every page leads to."""


def places_for(caller: Caller) -> list[NavigationPlace]:
    """Return the places that ``caller`` may go to."""
    return [place for place in PLACES if not place.needed or caller.may_one(place.needed)]
