"""Run a command as users do."""

import pytest
from sqlalchemy import MetaData, select

from setwise.service.cli import main
from setwise.service.stores.database import create
from setwise.service.stores.tables import WORDS, unindexed_texts

Content = dict[str, list[tuple[object, ...]]]


def status(*arguments: object) -> int:
    """Return the exit status of a command."""
    with pytest.raises(SystemExit) as error:
        main([str(one) for one in arguments])
    assert isinstance(error.value.code, int)
    return error.value.code


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that says why a command cannot be done."""
    capsys.readouterr()
    assert status(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("setwise: ")
    return line


def facts(url: str) -> Content:
    """Return every row that does not follow from others, as the words of texts do."""
    return {
        name: rows
        for name, rows in content(url).items()
        if not name.startswith(WORDS) and name != unindexed_texts.name
    }


def content(url: str) -> Content:
    """Return every row of every table of a database."""
    engine, tables = create(url), MetaData()
    try:
        tables.reflect(engine)
        with engine.connect() as connection:
            return {
                table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
                for table in tables.sorted_tables
            }
    finally:
        engine.dispose()
