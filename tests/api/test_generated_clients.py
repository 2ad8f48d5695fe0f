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
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.retraining import FIRST_TEXTS, Measured
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.analysis import retraining as analysis
from setwise.shown import members
from tests.api.test_files import run_jobs
from tests.api.test_idempotency import (
    ADMIN_,
    EVERY,
    Request,
    added_hook,
    do,
    open_task,
    queued_job,
    stored_models,
    tried_delivery,
)
from tests.api.test_one_transaction import OTHERS
from tests.kit.edge import Service, described
from tests.kit.tools import tools_or_skip
from tests.samples import ADMIN, change

OPERATIONS = {
    operation["operationId"]: (method, path, operation["tags"][0])
    for path, operations in described()["paths"].items()
    for method, operation in operations.items()
}


def _result(service: Service) -> str:
    job = service.post(**{**EVERY["score_file"](service), "path": "/v1/jobs/scoring"}).json()
    run_jobs(service)
    return f"/v1/jobs/{job['id']}/result"


def _sent(service: Service) -> str:
    service.fix_threshold(0.5)
    return str(service.predict("0.9").json()["id"])


def _compared(service: Service) -> str:
    path = f"{ADMIN_}/models/{stored_models(service)[0]}"
    do(service, f"{path}/compare", json={})
    return f"{path}/comparison"


def _certified(service: Service) -> str:
    plan = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    proved_change = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=plan)
    service.services.policy.change(ADMIN, proved_change, None)
    service.predict("0.9")
    (certification,) = service.services.certification.certify(ADMIN.id)
    return f"{ADMIN_}/certifications/{certification.id}"


ABOUT_ONE: dict[str, tuple[str, Callable[[Service], str]]] = {
    "get_prediction": ("client", lambda service: f"/v1/predictions/{_sent(service)}"),
    "list_outcomes": ("client", lambda service: f"/v1/predictions/{_sent(service)}/outcomes"),
    "derive_decision": ("admin", lambda service: f"/v1/predictions/{_sent(service)}/decision"),
    "get_document": ("admin", lambda service: f"/v1/documents/{_sent(service)}"),
    "list_comments": ("admin", lambda service: f"/v1/documents/{_sent(service)}/comments"),
    "get_review": ("reviewer", lambda service: open_task(service)[0]),
    "get_webhook": ("admin", added_hook),
    "get_delivery": ("admin", lambda service: tried_delivery(service).removesuffix("/replay")),
    "get_comparison": ("admin", _compared),
    "read_result": ("client", _result),
    "export": ("client", lambda service: f"/v1/exports/predictions#{_sent(service)}"),
    "get_certification": ("admin", _certified),
    "get_annotator": (
        "admin",
        lambda service: f"{ADMIN_}/annotators/{service.person('cy', Role.LEAD)}",
    ),
    "get_label": ("admin", lambda _: f"{ADMIN_}/labels/a"),
    "get_group": ("admin", lambda _: f"{ADMIN_}/groups/default"),
    "get_calibration": (
        "admin",
        lambda service: f"{ADMIN_}/calibrations/{stored_models(service)[2]}",
    ),
    "get_job": ("admin", lambda service: f"/v1/jobs/{queued_job(service)}"),
    "export_documents": ("admin", lambda service: f"/v1/documents/export#{_sent(service)}"),
}
"""Who reads what, for each operation about one thing; the fragment is not sent."""


def request_for(name: str, service: Service) -> Request:
    """Return a request that succeeds."""
    method, path, _ = OPERATIONS[name]
    if method != "get":
        return {"method": method.upper(), **(EVERY | OTHERS)[name](service)}
    role, address = ABOUT_ONE.get(name, ("reviewer" if "reviews" in path else "admin", None))
    return {"by": role, "path": path if address is None else address(service).partition("#")[0]}


def arguments(name: str, request: Request) -> dict[str, Any]:
    """Return the parts of a request that stand in its address and its headers, by parameter."""
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", OPERATIONS[name][1])
    match = re.fullmatch(pattern, request["path"])
    assert match, request["path"]
    tag = request.get("headers", {}).get("If-Match")
    return {**match.groupdict(), **({} if tag is None else {"if_match": tag})}


def generate(folder: Path, *command: str) -> str:
    (folder / "openapi.json").write_text(json.dumps(described()))
    run = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
    process = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True)
    return process.stdout + process.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client by openapi-python-client."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}))
    options = ("--meta=none", "--path=openapi.json", "--config=config.json")
    text = generate(
        folder, "openapi-python-client", "generate", *options, "--output-path=plain_client"
    )
    assert "WARNING" not in text, text  # nothing was left out
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


def body_of(models: Any, taken: inspect.Parameter, written: Any) -> Any:
    """Return a JSON value as the model that a generated function takes."""
    names = set(re.findall(r"\w+", str(taken.annotation)))
    (kind,) = (model for name in names if inspect.isclass(model := getattr(models, name, None)))
    return kind.from_dict(written)


