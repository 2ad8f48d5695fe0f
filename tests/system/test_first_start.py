"""The first start behind a proxy as the documentation has it: owner's key, then a first model."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import ROOT, blocks
from tests.kit.installation import SETWISE, Installation, Server, installed
from tests.kit.tools import tools_or_skip
from tests.kit.waiting import PATIENCE_S

pytestmark = pytest.mark.system

# Stand-ins that run in this environment what the real programs would run in a container.
STAND_INS = {
    "docker": f"""\
#!/usr/bin/env bash
[ "$1" = compose ] || exit 64
case "$2" in
  up) exit 0 ;;
  run) shift 2 ;;
  *) exit 64 ;;
esac
while [ "$1" != api ]; do
  [ "$1" != -v ] || host=${{2%%:*}}
  shift
done
shift
exec {SETWISE} "${{@/#\\/model/$host}}"
""",
    "kubectl": f"""\
#!/usr/bin/env bash
[ "$1 $2 $3 $4" = "exec deployment/setwise-api -- setwise" ] || exit 64
shift 4
exec {SETWISE} "$@"
""",
}


def _commands(*words: str) -> str:
    """Return the block of the operators' page that has all these words."""
    page = ROOT / "docs" / "operators.md"
    (commands,) = (
        block.commands
        for block in blocks(page)
        if block.language == "sh" and all(word in block.content for word in words)
    )
    return commands


@pytest.fixture
def empty(database_url: str, tmp_path: Path) -> Iterator[Installation]:
    """Return an installation without models, keys and people."""
    with installed(tmp_path / "data", database_url) as installation:
        yield installation


@pytest.fixture
def shell(empty: Installation, stated: tuple[Path, Path], tmp_path: Path) -> dict[str, str]:
    """Return the environment of an operator who has an artifact in the present folder."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in STAND_INS.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o700)
    shutil.copytree(stated[0], tmp_path / "my-model")
    environment = empty.environment()
    return environment | {"PATH": f"{tools}:{environment['PATH']}", "no_proxy": "127.0.0.1"}


def _run(commands: str, folder: Path, environment: dict[str, str]) -> str:
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def _served(empty: Installation) -> Server:
    """Start a server and wait until a proxy would send it requests."""
    server = empty.start()
    server.wait_until("/readyz")
    with server.client() as anyone:
        assert anyone.get("/readyz/predictions").status_code == 503
    return server


def test_an_owner_adds_the_first_model_through_the_proxy(
    empty: Installation, shell: dict[str, str]
) -> None:
    tools_or_skip("zip", "curl", "jq")
    server = _served(empty)
    keys = []
    for how in ("docker compose up", "kubectl exec"):
        command = _commands(how, "key create", "--name owner").rstrip()
        keys.append(json.loads(_run(f"{command} --json", empty.folder, shell))["key"])
    upload = _commands("model.json")
    _run(upload, empty.folder, {**shell, "KEY": keys[0], "URL": server.url})
    for key in keys:
        _predict(server, key)


def test_an_owner_adds_the_first_model_from_a_folder(
    empty: Installation, shell: dict[str, str]
) -> None:
    server = _served(empty)
    _run(_commands("docker compose", "model add"), empty.folder, shell)
    text = _run(f"{SETWISE} key create --role client --name c --json", empty.folder, shell)
    server.wait_until("/readyz/predictions")
    _predict(server, json.loads(text)["key"])


def _predict(server: Server, key: str) -> None:
    response = httpx.post(
        f"{server.url}/v1/predictions",
        json={"document": {"scores": {"space": 0.9}}},
        headers={"Authorization": f"Bearer {key}"},
        timeout=PATIENCE_S,
        trust_env=False,
    )
    assert response.status_code == 201, response.text
    assert response.json()["model_version"] is not None
