"""An edit to any compiled source leads to a new cache; an edit elsewhere does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from setwise import models
from setwise.models import compilation
from setwise.models.compilation import CACHE_SETTING, keep_compiled_code


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(CACHE_SETTING, raising=False)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "kernel.py").write_text("@njit\ndef f(): return 1\n")
    (tmp_path / "plain.py").write_text("x = 1\n")
    return tmp_path


def _folder(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(CACHE_SETTING, raising=False)
    keep_compiled_code(package)
    return Path(os.environ[CACHE_SETTING])


def test_an_edited_kernel_gets_a_cache_of_its_own(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _folder(package, monkeypatch)
    (package / "inner" / "kernel.py").write_text("@njit\ndef f(): return 2\n")
    assert _folder(package, monkeypatch) != before


def test_an_edit_that_compiles_nothing_keeps_the_cache(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _folder(package, monkeypatch)
    (package / "plain.py").write_text("x = 2\n")
    assert _folder(package, monkeypatch) == before


def test_old_caches_do_not_pile_up(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in range(6):
        (package / "inner" / "kernel.py").write_text(f"@njit\ndef f(): return {version}\n")
        _folder(package, monkeypatch).mkdir(parents=True)
    assert len(list((package / "__pycache__").iterdir())) == 3


def test_a_folder_that_another_process_removes_meanwhile_is_no_fault(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = package / "__pycache__" / "compiled-gone"
    monkeypatch.setattr(Path, "glob", lambda *_, **_options: iter([gone]))
    assert _folder(package, monkeypatch).parent == gone.parent


def test_a_folder_that_the_user_chose_stays(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_SETTING, "elsewhere")
    keep_compiled_code(package)
    assert os.environ[CACHE_SETTING] == "elsewhere"


def test_the_package_sets_its_cache_on_import() -> None:
    assert models.__file__ is not None
    assert CACHE_SETTING in os.environ


def test_what_the_image_compiled_is_copied_once(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped, cache = tmp_path / "shipped", tmp_path / "data" / "compiled"
    shipped.mkdir()
    (shipped / "kernel.nbc").write_text("code")
    monkeypatch.setattr(compilation, "SHIPPED", shipped)
    monkeypatch.setenv(CACHE_SETTING, str(cache))
    keep_compiled_code(package)
    (shipped / "kernel.nbc").write_text("other")
    keep_compiled_code(package)
    assert [path.name for path in cache.parent.iterdir()] == ["compiled"]
    assert (cache / "kernel.nbc").read_text() == "code"


def test_a_folder_that_cannot_be_written_is_no_fault(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(compilation, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv(CACHE_SETTING, str(tmp_path / "file" / "compiled"))
    keep_compiled_code(package)


@pytest.mark.verify
def test_a_cache_that_setup_filled_is_all_that_training_needs(tmp_path: Path) -> None:
    """Two processes, since what one has compiled it does not look up again.

    They begin with what the session has compiled; the rehearsal of the image begins with nothing.
    """
    cache = tmp_path / "compiled"
    compiled = Path(os.environ[CACHE_SETTING])
    if compiled.is_dir():
        shutil.copytree(compiled, cache, ignore=shutil.ignore_patterns("*.tmp.*"))
    command = "from setwise.models.compilation import compile_ahead; compile_ahead()"
    environment = {**os.environ, CACHE_SETTING: str(cache)}
    written = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", command], check=True, env=environment)
        written.append(sorted(path.stat().st_mtime_ns for path in cache.rglob("*.nb?")))
    assert len(written[0]) > 50
    assert written[0] == written[1]
