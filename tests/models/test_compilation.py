"""What one state of the sources compiled serves it wherever it lies, and no other state."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from setwise.models import compilation
from setwise.models.compilation import compile_ahead, compiled_folder, source_digest

ROOT = Path(__file__).parents[2]

_CALL = """
import json, numpy as np
from setwise.models.labels import ranking
ranking.rank_largest(np.array([.1, .9, .5]), np.empty(2, np.intp))
print(json.dumps(sum(ranking.rank_largest.stats.cache_hits.values())))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one file that compiles a function, in place of the real one."""
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "kernel.py").write_text("@njit\ndef f(): return 1\n")
    (folder / "plain.py").write_text("x = 1\n")
    monkeypatch.setattr(compilation, "PACKAGE", folder)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return folder


def _folder() -> Path:
    return compiled_folder.__wrapped__()


def test_an_edited_kernel_gets_a_folder_of_its_own(package: Path) -> None:
    before = _folder()
    (package / "inner" / "kernel.py").write_text("@njit\ndef f(): return 2\n")
    assert _folder() != before


def test_an_edit_that_compiles_nothing_keeps_the_folder(package: Path) -> None:
    before = _folder()
    (package / "plain.py").write_text("x = 2\n")
    assert _folder() == before


def test_a_copied_package_has_the_digest_of_its_source(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "elsewhere" / "package")
    assert source_digest(tmp_path / "elsewhere" / "package") == source_digest(package)


def test_old_folders_do_not_pile_up(package: Path) -> None:
    for version in range(6):
        (package / "inner" / "kernel.py").write_text(f"@njit\ndef f(): return {version}\n")
        _folder()
    assert len(list((package / "__pycache__").iterdir())) == 3


def test_a_folder_that_another_process_removes_meanwhile_is_no_fault(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = package / "__pycache__" / "setwise-gone"
    monkeypatch.setattr(Path, "glob", lambda *_, **_options: iter([gone]))
    assert _folder().parent == gone.parent


def test_the_setting_of_numba_says_where_the_folder_lies(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    assert _folder().parent == tmp_path / "chosen"


def test_what_came_with_the_package_is_copied_to_a_new_folder_once(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = _folder()
    (shipped / "kernel.nbc").write_text("code")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    folder = _folder()
    (shipped / "kernel.nbc").write_text("other")
    assert _folder() == folder
    assert (folder / "kernel.nbc").read_text() == "code"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert folder.stat().st_mode & stat.S_IRGRP, "an image is built by one user and run by another"


def test_a_package_that_cannot_be_written_uses_a_folder_of_the_user(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (package / "__pycache__").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert _folder().is_relative_to(tmp_path / "cache")


def test_where_nothing_can_be_written_functions_are_kept_for_one_process(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "_parents", lambda: iter([package / "plain.py"]))
    folder = _folder()
    assert folder.is_dir()
    folder.rmdir()


def test_functions_of_other_packages_stay_with_numba() -> None:
    def mine() -> None: ...

    assert compilation.SourceDigestLocator.from_function(mine, __file__) is None


def test_importing_the_package_does_not_import_numba() -> None:
    code = "import sys, setwise.models; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def _hits(site: Path) -> int:
    """Return how often a process with the package in ``site`` found its function compiled."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", _CALL], env=environment, cwd=site, capture_output=True, check=True
    )
    return int(json.loads(done.stdout))


def test_a_copied_or_moved_package_compiles_nothing_again(tmp_path: Path) -> None:
    first = tmp_path / "first"
    shutil.copytree(
        ROOT / "setwise",
        first / "setwise",
        ignore=shutil.ignore_patterns("__pycache__", "service", "integrations"),
    )
    assert _hits(first) == 0
    shutil.copytree(first, tmp_path / "copied")  # dates change, as in a layer of an image
    assert _hits(tmp_path / "copied") == 1
    first.rename(tmp_path / "moved")
    assert _hits(tmp_path / "moved") == 1


@pytest.mark.verify
def test_a_cache_that_setup_filled_is_all_that_training_needs(tmp_path: Path) -> None:
    """Two processes, since what one has compiled it does not look up again.

    They begin with what the session has compiled; the rehearsal of the image begins with nothing.
    """
    command = f"from setwise.models.compilation import {compile_ahead.__name__} as c; c()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    written = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", command], check=True, env=environment)
        written.append(sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")))
    assert len(written[0]) > 50
    assert written[0] == written[1]
