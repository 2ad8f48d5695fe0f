"""Folders of arrays and JSON with a checked manifest.

Each part has a ``.json`` file of settings and, if it has arrays, a ``.safetensors`` file.
``manifest.json`` lists every file with its size and SHA-256 and has a digest of itself. Reading
executes nothing. The digests detect damage and mix-ups; they are not a signature and do not protect
against a forged manifest.
"""

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 64 * 2**20  # enough for a hundred thousand long label names
_FILE_NAME = re.compile(r"[a-z_]+(\.xgboost)?\.(json|safetensors)")

Arrays = dict[str, NDArray[Any]]

# What a part raises if its file does not suit it.
_MISFITS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
Built = TypeVar("Built")


class ArtifactError(ValueError):
    """A folder is not a readable artifact or cannot become one."""


class ArtifactPart(NamedTuple):
    """A part of a fitted object: named arrays and JSON settings."""

    arrays: Mapping[str, NDArray[Any]]
    settings: dict[str, Any]


# Writing


def serialize(parts: Mapping[str, ArtifactPart]) -> dict[str, bytes]:
    """Return the content of all files but the manifest, deterministically."""
    files: dict[str, bytes] = {}
    for name, (arrays, settings) in parts.items():
        plain = {key: value for key, value in settings.items() if key != "xgboost"}
        files[f"{name}.json"] = canonical(plain)
        if "xgboost" in settings:
            files[f"{name}.xgboost.json"] = canonical(settings["xgboost"])
        if arrays:
            contiguous = {key: np.ascontiguousarray(value) for key, value in arrays.items()}
            files[f"{name}.safetensors"] = safetensors.numpy.save(contiguous)
    return files


def canonical(document: object) -> bytes:
    """Return the canonical JSON of a document: equal documents, equal bytes."""
    text = json.dumps(
        document, ensure_ascii=False, allow_nan=False, sort_keys=True, indent=1, default=_plain
    )
    return text.encode("utf-8", "surrogatepass") + b"\n"


def sha256(content: bytes) -> str:
    """Return the digest of a file, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(digests: Mapping[str, str]) -> str:
    """Return the version of files from their digests: 12 hexadecimal digits."""
    lines = "".join(f"{name} {digests[name]}\n" for name in sorted(digests))
    return sha256(lines.encode())[:12]


def listing(files: Mapping[str, bytes]) -> dict[str, dict[str, object]]:
    """Return the manifest's list of files, with sizes and digests."""
    return {
        name: {"bytes": len(content), "sha256": sha256(content)} for name, content in files.items()
    }


def sealed(document: Mapping[str, Any]) -> bytes:
    """Return the manifest with a digest of its content."""
    seal = sha256(canonical(document))
    return canonical({**document, "manifest_sha256": seal})


