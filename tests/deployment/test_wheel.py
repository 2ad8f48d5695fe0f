"""The built wheel: everything lies below one name, and nothing is missing."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "models", "service", "setwise", "migrations")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel without a network from a copy of the sources; return its files."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, folder / name)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", "dist", "."),
        ],
        cwd=folder,
        check=True,
        timeout=300,
    )
    (wheel,) = (folder / "dist").glob("setwise-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_only_setwise_stands_at_the_top_of_site_packages(files: set[str]) -> None:
    top = {name.split("/")[0] for name in files}
    beside = {name for name in top if not name.endswith((".dist-info", ".data"))}
    assert beside == {"setwise"}


@pytest.mark.parametrize("folder", ["models", "service"])
def test_every_module_template_and_static_file_is_there(files: set[str], folder: str) -> None:
    wanted = {
        f"setwise/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
    assert wanted <= files, sorted(wanted - files)


def test_the_public_names_and_their_types_are_there(files: set[str]) -> None:
    assert {"setwise/__init__.py", "setwise/__init__.pyi", "setwise/py.typed"} <= files


def test_every_migration_is_there(files: set[str]) -> None:
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "migrations").rglob("*.py")}
    installed = {name.partition("/data/share/setwise/")[2] for name in files}
    assert wanted <= installed, sorted(wanted - installed)
