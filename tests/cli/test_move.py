"""``db move``: everything from one database to another, or nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.predictions import Document
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import backup, migrate, revisions, rows, structure
from setwise.service.stores.upkeep.rows import TableDigest
from tests.building import predict_one
from tests.cli.installation import fill
from tests.cli.running import refusal, status
from tests.kit.databases import ON_BOTH
from tests.kit.installation import installed
from tests.samples import add_predictions, change, prediction
from tests.trained import Artifacts

pytestmark = pytest.mark.slow

SETWISE = Path(sys.executable).with_name("setwise")
MANY = 100_000
PATIENCE_S = 600.0


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = create(url)
    try:
        yield engine
    finally:
        engine.dispose()


def digests(url: str) -> dict[str, TableDigest]:
    """Return how many rows each table has and their digest, the same on both databases."""
    with opened(url) as engine, rows.snapshot(engine) as connection:
        sums = {}
        for name, columns in rows.describe(connection).tables.items():
            digest = TableDigest()
            for line in rows.lines(connection, name, columns):
                digest = digest.with_row(line)
            sums[name] = digest
        return sums


@pytest.fixture
def other_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> str:
    """Return the URL of an empty database of the other kind."""
    if database_kind == "postgresql":
        return f"sqlite:///{tmp_path / 'moved.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def here(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let commands work on the database, and return its URL."""
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SETWISE_DATABASE_URL", database_url)
    return database_url


