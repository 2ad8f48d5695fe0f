"""``backup`` and ``restore``: a whole installation in one archive with checksums."""

# ruff: noqa: PLC0415 - SQLAlchemy and Alembic import slowly: only where needed

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

import typer

from setwise.models.data.archives import UNREADABLE
from setwise.service.cli.assembly import opened
from setwise.service.cli.console import CommandError, say
from setwise.service.cli.targets import write_private

if TYPE_CHECKING:
    from setwise.service.runtime.files import FolderOrObjectFiles
    from setwise.service.settings import Settings

commands = typer.Typer()

MANIFEST = "backup.json"
_DATABASE, _PEPPER = "database", "pepper"
_MEMBER = re.compile(
    r"backup\.json|database|pepper|(artifacts|files)(/(?!\.{1,2}(/|$))[^/\\:\0*?\[\]]+)+"
)
_DAMAGES: tuple[type[Exception], ...] = (*UNREADABLE, KeyError, TypeError, RecursionError)


@commands.command()
def backup(
    file: Annotated[Path, typer.Argument(help="Archive to write; it must not exist.")],
    files: Annotated[bool, typer.Option(help="Include models and the files of jobs.")] = True,
) -> None:
    """Back up the database, models, files and pepper."""
    from setwise.service.stores.upkeep import backup as databases

    if file.exists():
        raise CommandError(f"{file}: exists already; name a new file")
    with opened() as (settings, engine), tempfile.TemporaryDirectory(dir=file.parent) as folder:
        dump, draft = Path(folder) / _DATABASE, Path(folder) / file.name
        manifest = {"setwise": version("setwise"), "database": engine.dialect.name}
        manifest["revision"] = databases.dump(engine, dump)
        draft.touch(mode=0o600)  # as private as documents are; only a complete one is moved
        with ZipFile(draft, "w", ZIP_DEFLATED, compresslevel=3) as archive:
            archive.writestr(MANIFEST, json.dumps(manifest))
            archive.write(dump, _DATABASE)
            # After the dump, so that every model that it refers to is found.
            for name, content in _contents(settings, files=files):
                with content, archive.open(name, "w", force_zip64=True) as member:
                    shutil.copyfileobj(content, member)
        draft.replace(file)
    say(f"{file}: {manifest['database']} at revision {manifest['revision']}")


@commands.command()
def restore(
    file: Annotated[Path, typer.Argument(help="Archive that `backup` wrote.")],
    force: Annotated[bool, typer.Option(help="Replace what is there; stop servers first.")] = False,
) -> None:
    """Restore a backup into an empty database, and upgrade it."""
    from setwise.service.stores.upkeep import backup as databases
    from setwise.service.stores.upkeep import revisions
    from setwise.service.stores.upkeep.migrate import NotEmpty

    with opened() as (settings, engine), _verified(file) as archive:
        pepper, names = settings.data_dir / _PEPPER, archive.namelist()
        secret = archive.read(_PEPPER) if _PEPPER in names and settings.pepper is None else None
        if secret and not force and pepper.exists() and pepper.read_bytes() != secret:
            raise CommandError(f"{pepper}: differs from the backup's; --force replaces it")
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            dump = Path(archive.extract(_DATABASE, folder))
            # First, because it refuses a database that is damaged or not Setwise's.
            try:
                databases.load(engine, dump, force=force, app_user=settings.database_app_user)
            except NotEmpty as error:
                raise CommandError(
                    "the database is not empty; --force replaces everything in it"
                ) from error
            except ValueError as error:
                raise _refusal(file, error) from error
        if secret:
            write_private(pepper, secret)
        for folder, store in _stores(settings).items():
            _replace(archive, folder, store)
    say(f"restored, at revision {revisions.newest()}")


def _replace(archive: ZipFile, folder: str, store: "FolderOrObjectFiles") -> None:
    """Make the folders of a store as they are in the archive, whatever lies in them."""
    names = [name[len(folder) :] for name in archive.namelist() if name.startswith(folder)]
    for parent in {name.rpartition("/")[0] for name in names} - {""}:
        store.remove(parent)
    for name in names:
        with archive.open(folder + name) as member, store.create(name) as sink:
            shutil.copyfileobj(member, sink)


def _stores(settings: "Settings") -> "dict[str, FolderOrObjectFiles]":
    """Return the stores of models and of files by their folders in an archive."""
    from setwise.service.runtime.files import FolderOrObjectFiles

    places = {"artifacts/": settings.artifact_url, "files/": settings.files_url}
    return {folder: FolderOrObjectFiles(url) for folder, url in places.items()}


def _contents(settings: "Settings", *, files: bool) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the members beside the database, open."""
    pepper = settings.data_dir / _PEPPER
    if pepper.is_file() and settings.pepper is None:
        yield _PEPPER, pepper.open("rb")
    for folder, store in _stores(settings).items() if files else ():
        for name in store.everything():
            with suppress(FileNotFoundError):  # deleted in between, as files of jobs are
                yield folder + name, store.open(name)


def _verified(file: Path) -> ZipFile:
    """Open an archive, if it is whole."""
    try:
        archive = ZipFile(file)
        fault = _fault(archive)
    except _DAMAGES as error:
        fault = f"it is damaged or no backup ({error})"
    if fault is not None:
        raise _refusal(file, fault)
    return archive


def _refusal(file: Path, fault: object) -> CommandError:
    return CommandError(f"{file}: cannot be restored: {fault}")


def _fault(archive: ZipFile) -> str | None:
    from setwise.service.stores.upkeep import revisions

    manifest = json.loads(archive.read(MANIFEST))
    if not revisions.knows(manifest["revision"]):
        return f"it needs setwise {manifest['setwise']} or newer"
    if not all(map(_MEMBER.fullmatch, archive.namelist())):
        return "it holds other files than a backup does"
    if _DATABASE not in archive.namelist():
        return "it holds no database"
    damaged = archive.testzip()
    return damaged and f"{damaged} is damaged"
