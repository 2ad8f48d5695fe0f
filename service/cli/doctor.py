"""``doctor``: check everything that the service needs, and say what to fix."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from setwise.service.cli.console import AsJson, print_json, say

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from setwise.service.runtime.model import Loads
    from setwise.service.settings import Settings
    from setwise.service.stores.transaction import Transactions

commands = typer.Typer()

LITTLE_FREE_BYTES: Final = 2_000_000_000

LARGEST_CLOCK_ERROR: Final = timedelta(seconds=2)
"""Larger errors make signatures, expiries and lists by time wrong."""

LATEST_START: Final = timedelta(minutes=10)
"""If work is overdue for longer, probably no worker is running."""


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """The observation of a check, and how to fix it."""

    check: str
    seen: str
    cure: str = ""
    verdict: Verdict = Verdict.OK


_ok = partial(Finding, verdict=Verdict.OK)
_warning = partial(Finding, verdict=Verdict.WARNING)
_fault = partial(Finding, verdict=Verdict.FAULT)


@commands.command()
def doctor(as_json: AsJson = False) -> None:
    """Check the installation and say what to fix."""
    findings = list(examine())
    sound = all(finding.verdict is not Verdict.FAULT for finding in findings)
    if as_json:
        print_json({"ok": sound, "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            say(f"{finding.verdict:8}{finding.check:12}{finding.seen}")
            if finding.cure:
                say(f"{'':20}-> {finding.cure}")
    if not sound:
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Yield the findings; skip checks that depend on a failed one."""
    from setwise.service.backend import storage, written_folders
    from setwise.service.cli.reachability import reachable
    from setwise.service.logs import configure_logging
    from setwise.service.settings import BadSetting, Settings, misspelt

    for fault in misspelt(os.environ):
        yield _warning("settings", fault, "correct its name, or remove it")
    try:
        settings = Settings.read()
        configure_logging(settings.log_level, settings.log_format)  # what it prints is the result
        engine, begin, store = storage(settings)
    except BadSetting as error:
        yield _fault("settings", str(error), "correct the variable")
        return
    yield _ok("settings", f"data in {settings.data_dir}")
    yield _disk(settings.data_dir, written_folders(settings, engine))
    yield from reachable(settings)
    try:
        yield from _database(engine, begin, store, settings)
    finally:
        engine.dispose()


def _disk(data_dir: "Path", folders: "Sequence[Path]") -> Finding:
    from setwise.service.runtime import disk

    if not os.access(disk.existing(data_dir), os.W_OK):
        return _fault(
            "disk",
            f"{disk.existing(data_dir)} cannot be written by this user",
            "change its owner, or name another folder in SETWISE_DATA_DIR",
        )
    fault = disk.fault(folders)
    if fault is not None:
        return _fault("disk", fault, "make room: writes are about to fail")
    free, folder = min((shutil.disk_usage(disk.existing(path)).free, path) for path in folders)
    seen = f"{free / 1e9:.1f} GB free in {folder}"
    if free < LITTLE_FREE_BYTES:
        return _warning("disk", seen, "make room before it fills up")
    return _ok("disk", seen)


def _database(
    engine: "Engine", begin: "Transactions", store: "Loads", settings: "Settings"
) -> Iterator[Finding]:
    from setwise.service.domain.errors import StorageDamaged, StorageUnavailable
    from setwise.service.stores.upkeep import revisions

    try:
        status = revisions.check(engine)
    except (StorageUnavailable, StorageDamaged, ValueError) as error:
        yield _fault("database", str(error), "start it, or correct SETWISE_DATABASE_URL")
        return
    if not status.ok:
        known = status.current is None or revisions.knows(status.current)
        yield _fault(
            "migrations",
            f"at {status.current or 'base'}; this release needs {status.head}",
            "run setwise db upgrade" if known else "install the release that made the database",
        )
        return
    yield _checked("database", lambda: _writable(engine))
    yield _ok("migrations", f"at {status.current}")
    checks: dict[str, Callable[[], Finding]] = {
        "clock": lambda: _clock(engine, begin),
        "model": lambda: _model(begin, store),
        "keys": lambda: _keys(begin),
        "pepper": lambda: _pepper(begin, settings),
        "encryption": lambda: _encryption(engine),
        "breaker": lambda: _breaker(begin),
        "labels": lambda: _labels(begin),
        "jobs": lambda: _jobs(engine),
        "deliveries": lambda: _deliveries(engine, begin),
    }
    for name, check in checks.items():
        yield _checked(name, check)


