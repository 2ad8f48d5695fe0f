"""Cache folders of compiled functions, one per state of the sources.

numba only checks whether the file of the cached function has changed. A function that calls one in
another file would keep using the old callee after an edit there, so the folder name has a digest of
all files with compiled functions.

`compile_ahead` fills the cache: `make setup` and the image's build call it.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["compile_ahead", "keep_compiled_code"]

CACHE_SETTING = "NUMBA_CACHE_DIR"
_PREFIX = "compiled-"
SHIPPED = Path(sys.prefix) / "share" / "setwise" / "compiled"
"""What the image's build compiled. It cannot be used in place: numba wants a folder to write to."""

_NOTES = 300  # enough for every step of training; what is compiled does not depend on the number
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
        _copy_shipped(Path(os.environ[CACHE_SETTING]))
        return
    folder = package / "__pycache__" / f"{_PREFIX}{_digest(package)}"
    os.environ[CACHE_SETTING] = str(folder)
    if not folder.exists():
        _forget_old(folder.parent)


def compile_ahead(*, mixtures: bool = False) -> None:
    """Train and use small models, so that numba caches what they call.

    Parameters
    ----------
    mixtures : bool
        Compile the mixtures of methods ``"cbm"`` and ``"cbm-rerank"`` too.
    """
    from setwise.models.data.dataset_files import read_dataset  # noqa: PLC0415 -- after the folder is set
    from setwise.models.demo_notes import read_notes, write_jsonl  # noqa: PLC0415
    from setwise.models.options import TrainingOptions  # noqa: PLC0415
    from setwise.models.storage.artifacts import load, save  # noqa: PLC0415
    from setwise.models.training import train  # noqa: PLC0415

    rounds = [TrainingOptions(preset="fast")]
    if mixtures:
        rounds += [
            TrainingOptions(method="cbm-rerank", preset="best"),
            TrainingOptions(method="cbm-rerank", preset="paper", optimize="f1"),
            TrainingOptions(preset="paper", labels_by="clusters"),
        ]
    with tempfile.TemporaryDirectory() as folder:
        notes, model = Path(folder) / "notes.jsonl", Path(folder) / "model"
        write_jsonl(read_notes()[:_NOTES], notes)
        dataset = read_dataset(notes)
        for options in rounds:
            save(train(dataset, options), model)
            load(model).predict_texts(["Fever and cough for five days \N{EN DASH} no rash."])
            shutil.rmtree(model)


def _copy_shipped(folder: Path) -> None:
    """Copy what the image compiled to an empty cache folder."""
    if folder.exists() or not SHIPPED.is_dir() or folder == SHIPPED:
        return
    draft = folder.with_name(f".{folder.name}-{os.getpid()}")
    with suppress(OSError):  # without the copy, functions are compiled when they are first called
        shutil.copytree(SHIPPED, draft)
        draft.rename(folder)  # another process may have been faster
    shutil.rmtree(draft, ignore_errors=True)


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
