"""What an integrator does with the OpenAPI document alone, over HTTP.

Its small twin calls every operation without a server: tests/api/test_generated_clients.py.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.installation import ON_POSTGRES, SETWISE, Installation, stated_documents
from tests.kit.waiting import eventually

pytestmark = [ON_POSTGRES, pytest.mark.system, pytest.mark.slow, pytest.mark.verify]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Generate a client from what ``setwise openapi`` prints; returns its package."""
    subprocess.run([SETWISE, "openapi", "--out", tmp_path / "openapi.json"], check=True)
    (tmp_path / "config.json").write_text(json.dumps({"post_hooks": []}))
    package = f"generated_{tmp_path.name.replace('-', '_')}"
    process = subprocess.run(
        [
            *(SETWISE.with_name("openapi-python-client"), "generate", "--meta", "none"),
            *("--path", "openapi.json", "--config", "config.json", "--output-path", package),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "WARNING" not in process.stdout + process.stderr  # nothing was left out
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


def use(
    module: Callable[[str], Any], models: Any, types: Any, billing: Any, lead: Any, reviewer: Any
) -> None:
    """Predict, read, page, report, review, score a file and count, by generated functions."""
    made = []
    for document in stated_documents(20, seed=41):
        body = models.PredictionRequest(document=models.DocumentIn.from_dict(document))
        one = module("api.predictions.predict").sync(client=billing, body=body)
        assert isinstance(one, models.Prediction)
        made.append(one)
    read = module("api.predictions.get_prediction").sync(made[0].id, client=billing)
    assert read == made[0]
    page = module("api.predictions.list_predictions").sync(client=lead, limit=5)
    assert [one.id for one in page.items] == [one.id for one in made[:-6:-1]]
    outcome = module("api.predictions.report_outcome").sync(
        made[0].id,
        client=billing,
        body=models.OutcomeRequest(labels=made[0].labels, source="billing"),
    )
    assert outcome.agreed
    claimed = module("api.reviews.claim_review").sync_detailed(client=reviewer)
    done = module("api.reviews.complete_review").sync(
        claimed.parsed.id,
        client=reviewer,
        body=models.CompletionRequest(labels=claimed.parsed.candidates[0].labels),
        if_match=claimed.headers["etag"],
    )
    assert done.agreed
    missing = module("api.predictions.get_prediction").sync("nonsense", client=billing)
    assert isinstance(missing, models.Problem)
    assert missing.type_ == "/problems/prediction-not-found"
    content = b'{"scores": {"court": 0.9}}\n'
    job = module("api.jobs.score_file").sync(
        client=billing, body=types.File(payload=content, mime_type="application/x-ndjson")
    )
    read_job = module("api.jobs.get_job").sync
    eventually(lambda: read_job(job.id, client=billing).state in {"succeeded", "failed"})
    assert read_job(job.id, client=billing).state == "succeeded"
    assert '"prediction":' in module("api.jobs.read_result").sync(job.id, client=billing)
    summary = module("api.reports.summary").sync(client=lead)
    assert summary.predictions == 21


def test_a_generated_client_calls_a_running_service(
    installation: Installation, client: str
) -> None:
    installation.fix_threshold(0.7)
    server = installation.serve()

    def module(name: str) -> Any:
        return importlib.import_module(f"{client}.{name}")

    models, types = module("models"), module("types")
    roles = ("client", "lead", "reviewer")
    callers = [
        module("client").AuthenticatedClient(base_url=server.url, token=installation.secrets[role])
        for role in roles
    ]
    with callers[0] as billing, callers[1] as lead, callers[2] as reviewer:
        use(module, models, types, billing, lead, reviewer)
