"""The rules of who may know whom."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_imports_point_inwards() -> None:
    """The contracts in ``pyproject.toml`` hold; its output names the import that breaks one."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_and_server_are_each_built_in_one_place() -> None:
    builders = {
        "service/backend.py": {"Transactions", "FolderOrObjectStore", "ModelRegistry"},
        "service/build.py": {"Callers", "Worker"},
    }
    calls = re.compile(rf"(?<!class )\b({'|'.join(set().union(*builders.values()))})\(")
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in (ROOT / "service").rglob("*.py")
        if (names := set(calls.findall(path.read_text())))
    }
    assert found == builders


def test_no_folder_of_the_product_hides_another() -> None:
    """At most twenty files stand beside each other."""
    folders = {
        path.parent for part in ("models", "service") for path in (ROOT / part).rglob("*.py")
    }
    crowded = {
        folder.relative_to(ROOT).as_posix(): len(files)
        for folder in folders
        if len(files := [path for path in folder.glob("*.py") if path.stem != "__init__"]) > 20
    }
    assert crowded == {}
