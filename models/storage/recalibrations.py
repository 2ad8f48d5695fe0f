"""Saves and loads recalibrations, in folders beside their model."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from setwise.models.calibration.recalibration import Recalibration
from setwise.models.storage.sealed_folder import (
    MANIFEST,
    ArtifactError,
    Part,
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
class KeptRecalibration:
    """A recalibration and the versions of the model it corrects."""

    # model_version and own_version: digests of the model and of its set calibrator.
    model_version: str
    own_version: str
    recalibration: Recalibration

    @cached_property
    def version(self) -> str:
        """Digest of the content, 12 hexadecimal digits."""
        return digest_of({name: sha256(file) for name, file in _files(self).items()})


def save_recalibration(kept: KeptRecalibration, folder: str | Path) -> None:
    """Write a recalibration to a new folder atomically.

    Raises
    ------
    ArtifactError
        If the folder exists.
    """
    target = Path(folder).resolve()
    if target.exists():
        raise ArtifactError(f"{target}: is in the way; choose another folder")
    files = _files(kept)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": kept.version,
        "model_version": kept.model_version,
        "own_version": kept.own_version,
        "files": listing(files),
    }
    write_folder(target, {**files, MANIFEST: sealed(manifest)})


def load_recalibration(folder: str | Path) -> KeptRecalibration:
    """Load a recalibration; nothing in it is executed.

    Raises
    ------
    ArtifactError
        If the folder is not an intact recalibration; the message names the file.
    """
    root = Path(folder)
    manifest = read_manifest(root, FORMAT, FORMAT_VERSION)
    parts = Parts(root, read_files(root, manifest))
    kept = parts.build(_PART, _kept)
    parts.finish()
    if kept.version != manifest.get("version"):
        raise ArtifactError(f"{root / MANIFEST}: its version is not that of its files")
    return kept


def _files(kept: KeptRecalibration) -> dict[str, bytes]:
    arrays, settings = kept.recalibration.get_state()
    whose = {"model_version": kept.model_version, "own_version": kept.own_version}
    return serialize({_PART: Part(arrays, {**settings, **whose})})


def _kept(arrays: dict[str, Any], settings: dict[str, Any]) -> KeptRecalibration:
    return KeptRecalibration(
        str(settings["model_version"]),
        str(settings["own_version"]),
        Recalibration.from_state(arrays, settings),
    )
