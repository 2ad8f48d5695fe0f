"""The built wheel: nothing is missing in it, and it works alone with the library's dependencies."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.deployment.requirements import distributions
from tests.trained import write_documents

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "models", "service", "setwise", "migrations")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_DISTRIBUTIONS = 23
"""A library that data scientists install brings few others."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel without a network from a copy of the sources."""
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
    (path,) = (folder / "dist").glob("setwise-*.whl")
    return path


@pytest.fixture(scope="module")
def files(wheel: Path) -> set[str]:
    """Return the names of the wheel's files."""
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


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment outside the checkout with the wheel and what the library needs.

    It has the files of these distributions alone, by links: nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-compile", str(wheel)),
        ],
        check=True,
        timeout=300,
    )
    (site,) = (folder / "environment").glob("lib/python3.*/site-packages")
    for name in distributions(PROJECT["dependencies"]):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            source = Path(str(distribution(name).locate_file(top)))
            if source.exists():
                (site / top).symlink_to(source)
    return folder


def run(bare: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the bare environment, with nothing of the checkout in reach."""
    return subprocess.run(
        [bare / "environment" / "bin" / command[0], *command[1:]],
        cwd=bare,
        env={"PATH": "/usr/bin:/bin", "HOME": str(bare)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def printed(bare: Path, program: str) -> str:
    process = run(bare, "python", "-c", program)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_the_wheel_needs_few_others_and_all_public_names_load(bare: Path) -> None:
    names = json.loads(
        printed(
            bare,
            "import importlib.metadata as m, json, setwise\n"
            "for name in setwise.__all__: getattr(setwise, name)\n"
            "print(json.dumps([d.name for d in m.distributions()]))",
        )
    )
    assert {name.lower().replace("_", "-") for name in names} == {
        "setwise",
        *distributions(PROJECT["dependencies"]),
    }
    assert len(names) <= MOST_DISTRIBUTIONS


def test_the_package_is_imported_in_a_moment(bare: Path) -> None:
    clock = "import time; a = time.process_time(); import setwise; print(time.process_time() - a)"
    assert min(float(printed(bare, clock)) for _ in range(3)) < 0.3


def test_a_threshold_is_proved_without_the_checkout(bare: Path) -> None:
    (bare / "audits.csv").write_text("confidence,right\n" + "0.99,1\n" * 60)
    process = run(
        bare, "setwise", "certify", "audits.csv", "--target", "0.9", "--plot", "proof.svg"
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("Send at a confidence of 0.99 or more")
    assert "from 0.99 up" in (bare / "proof.svg").read_text("utf-8")


@pytest.mark.parametrize(
    "command", [("key", "list"), ("serve",), ("doctor",), ("demo", "--port", "0")], ids=" ".join
)
def test_a_command_of_the_service_says_what_to_install(
    bare: Path, command: tuple[str, ...]
) -> None:
    process = run(bare, "setwise", *command)
    assert (process.returncode, process.stdout) == (2, "")
    line = r"setwise: \w+ is missing; run pip install 'setwise\[service\]' for this command\n"
    assert re.fullmatch(line, process.stderr), process.stderr


@pytest.mark.verify  # compiles the learner again; test_library.py is its small twin
def test_the_wheel_learns_predicts_and_reports_without_the_checkout(bare: Path) -> None:
    write_documents(bare / "data.jsonl", 200, seed=3)
    right = printed(
        bare,
        "import setwise\n"
        "data = setwise.read_dataset('data.jsonl')\n"
        "names = [[data.label_names[k] for k in row.indices] for row in data.Y]\n"
        "model = setwise.SetClassifier(preset='fast', random_state=0)\n"
        "model.fit(list(data.texts), names)\n"
        "print(model.score(list(data.texts), names))",
    )
    assert 0.5 < float(right) <= 1.0
    for command in (
        ("train", "data.jsonl", "--out", "model", "--preset", "fast"),
        ("evaluate", "model", "data.jsonl", "--report", "report.html"),
        ("predict", "model", "data.jsonl", "--out", "out.jsonl"),
    ):
        process = run(bare, "setwise", *command)
        assert process.returncode == 0, process.stderr
    assert "How much can be sent?" in (bare / "report.html").read_text("utf-8")
    assert (bare / "out.jsonl").read_text().count("\n") == 200
