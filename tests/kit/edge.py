"""The HTTP interface over stand-ins, called in process. A pytest plugin."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from fastapi import FastAPI

from setwise.service import build
from setwise.service.app import create_app
from setwise.service.backend import assemble
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.services.all import Services
from setwise.service.services.ports import Passwords
from setwise.service.settings import Settings
from setwise.service.stores.transaction import Transactions
from tests.fake_files import FakeFiles
from tests.fakes import (
    FakeCalibrators,
    FakeClock,
    FakeIds,
    FakeLoader,
    FakePasswords,
    FakePredictors,
    FakeStore,
)
from tests.kit.databases import Database

PEPPER = b"pepper of the tests"
PASSWORD = "correct horse battery"
USUAL = Settings(max_text_bytes=1_000)


class _Loop(threading.local):
    """The event loop of each thread that calls a service; to start one for each call takes long."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        weakref.finalize(self._runner, self._runner.get_loop().close)

    def run(self, call: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        return self._runner.run(call, context=copy_context())


loop = _Loop()


@dataclass
class Service:
    """A whole service on stand-ins, and the means to call it in any role."""

    app: FastAPI
    services: Services
    clock: FakeClock
    ids: FakeIds
    database: Database
    predictors: FakePredictors
    faults: dict[str, str]
    files: FakeFiles
    loader: FakeLoader
    calibrators: FakeCalibrators
    secrets: dict[str, str] = field(default_factory=dict)

    def key(self, name: str, role: Role) -> str:
        """Make a key, by which `send` then calls as ``name``."""
        key, self.secrets[name] = self.services.keys.create(SYSTEM, name, role)
        return key.id

    def send(
        self,
        method: str,
        path: str,
        *,
        by: str | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        **content: Any,
    ) -> httpx.Response:
        """Send one request, with the key of the caller named ``by``."""
        sent = dict(headers or {})
        if by is not None:
            sent["Authorization"] = f"Bearer {self.secrets[by]}"
        encoded = {k: v.encode() if isinstance(v, str) else v for k, v in sent.items()}

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, headers=encoded, **content)

        return loop.run(call())

    def person(self, login: str, role: Role, password: str = PASSWORD) -> str:
        """Make an account, and return its id."""
        person = self.services.people.create(
            SYSTEM, login=login, name=login.title(), role=role, password=password
        )
        return person.id

    def get(self, path: str, *, by: str | None = None, **content: Any) -> httpx.Response:
        return self.send("GET", path, by=by, **content)

    def post(self, path: str, *, by: str | None = None, **content: Any) -> httpx.Response:
        return self.send("POST", path, by=by, **content)

    def predict(self, text: str = "0.5", **content: Any) -> httpx.Response:
        """Post a document; the model takes a number as its confidence."""
        body = {"document": {"id": f"note {text}", "text": text}}
        return self.post("/v1/predictions", by="client", json=body, **content)

    def fix_threshold(self, value: float, **rest: Any) -> None:
        """Send every document with at least this confidence."""
        change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, value, **rest)
        self.services.policy.change(SYSTEM, change, None)


@cache
def described() -> dict[str, Any]:
    """Return the OpenAPI document, which takes long to make and is the same for every service."""
    document: dict[str, Any] = create_app().openapi()
    return document


@pytest.fixture
def service() -> Service:
    return build_service(USUAL)


@cache
def _first(pepper: bytes) -> Service:
    """Return a service for its database: to copy keys is quicker than to make and hash them."""
    return build_service(USUAL, begin=Database())


def build_service(
    settings: Settings,
    passwords: Passwords | None = None,
    begin: Transactions | None = None,
    *,
    key_cache_s: float = 0.0,
) -> Service:
    """Return a service over stand-ins that has one key of each role."""
    clock, ids, database = FakeClock(), FakeIds(), begin or Database()
    if begin is None:
        database.become(_first(PEPPER).database)
        ids = copy(_first(PEPPER).ids)
    predictors = FakePredictors()
    faults: dict[str, str] = {}
    files, loader, calibrators = FakeFiles(), FakeLoader(), FakeCalibrators()
    services = assemble(
        settings,
        database,
        predictors=predictors,
        loader=loader,
        calibrator_loader=calibrators,
        calibrators=calibrators,
        store=FakeStore(clock, ids),
        files=files,
        pepper=PEPPER,
        lease_clock=clock,
        clock=clock,
        ids=ids,
        passwords=passwords or FakePasswords(),
    )
    edge = build.edge(
        settings,
        services,
        pepper=PEPPER,
        checks={"database": lambda: faults.get("database")},
        prediction_checks={"model": lambda: faults.get("model")},
        ids=ids,
        clock=clock,
        key_cache_s=key_cache_s,
    )
    app = create_app(edge)
    app.openapi_schema = described()
    service = Service(
        app, services, clock, ids, database, predictors, faults, files, loader, calibrators
    )
    if begin is None:
        service.secrets.update(_first(PEPPER).secrets)
    else:
        for role in Role:
            service.key(role.value, role)
    return service


def assert_problem(
    response: httpx.Response, status: int, slug: str, *pointers: str
) -> dict[str, Any]:
    """Check that a response is the problem ``slug``, pointing at exactly these places."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"/problems/{slug}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert unquote(body["instance"]) == response.request.url.path
    assert sorted(error["pointer"] for error in body.get("errors", [])) == sorted(pointers)
    return body
