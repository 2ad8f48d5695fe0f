"""Addresses of object stores."""

import importlib.util
import tomllib
from pathlib import Path

import pytest
from fsspec.registry import get_filesystem_class, known_implementations

from setwise.service import build
from setwise.service.runtime.object_stores import EXTRAS, open_store
from setwise.service.settings import BadSetting, Settings

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.mark.parametrize(("scheme", "extra"), EXTRAS.items())
def test_the_extra_of_each_scheme_brings_its_library(scheme: str, extra: str) -> None:
    library, *_ = known_implementations[scheme]["class"].split(".")
    declared = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert any(line.startswith(f"{library}>=") for line in declared[extra])
    assert importlib.util.find_spec(library) is not None  # as locked


def test_an_address_is_opened_without_connecting() -> None:
    _, root = open_store("s3://bucket/models")
    assert root == "bucket/models"


@pytest.mark.parametrize(("scheme", "extra"), EXTRAS.items())
@pytest.mark.parametrize("setting", ["artifact_url", "files_url"])
def test_a_missing_library_is_named_with_its_cure(
    scheme: str, extra: str, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(wanted: str) -> object:
        if wanted == scheme:
            raise ImportError("Install it")
        return get_filesystem_class(wanted)

    monkeypatch.setattr("fsspec.core.get_filesystem_class", missing)
    cure = rf"^SETWISE_{setting.upper()}: {scheme}://.*; run pip install 'setwise\[{extra}\]'$"
    with pytest.raises(BadSetting, match=cure):
        build.build(Settings(data_dir=tmp_path, **{setting: f"{scheme}://bucket/models"}))
