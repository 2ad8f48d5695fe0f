"""Restores what a release stored, and upgrades it, by the commands that an operator uses."""

from pathlib import Path

import pytest

from setwise.service.cli import main
from tests.releases.make import ANSWERS, ENCRYPTION_KEY, HERE

RELEASES = sorted(folder.name for folder in HERE.iterdir() if (folder / ANSWERS).is_file())


def restore(release: str, database: str, folder: Path, database_url: str) -> None:
    """Restore the backup of one kind of database into a folder and an empty database."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SETWISE_DATA_DIR", str(folder))
        environment.setenv("SETWISE_DATABASE_URL", database_url)
        environment.setenv("SETWISE_ENCRYPTION_KEYS", ENCRYPTION_KEY)
        for command in (
            ["restore", str(HERE / release / f"{database}.zip")],
            ["db", "reencrypt"],
            ["doctor"],
        ):
            with pytest.raises(SystemExit) as error:
                main(command)
            assert error.value.code == 0, command
