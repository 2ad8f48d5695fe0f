"""A dump holds rows alone: what was planted in a database or a file never runs."""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import Engine, text

from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import backup, rows, structure
from tests.cli.running import facts
from tests.samples import key
from tests.stores.upkeep.test_structure import PLANTED

ON_POSTGRES = pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
READ_ALIKE = pytest.mark.parametrize(
    "database_kind",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)],
    indirect=True,
)
"""For what is refused before either database is asked."""

PLANTS = {
    "sqlite": (
        PLANTED["sqlite"],
        "CREATE VIEW planted_view AS SELECT * FROM api_keys",
        "CREATE TABLE planted_table AS SELECT 1 AS x",
        "DROP TRIGGER audit_events_keep_delete",
    ),
    "postgresql": (
        """CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN NEW.role := 'admin'; RETURN NEW; END $$""",
        "CREATE TRIGGER planted BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION planted()",
        PLANTED["postgresql"],
        "CREATE VIEW planted_view AS SELECT * FROM api_keys",
        "CREATE TABLE planted_table AS SELECT 1 AS x",
        "ALTER TABLE api_keys ALTER COLUMN role SET DEFAULT 'admin'",
        "DROP TRIGGER audit_events_keep_delete ON audit_events",
    ),
}


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def test_what_was_planted_in_a_database_does_not_come_back(
    engine: Engine, empty_engine: Engine, tmp_path: Path
) -> None:
    with Transactions(engine)() as transaction:
        transaction.keys.add(key())
    before = facts(url_of(engine))
    with engine.begin() as connection:
        for statement in PLANTS[engine.dialect.name]:
            connection.execute(text(statement))
    backup.dump(engine, tmp_path / "dump")
    backup.load(empty_engine, tmp_path / "dump", force=False)
    structure.refuse_foreign(empty_engine)
    assert facts(url_of(empty_engine)) == before


def _header(**members: object) -> Callable[[dict[str, bytes]], None]:
    def change(members_of: dict[str, bytes]) -> None:
        header = json.loads(members_of[rows.HEADER])
        for name, value in members.items():
            if isinstance(header[name], dict):
                header[name] |= value
            else:
                header[name] = value
        members_of[rows.HEADER] = json.dumps(header).encode()

    return change


_SQL = "; CREATE TABLE planted (x INT); --"


@READ_ALIKE
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_header(tables={f'api_keys" {_SQL}': ["id"]}), "not those that the migrations make"),
        (_header(tables={"api_keys": ["id", f'name") FROM STDIN{_SQL}']}), "not those that"),
        (_header(tables={"planted": ["x"]}), "not those that the migrations make: planted"),
        (_header(tables={"api_keys": 5}), "no rows of a database"),
        (_header(positions={f"outbox_messages{_SQL}": 1}), "a sequence"),
        (_header(positions={"outbox_messages": f"1{_SQL}"}), "no rows of a database"),
        (_header(revision=f"0001{_SQL}"), "does not know"),
        (lambda members: members.update(api_keys=_SQL.encode()), "table api_keys do not fit"),
        (lambda members: members.pop("api_keys"), "table api_keys do not fit"),
        (lambda members: members.pop(rows.HEADER), "no rows of a database"),
        (lambda members: members.update({rows.HEADER: b"[" * 100_000}), "no rows of a database"),
    ],
)
def test_no_statement_in_a_dump_runs_and_a_refused_one_changes_nothing(
    engine: Engine, tmp_path: Path, change: Callable[[dict[str, bytes]], None], reason: str
) -> None:
    with Transactions(engine)() as transaction:
        transaction.keys.add(key())
    backup.dump(engine, tmp_path / "dump")
    with ZipFile(tmp_path / "dump") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with ZipFile(tmp_path / "dump", "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    before = facts(url_of(engine))
    with pytest.raises(ValueError, match=reason):
        backup.load(engine, tmp_path / "dump", force=True)
    assert facts(url_of(engine)) == before


def test_a_dump_of_another_tool_is_refused(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"PGDMP\x01\x0e\x00CREATE TABLE planted (x INT);")
    with pytest.raises(ValueError, match="is damaged"):
        backup.load(engine, tmp_path / "dump", force=True)
    assert "planted" not in facts(url_of(engine))


@READ_ALIKE
@pytest.mark.parametrize(
    "line",
    [b"[]", b"{}", b'["one"]', b"[" * 9_000, b"not json", b"\xff\xfe"],
)
def test_a_row_of_another_form_is_refused(engine: Engine, tmp_path: Path, line: bytes) -> None:
    backup.dump(engine, tmp_path / "dump")
    with ZipFile(tmp_path / "dump") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["api_keys"] = line + b"\n"
    with ZipFile(tmp_path / "dump", "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    with pytest.raises(ValueError, match="table api_keys do not fit"):
        backup.load(engine, tmp_path / "dump", force=True)


@ON_POSTGRES
def test_a_database_that_cannot_be_emptied_is_named_and_stays(
    engine: Engine, tmp_path: Path
) -> None:
    backup.dump(engine, tmp_path / "dump")
    with engine.begin() as connection:
        connection.execute(text("CREATE VIEW planted AS SELECT * FROM api_keys"))
    with pytest.raises(ValueError, match="drop it, and create it again"):
        backup.load(engine, tmp_path / "dump", force=True)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM planted")).scalar_one() == 0
