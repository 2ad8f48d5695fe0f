"""Addresses of databases."""

from pathlib import Path
from urllib.parse import quote


def sqlite_url(path: Path) -> str:
    """Return the URL of an SQLite file, whatever its path holds.

    >>> sqlite_url(Path("/data/50%20?/setwise.db"))
    'sqlite:////data/50%2520%3F/setwise.db'
    """
    return f"sqlite:///{quote(str(path))}"
