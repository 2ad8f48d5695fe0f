"""``backup`` and ``restore``: all data of an installation in one file."""

# ruff: noqa: PLC0415 - SQLAlchemy and Alembic import slowly: only where needed

import json
import os
import shutil
import tempfile
import zlib
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import typer

from setwise.service.cli.assembly import read_settings
from setwise.service.cli.console import AsJson, CommandError, note, print_json, say

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from setwise.service.settings import Settings

commands = typer.Typer()

FORMAT: Final = 1
_MANIFEST = "backup.json"
_ARTIFACTS = "artifacts/"
_PEPPER = "pepper"


@commands.command()
def backup(
    file: Annotated[Path, typer.Argument(help="Archive to write; it must not exist.")],
    artifacts: Annotated[bool, typer.Option(help="Include the models' artifacts.")] = True,
    pepper: Annotated[
        bool, typer.Option(help="Include the secret behind API keys; guard the file well.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write database and models to one file, while servers run."""
    settings, engine = _opened()
    if file.exists():
        raise CommandError(f"{file}: is there already; name a new file")
    with closing(_Disposed(engine)):
        manifest = _write(file, settings, engine, artifacts=artifacts, pepper=pepper)
    if as_json:
        print_json(manifest)
        return
    say(f"{file}: {sum(manifest['rows'].values())} rows at revision {manifest['revision']}")
    if not pepper:
        note("The secret behind API keys is not in it; keep a copy, or use --pepper.")


@commands.command()
def restore(
    file: Annotated[Path, typer.Argument(help="Archive that `backup` wrote.")],
    force: Annotated[
        bool, typer.Option(help="Replace what the database holds; stop servers and workers first.")
    ] = False,
) -> None:
    """Restore a backup into an empty database."""
    from setwise.service.stores.upkeep import backup as content
    from setwise.service.stores.upkeep import migrate

    settings, engine = _opened()
    with closing(_Disposed(engine)), _archive(file) as archive:
        manifest = _manifest(archive, file)
        _refuse_other(manifest, engine, file)
        if migrate.current(engine) is not None and not force:
            raise CommandError(
                "the database is not empty; --force replaces everything that it holds"
            )
        _check_pepper(archive, settings, force=force)
        content.load(
            engine,
            archive,
            manifest["revision"],
            manifest["rows"],
            app_user=settings.database_app_user,
        )
        _restore_files(archive, settings)
        behind = not migrate.check(engine).ok
    say(f"{sum(manifest['rows'].values())} rows at revision {manifest['revision']}")
    if behind:
        note("This release is newer than the backup: run setwise db upgrade.")


class _Disposed:
    def __init__(self, engine: "Engine") -> None:
        self.close = engine.dispose


def _opened() -> tuple["Settings", "Engine"]:
    from setwise.service.stores import database as engines

    settings = read_settings()
    return settings, engines.create(settings.database_url)


def _write(
    file: Path, settings: "Settings", engine: "Engine", *, artifacts: bool, pepper: bool
) -> dict[str, Any]:  # Any: JSON
    from setwise.service.stores.upkeep import backup as content
    from setwise.service.stores.upkeep import migrate

    # A temporary file, so that only a complete backup gets the name; private, like documents.
    try:
        descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    except OSError as error:
        raise CommandError(f"{file}: cannot be written ({error.strerror})") from error
    try:
        with (
            open(descriptor, "wb") as raw,  # noqa: PTH123 - a descriptor
            ZipFile(raw, "w", ZIP_DEFLATED, compresslevel=3) as archive,
        ):
            rows = content.save(engine, archive)
            manifest = {
                "format": FORMAT,
                "setwise": version("setwise"),
                "database": engine.dialect.name,
                "revision": migrate.current(engine),
                "created_at": datetime.now(UTC).isoformat(),
                "rows": rows,
                "artifacts": _add_artifacts(archive, settings) if artifacts else [],
                "pepper": pepper and _add_pepper(archive, settings),
            }
            archive.writestr(_MANIFEST, json.dumps(manifest, indent=2))
    except BaseException:
        Path(draft).unlink()
        raise
    Path(draft).replace(file)
    return manifest


def _add_artifacts(archive: ZipFile, settings: "Settings") -> list[str]:
    folder = _artifact_folder(settings)
    if folder is None:
        note(f"Artifacts are kept at {settings.artifact_url}; back them up there.")
        return []
    names = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not relative.parts[0].startswith("."):
            archive.write(path, f"{_ARTIFACTS}{relative.as_posix()}")
            names.append(relative.parts[0])
    return sorted(set(names))


def _add_pepper(archive: ZipFile, settings: "Settings") -> bool:
    path = settings.data_dir / _PEPPER
    if settings.pepper is not None:
        secret = settings.pepper.get_secret_value()
    elif path.is_file():
        secret = path.read_text().strip()
    else:
        return False
    archive.writestr(_PEPPER, secret)
    return True


def _artifact_folder(settings: "Settings") -> Path | None:
    """Return the local folder of artifacts; None if they are elsewhere."""
    from fsspec.implementations.local import LocalFileSystem

    from setwise.service.runtime.object_stores import open_store

    files, root = open_store(settings.artifact_url)
    return Path(root) if isinstance(files, LocalFileSystem) else None


def _archive(file: Path) -> ZipFile:
    try:
        return ZipFile(file)
    except BadZipFile as error:
        raise CommandError(f"{file}: is no backup ({error})") from error


def _manifest(archive: ZipFile, file: Path) -> dict[str, Any]:  # Any: JSON
    try:
        manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
        damaged = archive.testzip()
    except (KeyError, ValueError, BadZipFile) as error:
        raise CommandError(f"{file}: is no backup ({error})") from error
    except zlib.error as error:
        raise CommandError(f"{file}: is damaged ({error}); use another backup") from error
    if damaged is not None:
        raise CommandError(f"{file}: is damaged in {damaged}; use another backup")
    if manifest.get("format") != FORMAT:
        raise CommandError(
            f"{file}: has format {manifest.get('format')}; this release reads {FORMAT}"
        )
    return manifest


def _refuse_other(manifest: dict[str, Any], engine: "Engine", file: Path) -> None:
    from setwise.service.stores.upkeep import migrate

    if manifest["database"] != engine.dialect.name:
        raise CommandError(
            f"{file}: was made from {manifest['database']}, SETWISE_DATABASE_URL names "
            f"{engine.dialect.name}; restore into a database of the same kind"
        )
    if not migrate.knows(manifest["revision"]):
        raise CommandError(
            f"{file}: is at revision {manifest['revision']}, which this release does not know; "
            f"install setwise {manifest['setwise']} or newer"
        )


def _check_pepper(archive: ZipFile, settings: "Settings", *, force: bool) -> None:
    if _PEPPER not in archive.namelist():
        return
    path = settings.data_dir / _PEPPER
    secret = archive.read(_PEPPER).decode()
    known = settings.pepper.get_secret_value() if settings.pepper else None
    if known is None and path.is_file():
        known = path.read_text().strip()
    if known not in {None, secret} and (settings.pepper is not None or not force):
        where = "SETWISE_PEPPER" if settings.pepper is not None else str(path)
        raise CommandError(
            f"{where} differs from the backup's: with it no stored key would work; "
            + ("unset it" if settings.pepper is not None else "--force replaces it")
        )


def _restore_files(archive: ZipFile, settings: "Settings") -> None:
    folder = _artifact_folder(settings)
    for member in archive.namelist():
        path = PurePosixPath(member)
        if member == _PEPPER and settings.pepper is None:
            _write_private(settings.data_dir / _PEPPER, archive.read(member))
        elif member.startswith(_ARTIFACTS) and folder is not None and ".." not in path.parts:
            target = folder.joinpath(*path.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            # The folder's name is the digest of its content, so an existing file is the same.
            if not target.exists():
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)


def _write_private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
