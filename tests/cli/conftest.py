"""What tests of commands share."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data folder of an installation with an SQLite file, for the commands."""
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SETWISE_DATABASE_URL", sqlite_url)
    return tmp_path / "data"
