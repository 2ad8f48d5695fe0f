"""No place of a request takes text that ends in a fault of ours, on either database.

Every operation of the OpenAPI document, and every page, gets what databases and calendars choke on:
NUL, times at the ends of the calendar with offsets, and headers that are no text.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.routing.segments import SegmentBy
from setwise.service.pages.board.sections import PAGES
from setwise.service.settings import Settings
from setwise.service.stores.transaction import Transactions
from tests.api.test_rights import bodies
from tests.browsing import Browser
from tests.kit.edge import Service, build_service

ID = "019b7a0b-0000-7000-9000-0000000000ff"
TIMES = (
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59Z",
)
TEXTS = ("\x00", "a\x00b", *TIMES)
HARDEST = ("a\x00b", TIMES[0])
TO_SEND = pytest.mark.parametrize(
    "texts", [HARDEST, pytest.param(TEXTS, marks=pytest.mark.verify)], ids=["hardest", "all"]
)
BYTES = (b"\xff\xfe", b"\x80" * 100, b"\xe2\x80\xa8", b"\x01", b'"', b"=?utf-8?b?4pi6?=")
HEADERS = (
    "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Cookie", "Idempotency-Key",
    "If-Match", "If-None-Match", "Origin", "Range", "Sec-Fetch-Dest", "Sec-Fetch-Site",
    "traceparent", "X-CSRF-Token", "X-Request-Id",
)  # fmt: skip


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.verify), "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Run on PostgreSQL, which bears less; on SQLite too to verify."""
    kind: str = request.param
    return kind


@pytest.fixture
def service(begin: Transactions) -> Service:
    return build_service(Settings(max_text_bytes=1_000), begin=begin, key_cache_s=60)


def operations(service: Service) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the method, path and description of every operation."""
    for path, methods in service.app.openapi()["paths"].items():
        for method, described in methods.items():
            yield method.upper(), path, described


def address(path: str, hostile: str | None = None, place: str = "") -> str:
    """Return a path whose parameters are ids, or ``hostile`` in one place."""
    parts = []
    for part in path.split("/"):
        given = hostile if part == place and hostile is not None else ID
        parts.append(quote(given, safe="") if part.startswith("{") else part)
    return "/".join(parts).replace(f"/exports/{ID}", "/exports/predictions")


def variants(value: Any, hostile: str) -> Iterator[Any]:
    """Yield a JSON value with one string after another replaced."""
    if isinstance(value, str):
        yield hostile
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from ({**value, name: one} for one in variants(member, hostile))
            yield {**value, hostile: member}
    elif isinstance(value, list):
        for place, member in enumerate(value):
            yield from (
                [*value[:place], one, *value[place + 1 :]] for one in variants(member, hostile)
            )


def requests(service: Service, texts: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the hostile requests: a method, an address and what goes with it."""
    document = service.app.openapi()
    for method, path, body in operations(service):
        usual = bodies(document, method, path)
        for text in texts:
            for place in {part for part in path.split("/") if part.startswith("{")}:
                yield method, address(path, text, place), usual
            for parameter in body.get("parameters", []):
                if parameter["in"] == "query":
                    query = f"{parameter['name']}={quote(text, safe='')}"
                    yield method, f"{address(path)}?{query}", usual
            for changed in variants(usual.get("json", {}), text):
                yield method, address(path), {"json": changed}


def faults(service: Service, sent: Iterator[tuple[str, str, dict[str, Any]]]) -> set[str]:
    """Send requests as an administrator; return those that the service could not bear."""
    matches = set()
    for method, where, arguments in sent:
        response = service.send(method, where, by="admin", **arguments)
        if response.status_code >= 500 and "no-model" not in response.text:
            matches.add(f"{method} {where} {json.dumps(arguments.get('json'))}: {response.text}")
    return matches


@pytest.mark.slow
@TO_SEND
def test_no_text_in_a_path_a_query_or_a_body_ends_in_a_fault(
    service: Service, texts: Sequence[str]
) -> None:
    assert faults(service, requests(service, texts)) == set()


def test_no_bytes_in_a_header_end_in_a_fault() -> None:
    service = build_service(Settings(max_text_bytes=1_000))

    def sent() -> Iterator[tuple[str, str, dict[str, Any]]]:
        for method, path, _ in operations(service):
            usual = bodies(service.app.openapi(), method, path)
            for content in BYTES:
                for names in [(name,) for name in HEADERS] if "exports" in path else [HEADERS]:
                    headers = {**usual.get("headers", {}), **dict.fromkeys(names, content)}
                    yield method, address(path), {**usual, "headers": headers}

    assert faults(service, sent()) == set()


@pytest.mark.slow
@TO_SEND
def test_no_text_in_the_address_of_a_page_ends_in_a_fault(
    service: Service, texts: Sequence[str]
) -> None:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    names = "actor action subject since before state kind after done endpoint routes query days"
    names += " pace threshold target next"
    places = ["/", "/login", "/account", "/desk", "/cockpit", *(one.address for one in PAGES)]
    matches = set()
    for page in places:
        for text in texts:
            query = "&".join(f"{name}={quote(text, safe='')}" for name in names.split())
            path = "/".join(quote(text, safe="") if "{" in p else p for p in page.split("/"))
            for where in (f"{page.replace('{', '').replace('}', '')}?{query}", path):
                if browser.get(where).status_code >= 500:
                    matches.add(where)
    assert matches == set()


def test_no_text_in_a_form_or_in_the_name_of_a_queue_ends_in_a_fault(service: Service) -> None:
    service.person("ann", Role.ADMIN)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.8)
    divided_change = replace(change, segment_by=SegmentBy("site"))
    service.services.policy.change(SYSTEM, divided_change, None)
    browser = Browser(service)
    browser.sign_in()
    csrf, found = browser.token("/account"), {}
    nul = quote("a\x00")
    for page in ("cockpit", "cockpit/details", "documents", "recent", "join"):
        names = "&".join(f"{one}={nul}" for one in ("segment", "text", "after", "secret"))
        for query in (f"segment={nul}", names):
            found[f"{page}?{query}"] = browser.get(f"/{page}?{query}").status_code
    for name in ("segment", "label"):
        response = browser.send("POST", "/desk/next", {"X-CSRF-Token": csrf}, json={name: "a\x00"})
        found[name] = response.status_code
    for form in ("searches", "searches/delete", f"{ID}/comments", f"{ID}/reopen"):
        names = ("search_name", "text", "thread", "reason", "id", "why")
        fields = {"csrf": csrf, **dict.fromkeys(names, "a\x00")}
        found[form] = browser.submit(f"/documents/{form}", fields).status_code
    assert {where: code for where, code in found.items() if code >= 500} == {}
    assert found["label"] == 422
