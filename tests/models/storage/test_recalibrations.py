"""Recalibrations on disk: what is saved comes back, and nothing that was touched is loaded."""

import json
from pathlib import Path

import numpy as np
import pytest

from setwise.models.calibration.recalibration import ConfidenceCorrection
from setwise.models.storage.recalibrations import (
    StoredRecalibration,
    load_recalibration,
    save_recalibration,
)
from setwise.models.storage.sealed_folder import MANIFEST, ArtifactError, sealed


def kept(intercept: float = -0.25, model: str = "3f9c0b7a1d2e") -> StoredRecalibration:
    draw = np.random.default_rng(4)
    correction = ConfidenceCorrection(intercept, draw.normal(size=5), draw.normal(size=7))
    return StoredRecalibration(model, "90ab12cd34ef", correction)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_recalibration(kept(), tmp_path / "kept")
    return tmp_path / "kept"


def test_a_recalibration_comes_back(folder: Path) -> None:
    recalibration, expected = load_recalibration(folder), kept()
    assert (recalibration.model_version, recalibration.own_version) == (
        "3f9c0b7a1d2e",
        "90ab12cd34ef",
    )
    assert recalibration.version == expected.version
    assert recalibration.recalibration.intercept == -0.25
    assert (recalibration.recalibration.weights == expected.recalibration.weights).all()
    assert (recalibration.recalibration.label_weights == expected.recalibration.label_weights).all()


def test_the_version_is_the_content_and_the_model_it_belongs_to() -> None:
    assert kept().version == kept().version
    assert len({kept().version, kept(-0.5).version, kept(model="another").version}) == 3


def test_a_folder_that_is_taken_is_left_alone(folder: Path) -> None:
    with pytest.raises(ArtifactError, match="in the way"):
        save_recalibration(kept(), folder)


@pytest.mark.parametrize("name", ["recalibration.json", "recalibration.safetensors", MANIFEST])
def test_whatever_is_touched_is_refused_by_name(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=name):
        load_recalibration(folder)


def test_what_is_missing_or_foreign_is_refused(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(ArtifactError, match="not part of the artifact"):
        load_recalibration(folder)
    (folder / "notes.txt").unlink()
    (folder / "recalibration.safetensors").unlink()
    with pytest.raises(ArtifactError, match="missing"):
        load_recalibration(folder)
    with pytest.raises(ArtifactError, match="is no folder"):
        load_recalibration(folder / "nowhere")


def test_a_version_that_is_not_the_files_is_refused(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["manifest_sha256"]
    (folder / MANIFEST).write_bytes(sealed({**manifest, "version": "0" * 12}))
    with pytest.raises(ArtifactError, match="its version is not that of its files"):
        load_recalibration(folder)