def write_folder(target: Path, files: Mapping[str, bytes], *, replaced: bool = False) -> None:
    """Write files to a folder atomically.

    They are written beside the folder, flushed to disk and moved into place by a rename, so that a
    crash leaves the previous content.

    Parameters
    ----------
    target : Path
        Must not exist, or be empty, unless ``replaced``.
    files : mapping from str to bytes
    replaced : bool, default False
        Whether to replace an existing folder.
    """
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}"
    try:
        temporary.mkdir()
        for name, content in files.items():
            _write(temporary / name, content)
        _sync(temporary)
        if replaced:
            retired = target.parent / f".{target.name}.{secrets.token_hex(6)}"
            target.rename(retired)
            temporary.rename(target)
            shutil.rmtree(retired)
        else:
            temporary.rename(target)
        _sync(target.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and error.errno and not error.filename:  # such as a full disk
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a setting of type {type(value).__name__} does not fit JSON")


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Reading


def read_manifest(root: Path, format_name: str, format_version: int) -> dict[str, Any]:
    """Return a verified manifest.

    Raises
    ------
    ArtifactError
        If it is missing, damaged, or of another format.
    """
    path = root / MANIFEST
    if not root.is_dir():
        raise ArtifactError(f"{root}: is no folder; name the folder that training wrote")
    if not os.path.lexists(path):
        raise ArtifactError(f"{path}: missing; this folder is no artifact")
    raw = _read_file(path, None)
    document = _parse_json(path, raw)
    if not isinstance(document, dict) or document.get("format") != format_name:
        raise ArtifactError(f"{path}: is not the manifest of a {format_name.replace('-', ' ')}")
    if document.get("format_version") != format_version:
        raise ArtifactError(
            f"{path}: has format version {document.get('format_version')!r}, this release reads "
            f"{format_version}; train again or use the release that wrote it"
        )
    body = {key: value for key, value in document.items() if key != "manifest_sha256"}
    if raw != sealed(body):
        raise ArtifactError(f"{path}: damaged; it does not match its own checksum")
    _check_listing(path, document.get("files"))
    return document


def read_files(root: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the checked content of all files that a manifest lists.

    Raises
    ------
    ArtifactError
        If a file is missing, unexpected or damaged; the message names it.
    """
    listed = manifest["files"]
    present = {entry.name for entry in os.scandir(root)}
    for name in sorted(set(listed) - present):
        raise ArtifactError(f"{root / name}: missing; the manifest lists it")
    for name in sorted(present - set(listed) - {MANIFEST}):
        raise ArtifactError(f"{root / name}: not part of the artifact; remove it")
    files = {name: _read_file(root / name, entry["bytes"]) for name, entry in listed.items()}
    for name, entry in listed.items():
        if sha256(files[name]) != entry["sha256"]:
            raise ArtifactError(f"{root / name}: damaged; its checksum differs from the manifest's")
    return files


def _check_listing(path: Path, listed: object) -> None:
    if not isinstance(listed, dict) or not listed:
        raise ArtifactError(f"{path}: lists no files")
    for name, entry in listed.items():
        if not _FILE_NAME.fullmatch(name) or name == MANIFEST:
            raise ArtifactError(f"{path}: lists {name!r}, which is no name of an artifact's file")
        sound = (
            isinstance(entry, dict)
            and isinstance(entry.get("bytes"), int)
            and isinstance(entry.get("sha256"), str)
        )
        if not sound:
            raise ArtifactError(f"{path}: lists {name!r} without size and checksum")


def _read_file(path: Path, size: int | None) -> bytes:
    """Read a regular file of the size in the manifest; reject links."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as fault:
        reason = "is a link" if path.is_symlink() else fault.strerror
        raise ArtifactError(f"{path}: cannot be read: {reason}") from fault
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"{path}: is no regular file")
        if size is None and status.st_size > _MAX_MANIFEST_BYTES:
            raise ArtifactError(f"{path}: is too large for a manifest ({status.st_size} bytes)")
        if size is not None and status.st_size != size:
            raise ArtifactError(f"{path}: has {status.st_size} bytes instead of {size}")
        return file.read()


def _parse_json(path: Path, raw: bytes) -> Any:  # noqa: ANN401  # any JSON value
    try:
        return json.loads(raw.decode("utf-8"), parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as fault:
        raise ArtifactError(f"{path}: is not valid JSON: {fault}") from fault


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


class Parts:
    """The checked files of an artifact, read part by part."""

    def __init__(self, root: Path, files: Mapping[str, bytes]) -> None:
        self.root = root
        self._files = files
        self._unread = set(files)

    def build(self, name: str, make: Callable[[Arrays, dict[str, Any]], Built]) -> Built:
        """Build a part from its arrays and settings; errors name the part."""
        settings = self._document(f"{name}.json")
        if f"{name}.xgboost.json" in self._files:
            settings["xgboost"] = self._document(f"{name}.xgboost.json")
        arrays = self._arrays(f"{name}.safetensors")
        try:
            return make(arrays, settings)
        except KeyError as fault:
            raise ArtifactError(f"{self.root}: part {name!r} lacks {fault}") from fault
        except _MISFITS as fault:
            raise ArtifactError(f"{self.root}: part {name!r} does not fit: {fault}") from fault

    def has(self, name: str) -> bool:
        """Return whether the part exists."""
        return f"{name}.json" in self._files

    def finish(self) -> None:
        """Raise an error for files that no part has read."""
        for name in sorted(self._unread):
            raise ArtifactError(f"{self.root / name}: belongs to no part of this model")

    def _document(self, name: str) -> dict[str, Any]:
        path = self.root / name
        if name not in self._files:
            raise ArtifactError(f"{path}: missing; the model needs it")
        self._unread.discard(name)
        document = _parse_json(path, self._files[name])
        if not isinstance(document, dict):
            raise ArtifactError(f"{path}: holds no JSON object")
        return document

    def _arrays(self, name: str) -> Arrays:
        if name not in self._files:
            return {}
        self._unread.discard(name)
        try:
            stored = safetensors.numpy.load(self._files[name])
            # Copies, because numba would recompile for read-only arrays.
            return {key: np.array(value) for key, value in stored.items()}
        except safetensors.SafetensorError as fault:
            raise ArtifactError(f"{self.root / name}: is no safetensors file: {fault}") from fault
        except _MISFITS as fault:  # a type or a number of dimensions that numpy lacks
            raise ArtifactError(
                f"{self.root / name}: holds an array that cannot be read: {fault!r}"
            ) from fault
