"""Store model artifacts by content digest, in a folder or object store."""

# ruff: noqa: PLC0415 -- numpy, scikit-learn and xgboost import slowly, and most commands that build
# the service load no model

import errno
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fsspec.implementations.local import LocalFileSystem

from setwise.models.data.archives import UNREADABLE
from setwise.service.domain import errors
from setwise.service.domain.models import ModelVersion
from setwise.service.runtime.object_stores import open_store

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.predictor import SetPredictor
    from setwise.models.storage.recalibrations import StoredRecalibration

MANIFEST = "manifest.json"
"""Uploaded last, so that a partial upload is never mistaken for an artifact."""


Check = Callable[[Path], object]
"""Reads a folder; raises if it is invalid."""

CALIBRATORS = "calibrators"
"""Folder of calibrators learnt from reviews, beside the folders of models."""

LONGEST_SUMMARY = 100_000
"""Most characters that a list of models shows of one."""

MOST_FILES = 1_000
LARGEST_ARTIFACT = 20_000_000_000
"""Most bytes that a ZIP file may unpack to."""


class FolderOrObjectStore:
    """An `ArtifactStore` on any file system that fsspec supports.

    ``url``: Folder, or fsspec URL such as ``s3://bucket/models``.
    ``cache``: Folder for local copies of a remote store.
    """

    def __init__(
        self,
        url: str,
        *,
        cache: Path,
        new_id: Callable[[], str],
        now: Callable[[], datetime],
    ) -> None:
        self._files, self._root = open_store(url)
        self._local = Path(self._root) if isinstance(self._files, LocalFileSystem) else cache
        self._remote = not isinstance(self._files, LocalFileSystem)
        self._new_id = new_id
        self._now = now

    def add(self, source: str) -> ModelVersion:
        """Verify the artifact folder ``source``, copy it and describe it.

        Raises `InvalidRequest` if it is not a valid artifact.
        """
        _summary(_verified(source))  # before copying: a wrong folder may be large
        with self._incoming() as incoming:
            shutil.copytree(source, incoming)
            predictor = _verified(incoming)  # verify what is actually stored
            location = f"{predictor.version}-{predictor.calibrator_version}"
            self._store(incoming, location, _verified)
        return ModelVersion(
            id=self._new_id(),
            version=predictor.version,
            location=location,
            summary=_summary(predictor),
            active=False,
            created_at=self._now(),
        )

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        """Unpack an artifact folder from a ZIP file, and add it.

        Raises `InvalidRequest` if it is not a ZIP file, is too large, or contains no valid
        artifact.
        """
        with self._incoming() as folder:
            _unpack(archive, folder)
            manifests = sorted(folder.rglob(MANIFEST), key=lambda path: len(path.parts))
            return self.add(str(manifests[0].parent if manifests else folder))

    def load(self, location: str) -> "SetPredictor":
        """Return the model at ``location``, downloaded first from a remote store.

        Raises `ModelUnavailable` if it is missing or damaged.
        """
        try:
            return _verified(self._folder(location, _verified))
        except (errors.InvalidRequest, OSError) as error:
            raise errors.ModelUnavailable(
                f"The model {location} cannot be loaded: {error}"
            ) from error

    def add_calibrator(self, recalibration: "StoredRecalibration") -> str:
        """Store a calibrator under the digest of its content; return its location."""
        from setwise.models.storage.recalibrations import load_recalibration, save_recalibration

        location = f"{CALIBRATORS}/{recalibration.model_version}-{recalibration.version}"
        with self._incoming() as incoming:
            save_recalibration(recalibration, incoming)
            self._store(incoming, location, load_recalibration)
        return location

    def load_calibrator(self, location: str) -> "StoredRecalibration":
        """Return the calibrator at ``location``, downloaded first from a remote store.

        Raises `CalibrationDamaged` if it is missing or damaged.
        """
        from setwise.models.storage.recalibrations import load_recalibration
        from setwise.models.storage.sealed_folder import ArtifactError

        try:
            return load_recalibration(self._folder(location, load_recalibration))
        except (ArtifactError, OSError) as error:
            raise errors.CalibrationDamaged(
                f"The calibrator {location} cannot be loaded: {error}"
            ) from error

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        """Return the rows that a model was calibrated on; None without any.

        Raises `ModelDamaged` if the artifact is missing or damaged.
        """
        from setwise.models.storage.artifacts import read_calibration_rows
        from setwise.models.storage.sealed_folder import ArtifactError

        try:
            return read_calibration_rows(self._folder(model.location, _verified))
        except (ArtifactError, errors.InvalidRequest, OSError) as error:
            raise errors.ModelDamaged(
                f"The model {model.location} cannot be read: {error}"
            ) from error

    @contextmanager
    def _incoming(self) -> Iterator[Path]:
        """Yield a new folder's name, which is gone after the block."""
        self._local.mkdir(parents=True, exist_ok=True)
        folder = self._local / f".incoming-{self._new_id()}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, location: str, check: Check) -> Path:
        """Return a local folder, downloaded first from a remote store."""
        folder = self._local / location
        if self._remote and not _is_sound(folder, check):
            self._download(location, check)
        return folder

    def _store(self, incoming: Path, location: str, check: Check) -> None:
        if self._remote:
            self._upload(incoming, location)
        self._keep(incoming, location, check)

    def _keep(self, incoming: Path, location: str, check: Check) -> None:
        target = self._local / location
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            incoming.rename(target)
        except OSError:
            # Rename fails if the folder has content. The same digest means the same content, unless
            # the folder is damaged: then replace it with the sound copy.
            if not target.is_dir():
                raise
            if not _is_sound(target, check):
                damaged = self._local / f".incoming-{self._new_id()}"
                target.rename(damaged)
                incoming.rename(target)
                shutil.rmtree(damaged, ignore_errors=True)

    def _upload(self, folder: Path, location: str) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        files.sort(key=lambda path: path.name == MANIFEST)
        for path in files:
            target = f"{self._root}/{location}/{path.relative_to(folder).as_posix()}"
            self._files.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            self._files.put_file(str(path), target)

    def _download(self, location: str, check: Check) -> None:
        with self._incoming() as incoming:
            incoming.mkdir()
            for address in self._files.find(f"{self._root}/{location}"):
                relative = address.rsplit(f"/{location}/", 1)[1]
                target = incoming / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(address, str(target))
            check(incoming)  # an incomplete artifact must not stay in the cache
            self._keep(incoming, location, check)


