"""Where compiled functions are kept: in a folder named by the digest of their sources.

numba names a function's folder by where its source lies, so that a copied package compiles
everything again, and checks whether that one file has changed, so that a function which calls one
in another file keeps the old callee after an edit there. Both are mended by a folder that goes by
the content of all files with compiled functions. What numba writes into it is named by processor,
version of Python and argument types, so that machines of several kinds can share one.

`compile_ahead` fills the folder: `make setup` and the image's build call it.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType

import numba
from numba import njit
from numba.core import caching
from numba.misc.appdirs import AppDirs

__all__ = ["compile_ahead", "njit"]

PACKAGE = Path(__file__).resolve().parent
_PREFIX = "setwise-"
_NOTES = 300  # enough for every step of training; what is compiled does not depend on the number
_KEPT = 2  # folders of earlier states, so that switching branches needs no compilation


class SourceDigestLocator(caching.UserProvidedCacheLocator):
    """Finds the compiled functions of this package by the content of its sources.

    Functions of other packages are left to numba's own locators.
    """

    def __init__(self, function: FunctionType, file: str) -> None:
        self._source = Path(file).resolve().relative_to(PACKAGE)
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """Return the folder of the function's compiled forms."""
        return str(compiled_folder() / self._source.parent)

    def get_source_stamp(self) -> str:
        """Return what changes with the function's source: the name of the folder."""
        return compiled_folder().name

    def get_disambiguator(self) -> str:
        """Return what tells functions of the same name apart."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> "SourceDigestLocator | None":
        """Return a locator for a function of this package, None for any other."""
        if not Path(py_file).resolve().is_relative_to(PACKAGE):
            return None
        return cls(py_func, py_file)


# First, since others would answer too. A list that `NUMBA_CACHE_LOCATOR_CLASSES` names replaces it.
caching.CacheImpl._locator_classes.insert(0, SourceDigestLocator)  # noqa: SLF001  # no public way


@cache
def compiled_folder() -> Path:
    """Return the folder for what this state of the sources compiles.

    The first that can be written of: the folder that ``NUMBA_CACHE_DIR`` names, the package's own
    (an image or a package of the system cannot be written), the user's, a temporary one. One that
    is new begins with a copy of what came with the package.
    """
    name = f"{_PREFIX}{source_digest(PACKAGE)}"
    shipped = PACKAGE / "__pycache__" / name
    for parent in _parents():
        folder = parent / name
        if _can_write(folder, shipped):
            return folder
    own = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _parents() -> Iterator[Path]:
    """Yield where the folder may lie, the best place first."""
    if setting := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(setting)
    yield PACKAGE / "__pycache__"
    yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)  # type: ignore[no-untyped-call]


def _can_write(folder: Path, shipped: Path) -> bool:
    """Return whether the folder takes files, after making it if it is new."""
    try:
        if not folder.exists():
            _make(folder, shipped)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _make(folder: Path, shipped: Path) -> None:
    """Make a cache folder, with what came with the package, and delete old ones."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _forget_old(folder.parent)
    draft = folder.with_name(f".{folder.name}-{os.getpid()}")
    draft.mkdir()
    with suppress(OSError):  # another process may be faster; without the copy, numba compiles again
        if shipped.is_dir():
            shutil.copytree(shipped, draft, dirs_exist_ok=True)
        draft.rename(folder)
    shutil.rmtree(draft, ignore_errors=True)


def source_digest(package: Path) -> str:
    """Return a digest of numba's version and of the sources that compile functions.

    Parameters
    ----------
    package : Path
        The package folder with the sources.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if b"njit" in source:
            digest.update(file.relative_to(package).as_posix().encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


def _forget_old(parent: Path) -> None:
    for folder in sorted(parent.glob(f"{_PREFIX}*"), key=_changed_at)[:-_KEPT]:
        # Another process may be deleting it too; leftovers are deleted next time.
        shutil.rmtree(folder, ignore_errors=True)


def _changed_at(folder: Path) -> float:
    """Return a folder's modification time, 0 if it was removed."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


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

    rounds = [
        TrainingOptions(preset="fast"),
        TrainingOptions(preset="paper", method="br", texts_by="characters"),
    ]
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