def _checked(name: str, check: Callable[[], Finding]) -> Finding:
    from sqlalchemy.exc import ProgrammingError

    from setwise.service.domain.errors import ServiceError

    try:
        return check()
    except ProgrammingError as error:
        seen = str(error.orig).partition("\n")[0]
        return _fault(
            name,
            seen,
            "run setwise db upgrade as the tables' owner, with "
            "this role in SETWISE_DATABASE_APP_USER",
        )
    except (ServiceError, OSError) as error:
        return _fault(name, str(error), "see the log of the database")


def _writable(engine: "Engine") -> Finding:
    from setwise.service.stores.upkeep.inspection import try_to_write

    try_to_write(engine)
    return _ok("database", f"{engine.dialect.name} reads and writes")


def _clock(engine: "Engine", begin: "Transactions") -> Finding:
    from setwise.service.stores.database import database_clock, utc_now

    before = utc_now()
    theirs = database_clock(engine)()
    after = utc_now()
    error = max(before - theirs, theirs - after, timedelta(0))
    if error > LARGEST_CLOCK_ERROR:
        return _fault(
            "clock",
            f"{error.total_seconds():.0f} s away from the database's clock",
            "synchronise both machines' clocks (NTP)",
        )
    newest = _newest_event(begin)
    if newest is not None and newest - after > LARGEST_CLOCK_ERROR:
        return _warning(
            "clock",
            f"the audit trail knows {newest:%Y-%m-%d %H:%M:%S}, which is yet to come",
            "the clock was ahead, or is behind now; compare it with another (NTP)",
        )
    return _ok("clock", f"{after:%Y-%m-%d %H:%M:%S} UTC")


def _newest_event(begin: "Transactions") -> datetime | None:
    with begin(read_only=True) as transaction:
        page = transaction.audit_trail.page(after=None, limit=1)
    return page.items[0].at if page.items else None


def _model(begin: "Transactions", store: "Loads") -> Finding:
    from setwise.service.domain.errors import ModelUnavailable

    with begin(read_only=True) as transaction:
        active = transaction.models.active()
    if active is None:
        return _warning(
            "model",
            "no model is active, so people read every document",
            "open /board/start, or setwise model add ARTIFACT --activate",
        )
    try:
        store.load(active.location)
    except ModelUnavailable as error:
        return _fault(
            "model",
            error.detail,
            "add the same artifact again (setwise model add ARTIFACT), or restore a backup",
        )
    return _ok("model", f"version {active.version} loads and is intact")


def _keys(begin: "Transactions") -> Finding:
    from setwise.service.stores.database import utc_now

    now = utc_now()
    with begin(read_only=True) as transaction:
        roles = {
            key.role.value
            for key in transaction.keys.all()
            if not (key.revoked or key.expired(now))
        }
    missing = [role for role in ("admin", "client") if role not in roles]
    if missing:
        return _warning(
            "keys",
            f"no usable key of role {' and '.join(missing)}",
            f"setwise key create --role {missing[0]} --name NAME",
        )
    return _ok("keys", f"roles {', '.join(sorted(roles))}")