_UNREADABLE: tuple[type[Exception], ...] = (
    *UNREADABLE,
    FileExistsError,  # the same name for a file and a folder
    NotADirectoryError,
    IsADirectoryError,
)
"""Errors of unpacking a bad archive."""

_BAD_NAMES_AND_OFFSETS = {
    None,  # damaged data, see above
    errno.EINVAL,  # an offset before the start of a file on disk
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
"""Numbers of system errors that the archive is to blame for, not the disk."""


def _unpack(archive: BinaryIO, folder: Path) -> None:
    """Unpack plain files; refuse paths outside ``folder`` and too large archives."""
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [member for member in packed.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            if len(members) > MOST_FILES or size > LARGEST_ARTIFACT:
                raise _not_an_artifact(f"{len(members)} files of {size} bytes are too much")
            for member in members:
                target = (folder / member.filename).resolve()
                if not target.is_relative_to(folder.resolve()):
                    raise _not_an_artifact(f"{member.filename!r} leads out of it")
                target.parent.mkdir(parents=True, exist_ok=True)
                # Links become plain files with the link's target as their content.
                with packed.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except _UNREADABLE as error:
        raise _not_an_artifact(f"it cannot be unpacked: {error}") from error
    except OSError as error:
        if error.errno not in _BAD_NAMES_AND_OFFSETS:
            raise
        raise _not_an_artifact(f"it cannot be unpacked: {error}") from error


def _not_an_artifact(why: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        f"This is not an artifact in a ZIP file: {why}.", [errors.FieldFault("", why)]
    )


def _verified(folder: str | Path) -> "SetPredictor":
    from setwise.models.storage.artifacts import load
    from setwise.models.storage.sealed_folder import ArtifactError

    try:
        return load(folder)
    except (ArtifactError, OSError) as error:
        raise errors.InvalidRequest(
            f"This is not a sound artifact: {error}", [errors.FieldFault("/source", str(error))]
        ) from error


def _is_sound(folder: Path, check: Check) -> bool:
    try:
        check(folder)
    except (errors.InvalidRequest, ValueError, OSError):
        return False
    return True


def _summary(predictor: "SetPredictor") -> Mapping[str, object]:
    """Return what lists show of a model; raises `InvalidRequest` if that is too long."""
    names = ("created_at", "method", "training", "metrics")
    summary = {
        "kind": predictor.kind,
        "n_labels": len(predictor.label_names),
        "n_features": len(predictor.feature_names),
        "calibrator_version": predictor.calibrator_version,
        **({"numbers": list(predictor.numbers)} if predictor.kind == "external" else {}),
        **{key: predictor.manifest[key] for key in names if key in predictor.manifest},
    }
    sizes = {name: len(json.dumps(value)) for name, value in summary.items()}
    if sum(sizes.values()) > LONGEST_SUMMARY:
        name = max(sizes, key=sizes.__getitem__)
        why = f"its {name} take {sizes[name]:,} characters; at most {LONGEST_SUMMARY:,} are kept"
        raise errors.InvalidRequest(
            f"This is not a sound artifact: {why}.", [errors.FieldFault("/source", why)]
        )
    return summary