@ON_BOTH
def test_everything_moves_to_the_other_kind_of_database_and_back(
    here: str,
    other_url: str,
    tmp_path: Path,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(tmp_path / "data", here, artifacts.text)
    before = digests(here)
    assert before["predictions"].rows == 3
    assert status("db", "move", other_url) == 0
    assert f"{sum(each.rows for each in before.values()):,} rows moved" in capsys.readouterr().out
    assert digests(here) == before
    assert digests(other_url) == before
    with opened(other_url) as engine:
        structure.refuse_foreign(engine)
    assert "not empty" in refusal(capsys, "db", "move", other_url)
    monkeypatch.setenv("SETWISE_DATABASE_URL", other_url)
    assert status("doctor") == 0
    back = f"sqlite:///{tmp_path / 'back.db'}"
    assert status("db", "move", back) == 0
    assert digests(back) == before
    for url in (other_url, back):  # the moved database goes on
        with opened(url) as engine:
            begin = Transactions(engine)
            new_prediction = prediction(document=Document(id=None, text="wholly new"))
            with begin() as transaction:
                add_predictions(transaction, new_prediction)
                while transaction.texts.index_words(100):
                    pass
                asked = DocumentFilter(text="verdict")
                assert len(transaction.documents.ids(asked, most=9)) == 1


@ON_BOTH
def test_an_archive_is_restored_into_the_other_kind_of_database(
    here: str,
    other_url: str,
    tmp_path: Path,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(tmp_path / "data", here, artifacts.text)
    assert status("backup", tmp_path / "all.zip") == 0
    monkeypatch.setenv("SETWISE_DATABASE_URL", other_url)
    assert status("restore", tmp_path / "all.zip") == 0
    assert digests(other_url) == digests(here)


@ON_BOTH
@pytest.mark.parametrize("way", ["move", pytest.param("archive", marks=pytest.mark.verify)])
def test_a_project_without_a_model_goes_on_in_the_other_kind_of_database(
    here: str, other_url: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(tmp_path / "data", here) as project:
        project.application.registry.follow()
        project.services.labels.add(SYSTEM, "grain\nwheat\n")
        policy = project.services.policy.change(SYSTEM, change(target_accuracy=0.97), None)
        client = project.services.keys.authenticate(project.secrets["client"])
        prediction = predict_one(project.services.predictions, client, Document(text="wheat rose"))
    if way == "move":
        assert status("db", "move", other_url) == 0
    else:
        assert status("backup", tmp_path / "all.zip") == 0
        monkeypatch.setenv("SETWISE_DATABASE_URL", other_url)
        assert status("restore", tmp_path / "all.zip") == 0
    assert digests(other_url) == digests(here)
    with installed(tmp_path / "data", other_url, roles=()) as installation:
        installation.secrets |= project.secrets
        server = installation.start()
        server.wait_until("/readyz")
        with server.client("reviewer") as reviewer:
            task = reviewer.post("/v1/reviews/claim")
            assert task.json()["prediction_id"] == prediction.id
            assert task.json()["candidates"] == []
            labels = reviewer.get("/v1/labels").json()["items"]
            assert [label["label"] for label in labels] == ["grain", "wheat"]
            answer = reviewer.post(
                f"/v1/reviews/{task.json()['id']}/complete",
                json={"labels": ["wheat"]},
                headers={"If-Match": task.headers["ETag"]},
            )
            assert answer.status_code == 200
        with server.client("client") as sender:
            later = sender.post("/v1/predictions", json={"document": {"text": "grain fell"}})
            assert (later.status_code, later.json()["reason"]) == (201, "no_model")
        assert installation.services.policy.get(SYSTEM) == policy


@ON_BOTH
@pytest.mark.parametrize("stage", ["copy predictions", "verify predictions"])
def test_a_move_that_ends_half_way_leaves_both_as_they_were(
    here: str, other_url: str, stage: str
) -> None:
    _add(here, 3)
    before = digests(here)

    def interrupted(_: float, message: str) -> None:
        if message == stage:
            raise KeyboardInterrupt

    with opened(here) as source, opened(other_url) as target:
        with pytest.raises(KeyboardInterrupt):
            backup.move(source, target, interrupted)
        assert revisions.current(target) is None
        assert digests(here) == before
        assert backup.move(source, target, lambda *_: None) > 3
    assert digests(other_url) == before


@ON_BOTH
def test_a_row_that_arrives_changed_is_refused(
    here: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(here, 3)
    write = rows._write

    def lossy(connection: object, into: object, lines: Iterator[list[object]]) -> None:
        values = list(lines)
        write(
            connection, into, values[1:] if getattr(into, "name", "") == "predictions" else values
        )  # type: ignore[arg-type]

    monkeypatch.setattr(rows, "_write", lossy)
    with opened(here) as source, opened(other_url) as target:
        with pytest.raises(ValueError, match="predictions arrived changed: 3 rows were sent, 2"):
            backup.move(source, target, lambda *_: None)
        assert revisions.current(target) is None


@ON_BOTH
def test_nobody_writes_while_everything_moves(here: str, other_url: str) -> None:
    _add(here, 1)
    refused = []

    def write(_: float, message: str) -> None:
        if message != "copy predictions":
            return
        plain = create_engine(here, connect_args={"timeout": 0} if "sqlite" in here else {})
        try:
            with plain.connect() as connection:
                if "sqlite" not in here:
                    connection.execute(text("SET lock_timeout = '10ms'"))
                connection.execute(text("UPDATE predictions SET confidence = 0.5"))
        except OperationalError as error:
            refused.append(str(error))
        finally:
            plain.dispose()

    with opened(here) as source, opened(other_url) as target:
        backup.move(source, target, write)
    assert len(refused) == 1
    assert "lock" in refused[0]


@ON_BOTH
def test_what_was_filled_since_a_move_began_is_not_replaced(
    here: str, other_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(here, 3)
    assert status("backup", tmp_path / "all.zip") == 0
    dump = tmp_path / "dump"
    with ZipFile(tmp_path / "all.zip") as archive:
        dump.write_bytes(archive.read("database"))
    with opened(here) as source, opened(other_url) as target:
        migrate.upgrade(target)
        _add(other_url, 1)
        filled = digests(other_url)
        monkeypatch.setattr(backup, "refuse_move", lambda *_: None)  # it was empty then
        with pytest.raises(migrate.NotEmpty):
            backup.move(source, target, lambda *_: None)
        with pytest.raises(migrate.NotEmpty):
            backup.load(target, dump, force=False)
    assert digests(other_url) == filled


@ON_BOTH
@pytest.mark.parametrize("table", ["jobs", "theirs"])
def test_a_database_of_another_program_is_left_alone(
    here: str, other_url: str, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    if other_url.startswith("sqlite"):
        Path(other_url.removeprefix("sqlite:///")).touch()
    with opened(other_url) as target, target.begin() as connection:
        connection.execute(text(f"CREATE TABLE {table} (x int)"))
    line = refusal(capsys, "db", "move", other_url)
    assert "not empty" in line
    assert "drop" not in line


@ON_BOTH
def test_of_two_moves_at_once_into_one_database_one_is_refused(
    here: str, other_url: str, tmp_path: Path
) -> None:
    _add(here, 3)
    second = f"sqlite:///{tmp_path / 'second.db'}"
    with opened(second) as engine:
        migrate.upgrade(engine)
    outcomes: list[object] = []

    def move_second() -> None:
        with opened(second) as source, opened(other_url) as target:
            try:
                outcomes.append(backup.move(source, target, lambda *_: None))
            except migrate.NotEmpty as error:
                outcomes.append(error)

    beside = threading.Thread(target=move_second)

    def start(_: float, message: str) -> None:
        if message == "verify predictions":  # the first one holds the lock, and soon commits
            beside.start()
            beside.join(1.0)

    with opened(here) as source, opened(other_url) as target:
        backup.move(source, target, start)
    beside.join()
    assert [type(each) for each in outcomes] == [migrate.NotEmpty]
    assert digests(other_url) == digests(here)


def test_a_move_says_first_what_to_stop_and_then_what_to_change(
    here: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("db", "move", f"sqlite:///{tmp_path / 'new.db'}") == 0
    output = capsys.readouterr()
    assert "servers and workers" in output.err.splitlines()[0]
    assert "SETWISE_DATABASE_URL" in output.out


@pytest.mark.parametrize("arguments", [["backup", "new.zip"], ["db", "move", "sqlite:///new.db"]])
def test_a_database_of_an_unknown_release_is_not_copied(
    here: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(here) as engine, engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    said = refusal(capsys, *arguments)
    assert "revision 9999" in said
    assert "install the release that made it, or a newer one" in said
    assert not {"new.zip", "new.db"} & {path.name for path in tmp_path.iterdir()}


def test_a_database_of_another_revision_is_not_moved(
    here: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(here) as engine:
        migrate.downgrade(engine, "base")
    target = tmp_path / "new.db"
    assert "setwise db upgrade" in refusal(capsys, "db", "move", f"sqlite:///{target}")
    assert not target.exists()


def _add(url: str, number: int) -> None:
    with opened(url) as engine:
        begin = Transactions(engine)
        for start in range(0, number, 1_000):
            with begin() as transaction:
                add_predictions(
                    transaction,
                    *(
                        prediction(document=Document(id=f"note-{place}", text=f"fever {place}"))
                        for place in range(start, min(number, start + 1_000))
                    ),
                )


@pytest.mark.verify  # with three predictions in its twins above
@ON_BOTH
def test_a_hundred_thousand_predictions_move_whole_or_not_at_all(
    here: str, other_url: str, tmp_path: Path
) -> None:
    _add(here, MANY)
    before = digests(here)
    assert before["predictions"].rows == MANY
    for stage in ("copy", "verify"):
        log = tmp_path / f"{stage}.log"
        with log.open("wb") as lines:
            moving = subprocess.Popen(
                [SETWISE, "db", "move", other_url], env=os.environ, stderr=lines
            )
            ends = time.monotonic() + PATIENCE_S
            while f"{stage} predictions" not in log.read_text():
                assert moving.poll() is None, log.read_text()
                assert time.monotonic() < ends
                time.sleep(0.01)
            moving.send_signal(signal.SIGKILL)
            moving.wait()
        with opened(other_url) as target:
            assert revisions.current(target) is None
        assert digests(here) == before
    subprocess.run([SETWISE, "db", "move", other_url], env=os.environ, check=True)
    assert digests(here) == digests(other_url) == before
