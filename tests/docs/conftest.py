"""One server for all pages, and a folder for each with the files that its commands read."""

import gzip
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.installation import SETWISE, Installation, installed
from tests.trained import Artifacts, documents, write_documents

PATIENCE_S = 900.0
PASSWORD = "a sentence that only Ann knows"


def environment(site: Installation) -> dict[str, str]:
    """Return what a user has set: the folder of the data and a key of each role."""
    kept = {
        name: value
        for name, value in site.environment().items()
        if name != "SETWISE_DATABASE_URL"  # the default, below the folder
    }
    keys = {f"{role.upper()}_KEY": secret for role, secret in site.secrets.items()}
    return kept | keys | {"PATH": f"{SETWISE.parent}:{os.environ['PATH']}"}


def prepare(folder: Path, artifacts: Artifacts) -> None:
    """Write the files that the pages name."""
    for name, seed in (("train", 5), ("test", 6)):
        lines = write_documents(folder / f"{name}.jsonl", 250, seed=seed).read_bytes()
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines))
    rows = [(one["text"], ";".join(one["labels"])) for one in documents(500, seed=9)]
    (folder / "notes.csv").write_text(
        "text,labels\n" + "".join(f"{text},{labels}\n" for text, labels in rows)
    )
    new = [{"id": one["id"], "text": one["text"]} for one in documents(5, seed=7)]
    (folder / "new.jsonl").write_text("".join(json.dumps(one) + "\n" for one in new))
    if folder.name != "README":  # which trains it itself
        shutil.copytree(artifacts.other_text, folder / "my-model")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, artifacts: Artifacts) -> Iterator[Installation]:
    """Start the server; some of its documents wait for a reviewer."""
    folder = tmp_path_factory.mktemp("docs")
    data_dir = folder / "data"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
    own = {"SETWISE_DATA_DIR": str(data_dir)}
    subprocess.run([SETWISE, "db", "upgrade"], env=kept | own, check=True, capture_output=True)
    url = f"sqlite:///{data_dir / 'setwise.db'}"
    with installed(data_dir, url, artifacts.text) as installation:
        server = installation.serve()
        with server.client("client") as client:
            items = [{"id": one["id"], "text": one["text"]} for one in documents(40, seed=8)]
            items.append({"id": "note-17", "text": "Fever."})  # which a page erases
            assert (
                client.post("/v1/predictions/batch", json={"documents": items}).status_code == 200
            )
        yield installation


class Shell:
    """A shell that runs one block after the other, as a reader pastes them.

    The first command that fails ends it. ``curl`` fails on the status of an error.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environment,
        )
        self._watch = threading.Timer(PATIENCE_S, self._process.kill)
        self._watch.start()
        self._send('set -euo pipefail; curl() { command curl --fail-with-body -S "$@"; }')

    def run(self, commands: str) -> tuple[bool, str]:
        """Run a block; return whether each command succeeded, and what was printed."""
        (self._folder / "block.sh").write_text(commands)
        self._send("source block.sh < /dev/null; echo; echo END OF BLOCK")
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            if line == "END OF BLOCK\n":
                return True, "".join(lines)
            lines.append(line)
        return False, "".join(lines)

    def close(self) -> None:
        self._watch.cancel()
        self._process.kill()
        self._process.communicate()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
