"""Where compiled functions are kept between runs: one folder for each state of the sources.

numba asks only whether the file of the cached function has changed. A function that calls another
one in another file would go on with the old callee after an edit there, so the folder carries a
digest of every file that compiles anything.
"""

import hashlib
import os
import shutil
from pathlib import Path

__all__ = ["keep_compiled_code"]

CACHE_SETTING = "NUMBA_CACHE_DIR"
_PREFIX = "compiled-"
_KEPT = 2  # folders of earlier states: switching between two branches compiles nothing again


def keep_compiled_code(package: Path) -> None:
    """Tell numba where to keep what it compiles; to be called before numba is imported.

    A folder that the user has set stays. Where the package cannot be written to, numba falls back
    to a folder of the user's, in which only an edited file is compiled again.

    Parameters
    ----------
    package : Path
        The folder whose sources count.
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
        # Another process may be at it too; what stays behind goes next time.
        shutil.rmtree(folder, ignore_errors=True)


def _changed_at(folder: Path) -> float:
    """Return when a folder changed; one that another process has just removed is the oldest."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
