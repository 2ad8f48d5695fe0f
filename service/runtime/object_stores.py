"""Open a folder or an object store by its address."""

from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
"""The extra of Setwise that brings the library for a scheme."""


def open_store(url: str) -> tuple[Any, str]:  # Any: fsspec ships no types
    """Return the file system of an address and the path inside it, without connecting.

    Raises `ValueError` if no installed library opens such addresses; the message says what to
    install.
    """
    if "://" not in url:  # a folder, whose name may hold what has a meaning in addresses
        return LocalFileSystem(), str(Path(url).expanduser().absolute())
    try:
        files, root = url_to_fs(url)
    except ImportError as error:
        scheme = url.partition("://")[0]
        extra = EXTRAS.get(scheme)
        cure = f"run pip install 'setwise[{extra}]'" if extra else str(error)
        raise ValueError(f"{scheme}:// needs a library that is not installed; {cure}") from error
    return files, str(root)


def local_folder(url: str) -> Path | None:
    """Return the folder of an address; None for an object store."""
    files, root = open_store(url)
    return Path(root) if isinstance(files, LocalFileSystem) else None