def _pepper(begin: "Transactions", settings: "Settings") -> Finding:
    if settings.pepper is not None:
        return _ok("pepper", "from SETWISE_PEPPER")
    path = settings.data_dir / "pepper"
    if not path.is_file():
        with begin(read_only=True) as transaction:
            keys = transaction.keys.all()
        if keys:
            return _fault(
                "pepper",
                f"{path} is missing, and {len(keys)} keys were made with it",
                "restore it from a backup or set SETWISE_PEPPER; a new one opens no old key",
            )
        return _ok("pepper", "made at the first start")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return _fault(
            "pepper", f"{path} has mode {mode:o}: others can read it", f"chmod 600 {path}"
        )
    return _ok("pepper", f"{path}, mode {mode:o}")


def _encryption(engine: "Engine") -> Finding:
    from setwise.service.stores.columns.types import cipher_of
    from setwise.service.stores.upkeep import encryption

    fault = encryption.missing_keys(engine)
    if fault is not None:
        return _fault("encryption", fault, "add the key to SETWISE_ENCRYPTION_KEYS")
    fault = encryption.unsealed(engine)
    if fault is not None:
        return _fault("encryption", fault, "unset SETWISE_ENCRYPTION_KEYS")
    fault = encryption.unreadable(engine, newest=None)
    if fault is not None:
        return _fault("encryption", fault, encryption.CURE)
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        return _ok("encryption", "off: texts are stored as they are")
    return _ok("encryption", f"under key {cipher.sealing_id}")


def _breaker(begin: "Transactions") -> Finding:
    with begin(read_only=True) as transaction:
        gates = transaction.policies.current().gates
        trips = [transaction.breakers.trip(gate.state.trip_id or "") for gate in gates]
    trip = next((candidate for candidate in trips if candidate is not None), None)
    if trip is not None:
        where = "" if trip.segment is None else f" of {trip.segment}"
        at = f"{trip.created_at:%Y-%m-%d %H:%M}"
        return _warning(
            "breaker",
            f"tripped on {at} UTC ({trip.cause}): nothing{where} is sent",
            "see GET /v1/admin/breaker, and reset it once a new certificate allows",
        )
    return _ok("breaker", "not tripped")


def _labels(begin: "Transactions") -> Finding:
    with begin(read_only=True) as transaction:
        missing = transaction.labels.missing()
    if missing.documents:
        cure = "retrain the model (POST /v1/admin/models/retrain), or merge the labels into others"
        return _warning("labels", missing.sentence().removesuffix(" Retrain."), cure)
    return _ok("labels", "the model knows the labels of every checked document")


def _jobs(engine: "Engine") -> Finding:
    from setwise.service.stores.upkeep.inspection import first_due

    return _waiting("jobs", first_due(engine).jobs)


def _deliveries(engine: "Engine", begin: "Transactions") -> Finding:
    from setwise.service.stores.upkeep.inspection import first_due

    with begin(read_only=True) as transaction:
        mute = [endpoint.url for endpoint in transaction.endpoints.all() if not endpoint.secrets]
    if mute:
        return _fault(
            "deliveries",
            f"messages to {', '.join(mute)} wait: the signing secret cannot be read",
            "rotate it (POST /v1/admin/webhooks/ID/rotate-secret), and tell the receiver",
        )
    due = first_due(engine)
    if due.failing or due.dead:
        return _warning(
            "deliveries",
            f"{due.failing:,} wait after a failed attempt, {due.dead:,} were given up",
            "see GET /v1/admin/deliveries for each attempt, and replay those that were given up",
        )
    return _waiting("deliveries", due.deliveries)


def _waiting(name: str, due: datetime | None) -> Finding:
    from setwise.service.stores.database import utc_now

    late = timedelta(0) if due is None else utc_now() - due
    if late > LATEST_START:
        return _warning(
            name,
            f"the oldest is due for {late.total_seconds() / 60:.0f} minutes",
            "is a worker running? (setwise worker, or serve with SETWISE_EMBEDDED_WORKER=true)",
        )
    return _ok(name, "nothing is overdue")
