"""``text erase|purge``."""

from pathlib import Path

import pytest

from setwise.service.cli import main
from setwise.service.stores.database import create
from setwise.service.stores.upkeep import migrate


def test_an_unknown_document_is_not_reported_as_erased(
    tmp_path: Path,
    sqlite_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SETWISE_DATABASE_URL", sqlite_url)
    migrate.upgrade(create(sqlite_url))
    with pytest.raises(SystemExit) as ended:
        main(["text", "erase", "note-71"])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "setwise: no stored document has the id 'note-71'; nothing was erased. "
        "Give the id that its sender gave it\n"
    )
