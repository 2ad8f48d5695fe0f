"""``backup`` and ``restore``: what comes back is what was there."""

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import func, insert, select

from setwise.service.cli.backup import FORMAT
from setwise.service.stores import database as engines
from setwise.service.stores.tables import outbox_messages
from setwise.service.stores.upkeep import migrate
from tests.cli.installation import fill
from tests.cli.running import Content, content, status
from tests.database import ON_BOTH
from tests.trained import Artifacts

pytestmark = [ON_BOTH, pytest.mark.slow]


class Place:
    """Where one installation lives."""

    def __init__(self, data: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.url, self._environment = data, url, monkeypatch

    def run(self, *arguments: str) -> int:
        self._environment.setenv("SETWISE_DATA_DIR", str(self.data))
        self._environment.setenv("SETWISE_DATABASE_URL", self.url)
        return status(*arguments)

    def content(self) -> Content:
        """Return every row of every table that the database has."""
        return content(self.url)


@pytest.fixture
def here(
    database_url: str, tmp_path: Path, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> Place:
    fill(tmp_path / "here", database_url, artifacts.text)
    return Place(tmp_path / "here", database_url, monkeypatch)


@pytest.fixture
def there(
    request: pytest.FixtureRequest, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """Give an empty database of the same kind."""
    with _empty(here.url, tmp_path, request) as url:
        yield Place(tmp_path / "there", url, monkeypatch)


@contextmanager
def _empty(url: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if url.startswith("sqlite"):
        yield f"sqlite:///{folder / 'there' / 'other.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    database = server.make()
    yield database.render_as_string(hide_password=False)
    server.drop(database)


def test_everything_comes_back_as_it_was(here: Place, there: Place, tmp_path: Path) -> None:
    before = here.content()
    full = {name for name, rows in before.items() if rows}
    assert {"predictions", "annotations", "audit_events", "outbox_messages", "webhooks"} & full
    assert here.run("backup", str(tmp_path / "all.zip"), "--pepper") == 0
    assert stat.S_IMODE((tmp_path / "all.zip").stat().st_mode) == 0o600
    assert there.run("restore", str(tmp_path / "all.zip")) == 0
    assert there.content() == before
    pepper = there.data / "pepper"
    assert pepper.read_bytes() == (here.data / "pepper").read_bytes()
    assert stat.S_IMODE(pepper.stat().st_mode) == 0o600
    assert there.run("doctor") == 0  # the model loads from the restored artifacts


def test_a_restored_database_goes_on(here: Place, there: Place, tmp_path: Path) -> None:
    assert here.run("backup", str(tmp_path / "all.zip")) == 0
    assert there.run("restore", str(tmp_path / "all.zip")) == 0
    engine = engines.create(there.url)
    row = dict.fromkeys(())
    with engine.begin() as connection:
        row = dict(connection.execute(select(outbox_messages)).mappings().first() or {})
        last = connection.execute(select(func.max(outbox_messages.c.ordinal))).scalar_one()
        del row["ordinal"]
        row["id"] = "019b7a0b-0000-7000-8000-00000000ffff"
        connection.execute(insert(outbox_messages), row)
        ordinals = connection.execute(select(outbox_messages.c.ordinal)).scalars().all()
    assert max(ordinals) > last
    assert migrate.check(engine).ok
    engine.dispose()


def test_what_is_there_is_replaced_only_on_request(
    here: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "all.zip")
    before = here.content()
    assert here.run("backup", archive) == 0
    assert here.run("backup", archive) == 2
    assert here.run("key", "create", "--role", "client", "--name", "late") == 0
    changed = here.content()
    assert here.run("restore", archive) == 2
    assert "--force" in capsys.readouterr().err
    assert here.content() == changed != before
    assert here.run("restore", archive, "--force") == 0
    assert here.content() == before


def test_artifacts_and_pepper_may_be_left_out(
    here: Place, there: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert here.run("backup", str(tmp_path / "rows.zip"), "--no-artifacts", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["artifacts"] == []
    assert told["pepper"] is False
    assert told["rows"] == {
        name: len(rows) for name, rows in here.content().items() if name != "alembic_version"
    }
    assert there.run("restore", str(tmp_path / "rows.zip")) == 0
    assert not (there.data / "artifacts").exists()
    assert there.run("doctor") == 1  # says that the model cannot be loaded


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"revision": "9999"}, "does not know"),
        ({"format": FORMAT + 1}, "format"),
        ({"database": "oracle"}, "oracle"),
    ],
)
def test_a_backup_that_does_not_fit_is_refused(
    here: Place,
    there: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, object],
    said: str,
) -> None:
    assert here.run("backup", str(tmp_path / "all.zip")) == 0
    other = tmp_path / "other.zip"
    with ZipFile(tmp_path / "all.zip") as sound, ZipFile(other, "w") as changed:
        for name in sound.namelist():
            content = sound.read(name)
            if name == "backup.json":
                content = json.dumps(json.loads(content) | change).encode()
            changed.writestr(name, content)
    capsys.readouterr()
    assert there.run("restore", str(other)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert there.run("db", "current") == 0
    assert capsys.readouterr().out == "base\n"


def test_what_is_no_backup_or_damaged_is_refused(
    here: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.zip").write_text("no archive")
    assert here.run("backup", str(tmp_path / "all.zip")) == 0
    with ZipFile(tmp_path / "all.zip") as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    damaged = bytearray((tmp_path / "all.zip").read_bytes())
    damaged[largest.header_offset + largest.compress_size // 2 + 200] ^= 0xFF  # in its content
    (tmp_path / "damaged.zip").write_bytes(damaged)
    before = here.content()
    capsys.readouterr()
    for name in ("text.zip", "damaged.zip", "missing.zip"):
        assert here.run("restore", str(tmp_path / name), "--force") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert name in line
    assert here.content() == before


def test_another_pepper_is_not_overwritten(
    here: Place, there: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.run("backup", str(tmp_path / "all.zip"), "--pepper") == 0
    there.data.mkdir(parents=True, exist_ok=True)
    (there.data / "pepper").write_text("f" * 64)
    capsys.readouterr()
    assert there.run("restore", str(tmp_path / "all.zip")) == 2
    assert "differs" in capsys.readouterr().err
    assert there.run("restore", str(tmp_path / "all.zip"), "--force") == 0
    assert (there.data / "pepper").read_bytes() == (here.data / "pepper").read_bytes()