def ask_plainly(service: Service, by: str, name: str, body: Any = None, /, **given: Any) -> Any:
    """Return what the client by openapi-python-client reads of an operation."""
    tag = OPERATIONS[name][2].replace("-", "_")
    module = importlib.import_module(f"plain_client.api.{tag}.{name}")
    types, models, clients = (
        importlib.import_module(f"plain_client.{part}") for part in ("types", "models", "client")
    )
    if isinstance(body, bytes):
        given["body"] = types.File(payload=body)
    elif body is not None:
        taken_body = inspect.signature(module.asyncio_detailed).parameters["body"]
        given["body"] = body_of(models, taken_body, body)

    async def call() -> Any:
        client = clients.AuthenticatedClient(
            base_url="http://test",
            token=service.secrets[by],
            httpx_args={"transport": httpx.ASGITransport(app=service.app)},
        )
        return await module.asyncio_detailed(client=client, **given)

    answer = asyncio.run(call())
    assert answer.status_code < 300, answer.content
    return answer


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("plain")
def test_a_generated_client_succeeds_in_every_operation(service: Service, name: str) -> None:
    request = request_for(name, service)
    body = request.get("content", request.get("json"))
    answer = ask_plainly(service, request["by"], name, body, **arguments(name, request))
    if answer.status_code != 204:
        assert answer.parsed is not None
        assert answer.content


@pytest.mark.usefixtures("plain")
def test_a_generated_client_takes_a_newcomer_from_labels_to_suggestions(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = partial(ask_plainly, service)
    service.predictors.predictor = None
    for label in ("a", "b"):
        ask("lead", "propose_label", {"label": label})
        tag = ask("lead", "get_label", name=label).headers["etag"]
        ask("lead", "change_label", {"state": "accepted"}, name=label, if_match=tag)

    one, *others = ({"text": f"Fever on ward {'i' * place}"} for place in range(FIRST_TEXTS + 1))
    posted = ask("client", "predict", {"document": one})
    made = posted.parsed
    assert (posted.status_code, made.decision, made.reason) == (201, "review", "no_model")
    assert (made.labels, made.confidence, made.model_version) == (None, None, None)
    assert made.candidates == []
    ask("client", "predict_batch", {"documents": others})

    for _ in range(FIRST_TEXTS):
        claimed = ask("reviewer", "claim_review")
        assert claimed.parsed.candidates == []
        tag = claimed.headers["etag"]
        ask(
            "reviewer",
            "complete_review",
            {"labels": ["a"]},
            task_id=claimed.parsed.id,
            if_match=tag,
        )

    # Run the worker's jobs with a stubbed fit.
    body = members(Measured(FIRST_TEXTS, 30, 20, 0.5, 0.8, 0.7, 0.4))
    monkeypatch.setattr(
        analysis, "fit_again", lambda *_, **__: {"documents": FIRST_TEXTS, "measured": body}
    )
    service.services.retraining.request_if_due()
    run_jobs(service)
    (model,) = ask("admin", "list_models").parsed.items
    assert model.active
    suggested = ask("reviewer", "claim_review").parsed.candidates[0]
    assert (suggested.labels, suggested.confidence) == (["a", "b"], 0.9)


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
def test_a_second_generated_client_succeeds_in_every_operation(service: Service, name: str) -> None:
    request = request_for(name, service)
    sdk: Any = importlib.import_module("second_client")
    tag = "".join(map(str.title, OPERATIONS[name][2].split("-")))
    settings = sdk.Configuration(host="http://test", access_token=service.secrets[request["by"]])
    client = sdk.ApiClient(settings)

    def send(method: str, url: str, headers: Any, body: Any = None, **_: Any) -> Any:
        content = body if isinstance(body, bytes | None) else json.dumps(body)
        answer = service.send(method, url, headers=headers, content=content)
        # The content is already decompressed.
        of_content = {"content-encoding", "content-length"}
        given = {name: text for name, text in answer.headers.items() if name not in of_content}
        raw = urllib3.HTTPResponse(
            io.BytesIO(answer.content), given, answer.status_code, preload_content=False
        )
        return sdk.rest.RESTResponse(raw)

    client.rest_client.request = send
    call = getattr(getattr(sdk, f"{tag}Api")(client), f"{name}_with_http_info")
    given = arguments(name, request)
    parameters = inspect.signature(call).parameters
    if "content" in request:
        given["body"] = request["content"]
    elif request.get("json") is not None:
        (taken,) = (
            p for p in parameters.values() if p.name.endswith(("request", "change", "proposal"))
        )
        given[taken.name] = body_of(sdk, taken, request["json"])
    answer = call(**given)
    assert answer.status_code < 300
    assert answer.status_code == 204 or answer.data is not None


TYPESCRIPT = Path(__file__).with_name("typescript")


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the locked tools of TypeScript; `make setup` installs them where there is npm."""
    tools_or_skip("npm")
    path = Path(sys.prefix) / "typescript"
    lock = TYPESCRIPT / "package-lock.json"
    kept_path = path / "node_modules/.package-lock.json"
    assert kept_path.exists(), "run make setup, which installs the tools of TypeScript"
    names = [set(json.loads(file.read_text())["packages"]) - {""} for file in (lock, kept_path)]
    assert names[0] >= names[1]
    return path / "node_modules"


@pytest.mark.slow
def test_a_journey_in_typescript_compiles_strictly(node_modules: Path, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(described()))
    shutil.copy(TYPESCRIPT / "journey.ts", tmp_path)
    program = str(shutil.which("node"))
    for command in (
        ("openapi-typescript/bin/cli.js", "openapi.json", "-o", "openapi.d.ts"),
        ("typescript/bin/tsc", "--strict", "--noEmit", "--target", "es2022", "journey.ts"),
    ):
        run = [program, str(node_modules / command[0]), *command[1:]]
        process = subprocess.run(run, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout + process.stderr
