"""Saves and loads recalibrations, in folders beside their model."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from setwise.models.calibration.recalibration import ConfidenceCorrection
from setwise.models.storage.sealed_folder import (
    MANIFEST,
    ArtifactError,
    ArtifactPart,
    Parts,
    digest_of,
    listing,
    read_files,
    read_manifest,
    sealed,
    serialize,
    sha256,
    write_folder,
)

FORMAT = "setwise-recalibration"
FORMAT_VERSION = 1
_PART = "recalibration"


@dataclass(frozen=True, eq=False)
class StoredRecalibration:
    """A recalibration and the versions of the model it corrects."""

    # model_version and own_version: digests of the model and of its set calibrator.
    model_version: str
    own_version: str
    recalibration: ConfidenceCorrection

    @cached_property
    def version(self) -> str:
        """Digest of the content, 12 hexadecimal digits."""
        return digest_of({name: sha256(file) for name, file in _files(self).items()})


def save_recalibration(recalibration: StoredRecalibration, folder: str | Path) -> None:
    """Write a recalibration to a new folder atomically.

    Raises
    ------
    ArtifactError
        If the folder exists.
    """
    target = Path(folder).resolve()
    if target.exists():
        raise ArtifactError(f"{target}: is in the way; choose another folder")
    files = _files(recalibration)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": recalibration.version,
        "model_version": recalibration.model_version,
        "own_version": recalibration.own_version,
        "files": listing(files),
    }
    write_folder(target, {**files, MANIFEST: sealed(manifest)})


def load_recalibration(folder: str | Path) -> StoredRecalibration:
    """Load a recalibration; nothing in it is executed.

    Raises
    ------
    ArtifactError
        If the folder is not an intact recalibration; the message names the file.
    """
    root = Path(folder)
    manifest = read_manifest(root, FORMAT, FORMAT_VERSION)
    parts = Parts(root, read_files(root, manifest))
    recalibration = parts.build(_PART, _stored)
    parts.finish()
    if recalibration.version != manifest.get("version"):
        raise ArtifactError(f"{root / MANIFEST}: its version is not that of its files")
    return recalibration


def _files(stored: StoredRecalibration) -> dict[str, bytes]:
    arrays, settings = stored.recalibration.get_state()
    whose = {"model_version": stored.model_version, "own_version": stored.own_version}
    return serialize({_PART: ArtifactPart(arrays, {**settings, **whose})})


def _stored(arrays: dict[str, Any], settings: dict[str, Any]) -> StoredRecalibration:
    return StoredRecalibration(
        str(settings["model_version"]),
        str(settings["own_version"]),
        ConfidenceCorrection.from_state(arrays, settings),
    )
