"""``backup`` and ``restore``: all data of an installation in one file."""

# ruff: noqa: PLC0415 - SQLAlchemy and Alembic import slowly: only where needed

import json
import shutil
import tempfile
import zlib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import typer

from setwise.service.cli.assembly import opened
from setwise.service.cli.console import AsJson, CommandError, note, print_json, say, write_private

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
        bool, typer.Option(help="Include the secret behind API keys; keep the file safe.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Back up the database and models to one file while servers run."""
    with opened() as (settings, engine):
        if file.exists():
            raise CommandError(f"{file}: exists already; name a new file")
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
        bool, typer.Option(help="Replace everything in it; stop servers and workers first.")
    ] = False,
) -> None:
    """Restore a backup into an empty database."""
    from setwise.service.stores.upkeep import backup as content
    from setwise.service.stores.upkeep import migrate

    with opened() as (settings, engine), _archive(file) as archive:
        manifest = _manifest(archive, file)
        _refuse_other(manifest, engine, file)
        if migrate.current(engine) is not None and not force:
            raise CommandError("the database is not empty; --force replaces everything in it")
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


def _pepper(settings: "Settings") -> str | None:
    """Return the secret behind API keys; None if there is none yet."""
    path = settings.data_dir / _PEPPER
    if settings.pepper is not None:
        return settings.pepper.get_secret_value()
    return path.read_text().strip() if path.is_file() else None


def _add_pepper(archive: ZipFile, settings: "Settings") -> bool:
    secret = _pepper(settings)
    if secret is None:
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
        raise CommandError(f"{file}: is not a backup ({error})") from error


def _manifest(archive: ZipFile, file: Path) -> dict[str, Any]:  # Any: JSON
    try:
        manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
        damaged = archive.testzip()
    except (KeyError, ValueError, BadZipFile) as error:
        raise CommandError(f"{file}: is not a backup ({error})") from error
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
    secret, given = archive.read(_PEPPER).decode(), settings.pepper is not None
    if _pepper(settings) not in {None, secret} and (given or not force):
        where = "SETWISE_PEPPER" if given else str(settings.data_dir / _PEPPER)
        raise CommandError(
            f"{where} differs from the backup's: with it no stored key would work; "
            + ("unset it" if given else "--force replaces it")
        )


def _restore_files(archive: ZipFile, settings: "Settings") -> None:
    folder = _artifact_folder(settings)
    for member in archive.namelist():
        path = PurePosixPath(member)
        if member == _PEPPER and settings.pepper is None:
            write_private(settings.data_dir / _PEPPER, archive.read(member))
        elif member.startswith(_ARTIFACTS) and folder is not None and ".." not in path.parts:
            target = folder.joinpath(*path.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            # The folder's name is the digest of its content, so an existing file is the same.
            if not target.exists():
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
