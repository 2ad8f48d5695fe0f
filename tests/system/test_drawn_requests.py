"""No request that the OpenAPI document leads to ends in a fault or an undocumented answer.

Schemathesis draws requests, good and bad ones, for every operation and with a key of each role, on
PostgreSQL: one for each operation with an administrator's key, a few with each key in `make
verify`. `make fuzz` draws for ten minutes on each database.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.edge import described
from tests.kit.installation import SETWISE, Installation, Server
from tests.kit.waiting import PATIENCE_S
from tests.releases.make import ANSWERS, HERE, settings
from tests.releases.restoring import RELEASES, restore
from tests.system import drawing
from tests.trained import LABELS

SECONDS = int(os.environ.get("SETWISE_FUZZ_SECONDS", "0"))
"""How long each role draws on each database; 0 for a few requests for each operation."""

EXAMPLES = 3
SMALL = pytest.param("admin", 1, id="admin-once")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "documented_headers",
    "the_key_is_known",
)

LISTS = {
    "annotator_id": "admin/annotators",
    "calibration_id": "admin/calibrations",
    "certification_id": "admin/certifications",
    "delivery_id": "admin/deliveries",
    "group_id": "admin/groups",
    "job_id": "jobs",
    "key_id": "admin/keys",
    "model_id": "admin/models",
    "person_id": "admin/people",
    "prediction_id": "predictions",
    "task_id": "reviews",
    "webhook_id": "admin/webhooks",
}

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(params=["sqlite", "postgresql"] if SECONDS else ["postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """Return an installation with something in every list: what a release left.

    Each role has its own, since an administrator may draw the end of the last webhook.
    """
    folder = tmp_path / "filled"
    folder.mkdir()
    url = f"sqlite:///{folder / 'setwise.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        database = server.make()
        request.addfinalizer(lambda: server.drop(database))  # noqa: PT021 -- only if made
        url = database.render_as_string(hide_password=False)
    restore(RELEASES[-1], request.param, folder / "data", url)
    stored = json.loads((HERE / RELEASES[-1] / ANSWERS).read_text())[request.param]
    installation = Installation(settings(folder / "data", url), folder, stored["keys"])
    try:
        installation.serve()
        yield installation
    finally:
        for one in installation.servers:
            one.kill()


def known(server: Server) -> dict[str, list[str]]:
    """Return the ids of what is there, and labels, by the name of their parameter."""
    with server.client("admin") as admin:
        found = {
            name: [one["id"] for one in admin.get(f"/v1/{path}").json()["items"]]
            for name, path in LISTS.items()
        }
        spare = admin.post("/v1/admin/keys", json={"name": "spare", "role": "client"})
    assert all(found.values()), found
    return found | {
        "key_id": [spare.json()["details"]["id"]],
        drawing.SPARED: found["key_id"],  # who revokes a caller's key ends the drawing
        "labels": list(LABELS),
        "merged_into": list(LABELS),
        "group": found["group_id"],
    }


@pytest.mark.parametrize(
    ("role", "examples"),
    [
        SMALL,
        *(
            pytest.param(role, EXAMPLES, marks=pytest.mark.verify, id=role)
            for role in ("client", "reviewer", "auditor", "lead", "admin")
        ),
    ],
)
def test_no_drawn_request_ends_in_a_fault_or_an_undocumented_answer(
    filled: Installation, role: str, examples: int, tmp_path: Path
) -> None:
    (server,) = filled.servers
    values = tmp_path / "known.json"
    values.write_text(json.dumps(known(server)))
    (tmp_path / "openapi.json").write_text(json.dumps(described()))
    long = ["--phases", "coverage,fuzzing,stateful", "--max-time", str(SECONDS)]
    long += ["--generation-database", "none"]
    short = ["--phases", "fuzzing", "--max-examples", str(examples), "--generation-deterministic"]
    process = subprocess.run(
        [
            *(SETWISE.with_name("schemathesis"), "run", "openapi.json", "--url", server.url),
            *("--header", f"Authorization: Bearer {filled.secrets[role]}"),
            *("--checks", ",".join(CHECKS), "--no-shrink"),
            *("--suppress-health-check", "all", "--warnings", "off", "--no-color"),
            *("--continue-on-failure", "--request-timeout", str(PATIENCE_S)),
            *(long if SECONDS else short),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": drawing.__name__,
            drawing.KNOWN: str(values),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(process.stdout)  # how much was drawn
    assert process.returncode == 0, process.stdout + process.stderr
    assert "request.failed" not in server.log.read_text()
