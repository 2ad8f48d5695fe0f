"""``backup`` and ``restore``: what comes back is what was there."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import func, insert, select

from setwise.service.cli.backup import MANIFEST
from setwise.service.stores import database as engines
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.tables import outbox_messages
from tests.cli.installation import fill
from tests.cli.running import Content, facts, refusal, status
from tests.kit.databases import ON_BOTH
from tests.trained import Artifacts

pytestmark = pytest.mark.slow

UPLOAD = "jobs/1/upload/documents"


class Place:
    """Where one installation lives."""

    def __init__(self, data: Path, url: str, environment: pytest.MonkeyPatch) -> None:
        self.data, self.url, self._environment = data, url, environment

    def enter(self) -> None:
        """Let the commands that follow work here."""
        self._environment.setenv("SETWISE_DATA_DIR", str(self.data))
        self._environment.setenv("SETWISE_DATABASE_URL", self.url)

    def run(self, *arguments: str) -> int:
        self.enter()
        return status(*arguments)

    def content(self) -> Content:
        """Return every row of every table that the database has."""
        return facts(self.url)


def installed(data: Path, url: str, artifacts: Artifacts, environment: pytest.MonkeyPatch) -> Place:
    fill(data, url, artifacts.text)
    upload = data / "files" / UPLOAD
    upload.parent.mkdir(parents=True)
    upload.write_bytes(b"a document")
    return Place(data, url, environment)


@pytest.fixture
def here(
    sqlite_url: str, tmp_path: Path, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> Place:
    return installed(tmp_path / "here", sqlite_url, artifacts, monkeypatch)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path / "there", f"sqlite:///{tmp_path / 'there' / 'db'}", monkeypatch)


@ON_BOTH
def test_everything_comes_back_as_it_was_and_goes_on(
    database_url: str,
    empty_database_url: str,
    tmp_path: Path,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = installed(tmp_path / "here", database_url, artifacts, monkeypatch)
    there = Place(tmp_path / "there", empty_database_url, monkeypatch)
    before = here.content()
    full = {name for name, rows in before.items() if rows}
    assert {"predictions", "annotations", "audit_events", "outbox_messages"} <= full
    archive = tmp_path / "all.zip"
    assert here.run("backup", str(archive)) == 0
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert there.run("restore", str(archive)) == 0
    assert there.content() == before
    for name in ("pepper", f"files/{UPLOAD}"):
        copy = there.data / name
        assert copy.read_bytes() == (here.data / name).read_bytes()
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert there.run("doctor") == 0  # the model loads from the restored artifacts
    engine = engines.create(there.url)
    with engine.begin() as connection:
        message = dict(connection.execute(select(outbox_messages)).mappings().first() or {})
        last = connection.execute(select(func.max(outbox_messages.c.ordinal))).scalar_one()
        del message["ordinal"]
        message["id"] = "019b7a0b-0000-7000-8000-00000000ffff"
        connection.execute(insert(outbox_messages), message)
        newest = connection.execute(select(func.max(outbox_messages.c.ordinal))).scalar_one()
    engine.dispose()
    assert newest > last


def test_models_and_files_come_from_and_go_to_object_stores(
    here: Place, there: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here.run("backup", str(tmp_path / "1.zip")) == 0
    for name, setting in (("artifacts", "ARTIFACT_URL"), ("files", "FILES_URL")):
        monkeypatch.setenv(f"SETWISE_{setting}", f"memory://backup/{name}")
    assert there.run("restore", str(tmp_path / "1.zip")) == 0
    assert there.run("backup", str(tmp_path / "2.zip")) == 0
    assert there.run("doctor") == 0
    with ZipFile(tmp_path / "1.zip") as first, ZipFile(tmp_path / "2.zip") as second:
        names = {name for name in first.namelist() if "/" in name}
        assert f"files/{UPLOAD}" in names
        assert names < set(second.namelist())
        assert all(first.read(name) == second.read(name) for name in names)


@ON_BOTH
def test_what_is_there_is_replaced_only_on_request(
    database_url: str,
    tmp_path: Path,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = installed(tmp_path / "here", database_url, artifacts, monkeypatch)
    archive = str(tmp_path / "all.zip")
    before = here.content()
    assert here.run("backup", archive, "--no-files") == 0
    assert "exists already" in refusal(capsys, "backup", archive)
    assert here.run("key", "create", "--role", "client", "--name", "late") == 0
    changed = here.content()
    assert "--force" in refusal(capsys, "restore", archive)
    assert here.content() == changed != before
    assert here.run("restore", archive, "--force") == 0
    assert here.content() == before


def _rewritten(change: Callable[[dict[str, bytes]], None]) -> Callable[[Path, Path], None]:
    def write(sound: Path, other: Path) -> None:
        with ZipFile(sound) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members)
        with ZipFile(other, "w") as archive:
            for name, member in members.items():
                archive.writestr(name, member)

    return write


def _stating(**facts: object) -> Callable[[Path, Path], None]:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]) | facts).encode()

    return _rewritten(change)


def _damaged(sound: Path, other: Path) -> None:
    with ZipFile(sound) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    written = bytearray(sound.read_bytes())
    written[largest.header_offset + largest.compress_size // 2 + 200] ^= 0xFF  # in its content
    other.write_bytes(written)


def _locked(sound: Path, other: Path) -> None:
    """Claim that each member is encrypted."""
    written = bytearray(sound.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = written.find(signature)
        while at >= 0:
            written[at + place] |= 1
            at = written.find(signature, at + 1)
    other.write_bytes(written)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda _, other: other.write_text("no archive"), "no backup"),
        (lambda sound, other: other.write_bytes(sound.read_bytes()[:-100]), "no backup"),
        (_rewritten(lambda members: members.clear()), "no backup"),
        (_damaged, "damaged"),
        (_stating(revision="9999"), "or newer"),
        (_stating(revision=None), "or newer"),
        (_locked, "no backup"),
        (_rewritten(lambda members: members.pop("database")), "no database"),
        (_rewritten(lambda members: members.update(database=b"x" * 9_000)), "is damaged"),
        (_rewritten(lambda members: members.update(database=b"")), "is damaged"),
        (_rewritten(lambda members: members.update({"files/../../x": b""})), "other files"),
        (_rewritten(lambda members: members.update({"files/./x": b""})), "other files"),
        (_rewritten(lambda members: members.update({"files//etc/x": b""})), "other files"),
        (_rewritten(lambda members: members.update({"/etc/x": b""})), "other files"),
        (_rewritten(lambda members: members.update({"files/*/x": b""})), "other files"),
        (_rewritten(lambda members: members.update({"other": b""})), "other files"),
    ],
)
def test_what_is_damaged_or_foreign_is_refused_and_changes_nothing(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Path, Path], None],
    reason: str,
) -> None:
    assert status("key", "create", "--role", "client", "--name", "first") == 0
    assert status("backup", str(tmp_path / "sound.zip")) == 0
    write(tmp_path / "sound.zip", tmp_path / "other.zip")
    pepper = (folder / "pepper").read_bytes()
    line = refusal(capsys, "restore", str(tmp_path / "other.zip"), "--force")
    assert "other.zip: cannot be restored: " in line
    assert reason in line
    assert (folder / "pepper").read_bytes() == pepper
    assert not (tmp_path.parent / "x").exists()
    assert status("key", "list") == 0
    assert "first" in capsys.readouterr().out


def test_a_damaged_database_file_is_put_aside(here: Place, tmp_path: Path) -> None:
    archive, before = str(tmp_path / "all.zip"), here.content()
    assert here.run("backup", archive) == 0
    file = sqlite_path(engines.create(here.url))
    file.write_bytes(b"no database" * 1_000)
    assert here.run("restore", archive, "--force") == 0
    assert here.content() == before
    assert file.with_name(f"{file.name}.damaged").read_bytes() == b"no database" * 1_000


def test_a_damaged_artifact_is_replaced(here: Place, tmp_path: Path) -> None:
    archive = str(tmp_path / "all.zip")
    assert here.run("backup", archive) == 0
    (folder,) = (here.data / "artifacts").iterdir()
    (folder / "manifest.json").write_bytes(b"{}")
    (folder / "planted").write_bytes(b"")
    assert here.run("doctor") == 1
    assert here.run("restore", archive, "--force") == 0
    assert here.run("doctor") == 0


def test_a_missing_or_empty_thing_is_named(
    there: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there.enter()
    assert "missing.zip" in refusal(capsys, "restore", str(tmp_path / "missing.zip"))
    assert "nothing to back up" in refusal(capsys, "backup", str(tmp_path / "new.zip"))
    assert [path.name for path in tmp_path.iterdir()] == []


def test_another_pepper_is_overwritten_only_on_request(
    here: Place, there: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "all.zip")
    assert here.run("backup", archive) == 0
    there.data.mkdir()
    (there.data / "pepper").write_text("f" * 64)
    there.enter()
    assert "differs" in refusal(capsys, "restore", archive)
    assert there.run("restore", archive, "--force") == 0
    assert (there.data / "pepper").read_bytes() == (here.data / "pepper").read_bytes()
