"""`pip install setwise`: learning, its commands and proofs work without the service's libraries."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.deployment.requirements import distributions
from tests.trained import Artifacts, write_documents

PROGRAM = """
import json
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import setwise
for name in setwise.__all__:
    getattr(setwise, name)
from setwise.service.cli import main
for command in json.loads(sys.argv[2]):
    try:
        main(command)
    except SystemExit as ended:
        print(ended.code, file=sys.stderr)
"""


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def absent() -> str:
    """Return the modules that only the service's libraries have."""
    lacking = distributions(PROJECT["optional-dependencies"]["service"])
    lacking -= distributions(PROJECT["dependencies"])
    modules = [
        module
        for module, names in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in names} <= lacking
    ]
    assert {"fastapi", "sqlalchemy", "alembic", "starlette"} <= set(modules)
    return ",".join(modules)


def run(absent: str, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other; each ends its lines on stderr with its exit status."""
    program = [sys.executable, "-c", PROGRAM, absent, json.dumps(commands)]
    return subprocess.run(program, capture_output=True, text=True, check=True)


def test_learning_commands_and_proofs_need_no_server(
    absent: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    data, audits = tmp_path / "data.jsonl", tmp_path / "audits.csv"
    write_documents(data, 30, seed=3)
    audits.write_text("confidence,right\n" + "0.99,1\n" * 60)
    process = run(
        absent,
        ["predict", str(artifacts.text), str(data), "--out", str(tmp_path / "out.jsonl")],
        ["evaluate", str(artifacts.text), str(data)],
        ["certify", str(audits), "--target", "0.9"],
    )
    statuses = re.findall(r"^\d$", process.stderr, re.MULTILINE)
    assert statuses == ["0", "0", "0"], process.stderr
    assert "Send at a confidence of 0.99 or more" in process.stdout
