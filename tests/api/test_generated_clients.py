"""Clients generated from the OpenAPI document, without settings, succeed in every operation."""

import asyncio
import importlib
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.api.test_files import run_jobs
from tests.api.test_idempotency import ADMIN_, EVERY, Request, World, world
from tests.api.test_one_transaction import OTHERS
from tests.edge import described
from tests.samples import ADMIN, change

__all__ = ["world"]

OPERATIONS = {
    operation["operationId"]: (method, path, operation["tags"][0])
    for path, operations in described()["paths"].items()
    for method, operation in operations.items()
}


def _result(world: World) -> str:
    job = world.post(**{**EVERY["score_file"](world), "path": "/v1/jobs/scoring"}).json()
    run_jobs(world)
    return f"/v1/jobs/{job['id']}/result"


def _sent(world: World) -> str:
    world.fix_threshold(0.5)
    return str(world.predict("0.9").json()["id"])


def _compared(world: World) -> str:
    path = f"{ADMIN_}/models/{world.models()[0]}"
    world.do(f"{path}/compare", json={})
    return f"{path}/comparison"


def _certified(world: World) -> str:
    plan = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    proved = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=plan)
    world.services.policy.change(ADMIN, proved, None)
    world.predict("0.9")
    (certification,) = world.services.certification.certify(ADMIN.id)
    return f"{ADMIN_}/certifications/{certification.id}"


ABOUT_ONE: dict[str, tuple[str, Callable[[World], str]]] = {
    "get_prediction": ("client", lambda world: f"/v1/predictions/{_sent(world)}"),
    "list_outcomes": ("client", lambda world: f"/v1/predictions/{_sent(world)}/outcomes"),
    "derive_decision": ("admin", lambda world: f"/v1/predictions/{_sent(world)}/decision"),
    "get_document": ("admin", lambda world: f"/v1/documents/{_sent(world)}"),
    "list_comments": ("admin", lambda world: f"/v1/documents/{_sent(world)}/comments"),
    "get_review": ("reviewer", lambda world: world.task()[0]),
    "get_webhook": ("admin", World.hook),
    "get_delivery": ("admin", lambda world: world.delivery().removesuffix("/replay")),
    "get_comparison": ("admin", _compared),
    "read_result": ("client", _result),
    "export": ("client", lambda world: f"/v1/exports/predictions#{_sent(world)}"),
    "get_certification": ("admin", _certified),
    "get_annotator": (
        "admin",
        lambda world: f"{ADMIN_}/annotators/{world.person('cy', Role.LEAD)}",
    ),
    "get_label": ("admin", lambda _: f"{ADMIN_}/labels/a"),
    "get_group": ("admin", lambda _: f"{ADMIN_}/groups/default"),
    "get_calibration": ("admin", lambda world: f"{ADMIN_}/calibrations/{world.models()[2]}"),
    "get_job": ("admin", lambda world: f"/v1/jobs/{world.job()}"),
    "export_documents": ("admin", lambda world: f"/v1/documents/export#{_sent(world)}"),
}
"""Who reads what, for each operation about one thing; the fragment is not sent."""


def request_for(name: str, world: World) -> Request:
    """Return a request that succeeds."""
    method, path, _ = OPERATIONS[name]
    if method != "get":
        return {"method": method.upper(), **(EVERY | OTHERS)[name](world)}
    role, address = ABOUT_ONE.get(name, ("reviewer" if "reviews" in path else "admin", None))
    return {"by": role, "path": path if address is None else address(world).partition("#")[0]}


def arguments(name: str, request: Request) -> dict[str, Any]:
    """Return the parts of a request that stand in its address and its headers, by parameter."""
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", OPERATIONS[name][1])
    placed = re.fullmatch(pattern, request["path"])
    assert placed, request["path"]
    tag = request.get("headers", {}).get("If-Match")
    return {**placed.groupdict(), **({} if tag is None else {"if_match": tag})}


def generate(folder: Path, *command: str) -> str:
    (folder / "openapi.json").write_text(json.dumps(described()))
    run = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
    done = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client by openapi-python-client."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}))
    options = ("--meta=none", "--path=openapi.json", "--config=config.json")
    said = generate(
        folder, "openapi-python-client", "generate", *options, "--output-path=plain_client"
    )
    assert "WARNING" not in said, said  # nothing was left out
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


def body_of(models: Any, taken: inspect.Parameter, written: Any) -> Any:
    """Return a JSON value as the model that a generated function takes."""
    names = set(re.findall(r"\w+", str(taken.annotation)))
    (kind,) = (model for name in names if inspect.isclass(model := getattr(models, name, None)))
    return kind.from_dict(written)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("plain")
def test_a_generated_client_succeeds_in_every_operation(world: World, name: str) -> None:
    request = request_for(name, world)
    tag = OPERATIONS[name][2]
    module = importlib.import_module(f"plain_client.api.{tag.replace('-', '_')}.{name}")
    types, models = (
        importlib.import_module(f"plain_client.{part}") for part in ("types", "models")
    )
    given = arguments(name, request)
    parameters = inspect.signature(module.asyncio_detailed).parameters
    if "content" in request:
        given["body"] = types.File(payload=request["content"])
    elif "json" in request:
        given["body"] = body_of(models, parameters["body"], request["json"])

    async def call() -> Any:
        client = importlib.import_module("plain_client.client").AuthenticatedClient(
            base_url="http://test",
            token=world.secrets[request["by"]],
            httpx_args={"transport": httpx.ASGITransport(app=world.app)},
        )
        return await module.asyncio_detailed(client=client, **given)

    answer = asyncio.run(call())
    assert answer.status_code < 300, answer.content
    if answer.status_code != 204:
        assert answer.parsed is not None
        assert answer.content


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client by openapi-generator."""
    folder = tmp_path_factory.mktemp("second")
    options = ("-g", "python", "-i", "openapi.json", "-o", ".", "--package-name", "second_client")
    generate(folder, "openapi-generator-cli", "generate", *options)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


@pytest.mark.verify
@pytest.mark.skipif(shutil.which("java") is None, reason="openapi-generator needs Java")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("second")
def test_a_second_generated_client_succeeds_in_every_operation(world: World, name: str) -> None:
    request = request_for(name, world)
    sdk: Any = importlib.import_module("second_client")
    tag = "".join(map(str.title, OPERATIONS[name][2].split("-")))
    settings = sdk.Configuration(host="http://test", access_token=world.secrets[request["by"]])
    client = sdk.ApiClient(settings)

    def send(method: str, url: str, headers: Any, body: Any = None, **_: Any) -> Any:
        content = body if isinstance(body, bytes | None) else json.dumps(body)
        answer = world.send(method, url, headers=headers, content=content)
        raw = urllib3.HTTPResponse(
            io.BytesIO(answer.content), answer.headers, answer.status_code, preload_content=False
        )
        return sdk.rest.RESTResponse(raw)

    client.rest_client.request = send
    call = getattr(getattr(sdk, f"{tag}Api")(client), f"{name}_with_http_info")
    given = arguments(name, request)
    parameters = inspect.signature(call).parameters
    if "content" in request:
        given["body"] = request["content"]
    elif "json" in request:
        (taken,) = (
            p for p in parameters.values() if p.name.endswith(("request", "change", "proposal"))
        )
        given[taken.name] = body_of(sdk, taken, request["json"])
    answer = call(**given)
    assert answer.status_code < 300
    assert answer.status_code == 204 or answer.data is not None
