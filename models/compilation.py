"""Cache folders of compiled functions, one per state of the sources.

numba only checks whether the file of the cached function has changed. A function that calls one in
another file would keep using the old callee after an edit there, so the folder name has a digest of
all files with compiled functions.
"""

import hashlib
import os
import shutil
from pathlib import Path

__all__ = ["keep_compiled_code"]

CACHE_SETTING = "NUMBA_CACHE_DIR"
_PREFIX = "compiled-"
_KEPT = 2  # folders of earlier states, so that switching branches needs no compilation


def keep_compiled_code(package: Path) -> None:
    """Set numba's cache folder; call it before importing numba.

    A folder set by the user is kept. If the package is not writable, numba falls back to a folder
    of the user, where only edited files are recompiled.

    Parameters
    ----------
    package : Path
        The package folder with the sources.
    """
    if CACHE_SETTING in os.environ:
        return
    folder = package / "__pycache__" / f"{_PREFIX}{_digest(package)}"
    os.environ[CACHE_SETTING] = str(folder)
    if not folder.exists():
        _forget_old(folder.parent)


def _digest(package: Path) -> str:
    """Return a digest of the sources below ``package`` that compile functions."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if b"njit" in source:
            digest.update(file.relative_to(package).as_posix().encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


def _forget_old(cache: Path) -> None:
    for folder in sorted(cache.glob(f"{_PREFIX}*"), key=_changed_at)[:-_KEPT]:
        # Another process may be deleting it too; leftovers are deleted next time.
        shutil.rmtree(folder, ignore_errors=True)


def _changed_at(folder: Path) -> float:
    """Return a folder's modification time, 0 if it was removed."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
