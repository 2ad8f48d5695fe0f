"""An edit to any compiled source leads to a new cache; an edit elsewhere does not."""

import os
from pathlib import Path

import pytest

from setwise import models
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
    monkeypatch.setattr(Path, "glob", lambda *_: iter([gone]))
    assert _folder(package, monkeypatch).parent == gone.parent


def test_a_folder_that_the_user_chose_stays(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_SETTING, "elsewhere")
    keep_compiled_code(package)
    assert os.environ[CACHE_SETTING] == "elsewhere"


def test_the_package_sets_its_cache_on_import() -> None:
    assert models.__file__ is not None
    assert CACHE_SETTING in os.environ
