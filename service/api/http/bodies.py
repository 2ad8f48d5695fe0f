"""Request bodies: strict JSON in UTF-8."""

import json
import re
from codecs import BOM_UTF8
from email.message import Message as Header
from typing import NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from setwise.service.api.http.dependencies import Need, caller_of
from setwise.service.api.http.idempotency import HEADER, Handler, once
from setwise.service.api.http.problem_kinds import MALFORMED_JSON, UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.http.problems import HttpFault
from setwise.service.api.http.queries import QueryForm
from setwise.service.api.http.streams import run_soon
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.text import each_once

LARGE_BYTES = 100_000
"""A body of this size takes about a millisecond to parse."""

_UTF_8 = {"", "utf-8", "utf8", "us-ascii"}


class _StrictRequest(Request):
    async def json(self) -> object:
        """Parse the body, refusing NaN, Infinity, surrogates and repeated names.

        A large one is parsed in a thread, because others wait for the event loop.
        """
        body = await self.body()
        try:
            if len(body) < LARGE_BYTES:
                return strict_json(body)
            return await run_soon(strict_json, body)
        except (ValueError, RecursionError) as error:
            why = "it begins with a byte-order mark" if body.startswith(BOM_UTF8) else error
            raise HttpFault(MALFORMED_JSON, f"The body is not JSON: {why}.") from error


def strict_json(body: bytes) -> object:
    """Return the value of a JSON text in UTF-8.

    Raises `ValueError` for anything else, also for NaN, infinities, half a surrogate pair and a
    name that is given twice in one object; `RecursionError` if it is nested too deeply.

    >>> strict_json(b'{"scores": {"J45": 0.81}}')
    {'scores': {'J45': 0.81}}
    """
    text = body.decode()
    parsed: object = _DECODER.decode(text)
    if _HALF_A_PAIR.search(text):
        json.dumps(parsed, ensure_ascii=False).encode()  # fails unless its other half is there
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=each_once, parse_constant=_refuse_constant)
_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def meaning_of(body: BaseModel) -> bytes:
    """Return a body's meaning in one spelling.

    The order of members, white space, and members at their defaults do not change it. So a release
    that adds an optional member still recognises requests that were sent to its predecessor.
    """
    meant = body.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(meant, sort_keys=True, separators=(",", ":")).encode()


async def strictly(received: Request) -> Request:
    """Return a request whose ``json()`` accepts only well-formed JSON.

    Raises `HttpFault` if there is a body and its media type is not JSON.
    """
    request = _StrictRequest(received.scope, received.receive)
    media_type = request.headers.get("content-type")
    if media_type == "application/json":
        return request
    if not _is_json(media_type) and await request.body():
        raise HttpFault(
            UNSUPPORTED_MEDIA_TYPE,
            f"The body is declared as {media_type or 'nothing'}: send JSON with Content-Type: "
            "application/json. POST /v1/jobs/scoring reads JSON Lines.",
        )
    check_charset(media_type)
    return request


class GuardedRoute(APIRoute):
    """A route that checks its caller before anything else, which would take memory and time."""

    def guarded(self, handle: Handler) -> Handler:
        """Return a handler for callers that may do what the route is for."""
        dependencies = self.dependant.dependencies
        for_callers = any(each.call is caller_of for each in dependencies)
        needs = [each.call for each in dependencies if isinstance(each.call, Need)]

        async def handle_guarded(received: Request) -> Response:
            if for_callers:
                _check_once(received, "Authorization")
                await caller_of(received)
                for need in needs:
                    await need(received)
            _check_once(received, "Content-Type", "Idempotency-Key")
            return await handle(received)

        return handle_guarded


def _check_once(request: Request, *names: str) -> None:
    """Raise `InvalidRequest` if one of these headers is given twice: only one would be read."""
    for name in names:
        if len(request.headers.getlist(name)) > 1:
            fault = FieldFault(f"/header/{name}", "is given twice")
            raise InvalidRequest(f"The header {name} is given twice.", [fault])


class StrictRoute(GuardedRoute):
    """A route that accepts only well-formed JSON, and repeats keyed POST requests."""

    def get_route_handler(self) -> Handler:
        """Return the handler, with checks of the caller, key, query and media type before it."""
        handle = super().get_route_handler()
        reads_body = self.body_field is not None
        query_form = QueryForm(self.dependant)

        async def handle_strictly(received: Request) -> Response:
            query_form.check(received)
            return await handle(await strictly(received) if reads_body else received)

        return self.guarded(self._once(handle_strictly))

    def _once(self, handle: Handler) -> Handler:
        own = any(field.alias == HEADER for field in self.dependant.header_params)
        if own or self.methods != {"POST"}:
            return handle
        return once(handle, reads_body=self.body_field is not None)


class UploadRoute(GuardedRoute):
    """A route that reads a stream as its body, and repeats keyed requests."""

    def get_route_handler(self) -> Handler:
        """Return the handler, with checks of the caller and the key before it."""
        return self.guarded(once(super().get_route_handler(), reads_body=True))


def check_charset(content_type: str | None) -> None:
    """Raise `HttpFault` if a media type declares another charset than UTF-8."""
    charset = str(_parsed(content_type).get_param("charset") or "").lower()
    if charset not in _UTF_8:
        raise HttpFault(
            UNSUPPORTED_MEDIA_TYPE,
            f"The body is declared as text in {charset[:60]}: send UTF-8, and declare no other.",
        )


def _is_json(content_type: str | None) -> bool:
    header = _parsed(content_type)
    subtype = header.get_content_subtype()
    return header.get_content_maintype() == "application" and (
        subtype == "json" or subtype.endswith("+json")
    )


def _parsed(content_type: str | None) -> Header:
    header = Header()
    header["content-type"] = content_type or ""
    return header
