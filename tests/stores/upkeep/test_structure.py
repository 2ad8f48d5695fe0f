"""A database whose structure is not what the migrations make is named, part by part."""

import pytest
from sqlalchemy import Engine, text

from setwise.service.stores.upkeep import structure

PLANTED = {
    "sqlite": "CREATE TRIGGER planted AFTER INSERT ON api_keys"
    " BEGIN UPDATE api_keys SET role = 'admin' WHERE id = NEW.id; END",
    "postgresql": "CREATE RULE planted AS ON INSERT TO api_keys"
    " DO ALSO UPDATE api_keys SET role = 'admin' WHERE id = NEW.id",
}


def test_a_migrated_and_used_database_is_as_it_should_be(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        with engine.begin() as connection:
            connection.execute(text("ANALYZE"))
    structure.refuse_foreign(engine)


def test_what_was_added_dropped_and_changed_is_named(engine: Engine) -> None:
    sqlite = engine.dialect.name == "sqlite"
    of = "" if sqlite else " ON audit_events"
    with engine.begin() as connection:
        connection.execute(text(PLANTED[engine.dialect.name]))
        connection.execute(text(f"DROP TRIGGER audit_events_keep_delete{of}"))
        connection.execute(text("ALTER TABLE sessions ADD COLUMN planted TEXT"))
    with pytest.raises(ValueError, match="structure") as error:
        structure.refuse_foreign(engine)
    message = str(error.value)
    assert f"{'trigger' if sqlite else 'rule'} planted of api_keys was added" in message
    assert "trigger audit_events_keep_delete of audit_events is missing" in message
    changed = "table sessions was changed" if sqlite else "column planted of sessions was added"
    assert changed in message


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_a_trigger_that_was_disabled_or_whose_function_was_replaced_is_named(
    engine: Engine,
) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE outcomes DISABLE TRIGGER outcomes_keep_rows"))
        connection.execute(
            text(
                "CREATE OR REPLACE FUNCTION setwise_refuse_change() RETURNS trigger"
                " LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"
            )
        )
    with pytest.raises(ValueError, match="trigger outcomes_keep_rows of outcomes was changed") as e:
        structure.refuse_foreign(engine)
    assert "function setwise_refuse_change" in str(e.value)
