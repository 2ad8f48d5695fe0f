"""Every command and every JSON body of the pages, run against a real server."""

import json
import os
import re
import shlex
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
from standardwebhooks import Webhook
from typer.testing import CliRunner

from setwise.service.cli import app, main
from setwise.service.settings import Settings
from tests.docs.conftest import PASSWORD, Shell, environment, prepare
from tests.docs.pages import EVERY_BLOCK, PAGES, ROOT, Block, blocks
from tests.kit.edge import described
from tests.kit.installation import Installation
from tests.trained import Artifacts

ADDRESS = "http://127.0.0.1:8000"
RUN = {"sh", "console", "python"}


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.stem == "README" else pytest.mark.verify, id=page.stem)
        for page in PAGES
    ],
)
def test_the_commands_of_a_page_work_one_after_the_other(
    page: Path,
    site: Installation,
    artifacts: Artifacts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / page.stem
    folder.mkdir()
    prepare(folder, artifacts)
    monkeypatch.chdir(folder)
    settings = environment(site)
    shell, names = Shell(folder, settings), _signed_message()
    try:
        for block in blocks(page):
            if block.reason_not_to_run is not None or block.language not in RUN:
                continue
            commands = block.setwise_commands
            if block.language == "python":
                code = compile("\n" * block.line + block.content, str(page), "exec")
                exec(code, names)
            elif commands is not None:
                for own, arguments in commands:
                    _setwise(arguments, settings | own, block)
            else:
                succeeded, text = shell.run(block.commands.replace(ADDRESS, site.servers[0].url))
                assert succeeded, f"{block.place} fails:\n{text}"
    finally:
        shell.close()


def _setwise(arguments: list[str], environment: dict[str, str], block: Block) -> None:
    """Run one command in this process: a new one takes seconds to import its libraries."""
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "stdin", StringIO(f"{PASSWORD}\n")),
        pytest.raises(SystemExit) as error,
    ):
        main(arguments)
    assert error.value.code == 0, f"{block.place} fails: setwise {shlex.join(arguments)}"


def _signed_message() -> dict[str, Any]:
    """Return what a receiver of webhooks has before it runs the example."""
    secret, sent_at = "whsec_bm90IHJhbmRvbSwgYXMgeW91IGNhbiBzZWU=", datetime.now(UTC)
    body = '{"type": "prediction.auto_sent", "data": {"labels": ["J18.9"]}}'
    headers = {
        "webhook-id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
        "webhook-timestamp": str(int(sent_at.timestamp())),
    }
    signature = Webhook(secret).sign(headers["webhook-id"], sent_at, body)
    return {
        "secret": secret,
        "body": body,
        "headers": {**headers, "webhook-signature": signature},
    }


def test_json_bodies_fit_the_calls_that_they_belong_to() -> None:
    openapi = described()
    bodies = [block for block in EVERY_BLOCK if block.marker.startswith("body:")]
    assert len(bodies) > 10
    for block in bodies:
        body, schema = json.loads(block.content), _schema(openapi, block.marker)
        _, _, member = block.marker.partition(", member ")
        if member:
            body = {"threshold": {"mode": "fixed", "value": 0.9}, member: body}
        try:
            jsonschema.validate(body, {**schema, "components": openapi["components"]})
        except jsonschema.ValidationError as error:
            pytest.fail(f"{block.place}: {error.json_path} {error.message}")


def _schema(openapi: dict[str, Any], marker: str) -> Any:
    """Return the schema that a marker names."""
    what, *rest = marker.removeprefix("body: ").split(", member ")[0].split()
    if what == "problem":
        return {"$ref": "#/components/schemas/Problem"}
    if what == "webhook":
        (kind,) = rest
        return openapi["webhooks"][kind]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
    address, direction, *status = rest
    call = openapi["paths"][address][what.lower()]
    found = call["requestBody"] if direction == "request" else call["responses"][status[0]]
    return found["content"]["application/json"]["schema"]


def test_data_lines_are_those_that_training_reads(tmp_path: Path) -> None:
    from setwise import read_dataset  # noqa: PLC0415  # takes long to import

    blocks = [block for block in EVERY_BLOCK if block.marker.startswith("data:")]
    assert blocks
    for block in blocks:
        file = tmp_path / "shown.jsonl"
        file.write_text(block.content)
        assert read_dataset(file).n == block.content.count("\n")


def test_every_block_is_checked_or_says_why_not() -> None:
    for block in EVERY_BLOCK:
        kind, _, rest = block.marker.partition(": ")
        if block.language in RUN:
            assert kind in {"", "given", "not run"}, block.place
            assert kind != "not run" or len(rest.split()) > 1, f"{block.place} gives no reason"
        elif block.language == "json":
            assert kind in {"body", "data"}, f"{block.place} does not say which call it belongs to"
        elif block.language == "ini":
            names = set(re.findall(r"SETWISE_(\w+?)(?:_FILE)?=", block.content))
            assert names <= {name.upper() for name in Settings.model_fields}, block.place
        else:  # tests/browser/test_proxy.py serves through a proxy
            checked = block.language == "text" or kind == "proxy"
            assert checked, f"{block.place}: {block.language!r} is not checked"


@pytest.mark.parametrize(
    "block",
    [block for block in EVERY_BLOCK if block.reason_not_to_run is not None],
    ids=lambda block: f"{block.place} {block.reason_not_to_run}",
)
def test_commands_that_are_not_run_exist(block: Block) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in filter(None, block.commands.splitlines()):
        words = shlex.split(line, comments=True)
        words = words[next((n for n, word in enumerate(words) if "=" not in word), 0) :]
        if words[:1] == ["make"]:
            assert words[1] in targets, line
        elif words[:1] == ["setwise"]:
            # Options are parsed, and then help is shown in place of doing anything.
            result = CliRunner().invoke(app, [*words[1:], "--help"])
            assert result.exit_code == 0, f"{line}\n{result.output}"
        elif words[0].endswith("python"):
            assert words[1] == "-m", line
            assert find_spec(words[2]) is not None, line
