"""Hand out what is stored as files: rows in the order of their ids, a page at a time.

An export sees one state of the database, however long it takes, and holds one page in memory.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller, Permission, Role
from setwise.service.domain.errors import FieldFault, InvalidRequest, StorageUnavailable
from setwise.service.domain.identity import is_id
from setwise.service.domain.jobs import Job, result_folder
from setwise.service.domain.lines import Format, Row, header, lines
from setwise.service.domain.reports import Span
from setwise.service.services.ports import FileStore
from setwise.service.services.predictions import visible_to
from setwise.service.services.rows import (
    annotation_row,
    content_row,
    event_row,
    outcome_row,
    prediction_row,
)
from setwise.service.services.score import Progress
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transaction, Transactions

EXPORT = "export"
"""The kind of job."""

PAGE = 500
"""Rows in memory."""

LONGEST_S = 600.0
"""How long one export may keep its state of the database from being forgotten."""


class Exported(StrEnum):
    """What can be exported."""

    PREDICTIONS = "predictions"
    ANNOTATIONS = "annotations"
    OUTCOMES = "outcomes"
    AUDIT_EVENTS = "audit-events"


_PREDICTED = (
    "prediction_id", "document_id", "client_id", "predicted_labels", "confidence", "decision",
    "model_version",
)  # fmt: skip
COLUMNS: dict[Exported, tuple[str, ...]] = {
    Exported.PREDICTIONS: (
        "id", "document_id", "labels", "confidence", "decision", "reason", "threshold",
        "candidates", "marginals", "model_version", "calibrator_version", "policy_version",
        "created_at", "client_id",
    ),
    Exported.ANNOTATIONS: (
        "id", *_PREDICTED, "review_id", "reviewer", "labels", "comment", "agreed", "chosen_rank",
        "suggestion_shown", "kind", "settles", "group", "version", "audit_role",
        "inclusion_probability", "seconds", "created_at",
    ),
    Exported.OUTCOMES: (
        "id", *_PREDICTED, "number", "labels", "source", "agreed", "reported_by", "created_at",
    ),
    Exported.AUDIT_EVENTS: tuple(field.name for field in fields(Event)),
}  # fmt: skip
CONTENT = ("text", "features", "metadata")


@dataclass(frozen=True)
class ExportRequest:
    """What to export.

    Attributes
    ----------
    content : bool
        With the documents themselves, as far as they are still kept.
    after : str or None
        Id of the last row that the caller has; the export goes on behind it.
    """

    what: Exported
    written: Format = Format.JSON_LINES
    content: bool = False
    created_from: datetime | None = None
    created_before: datetime | None = None
    after: str | None = None

    def check(self) -> None:
        """Raise `InvalidRequest` for what cannot be exported."""
        faults = []
        if self.after is not None and not is_id(self.after):
            faults.append(FieldFault("/query/after", "is not the id of a row"))
        first, last = self.created_from, self.created_before
        if first is not None and last is not None and first >= last:
            faults.append(FieldFault("/query/created_before", "must be later than created_from"))
        if self.content and self.what is Exported.AUDIT_EVENTS:
            faults.append(FieldFault("/query/content", "audit events have no documents"))
        if faults:
            raise InvalidRequest("This cannot be exported.", faults)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the members of a row."""
        return COLUMNS[self.what] + (CONTENT if self.content else ())


@dataclass(frozen=True)
class Export:
    """Read stored things as a file.

    Clients get their own predictions and outcomes; leads and administrators everybody's, and the
    annotations; the audit trail is for administrators.
    """

    begin: Transactions
    now: Clock
    new_id: NewId
    clock: Callable[[], float] = time.monotonic

    def __call__(
        self, caller: Caller, wanted: ExportRequest, *, request_id: str | None = None
    ) -> Iterator[bytes]:
        """Return the parts of the file; refusals are raised before the first one is asked for."""
        client_id = self.allow(caller, wanted)
        self._note(caller, wanted, request_id)
        return self.parts(wanted, client_id)

    def allow(self, caller: Caller, wanted: ExportRequest) -> str | None:
        """Return the client whose rows are meant, None for all.

        Raises
        ------
        Forbidden, InvalidRequest
            If the caller may not have these rows or there can be none.
        """
        client_id = None
        if wanted.what is Exported.ANNOTATIONS:
            caller.require(Permission.REPORT)
        elif wanted.what is Exported.AUDIT_EVENTS:
            caller.require(Permission.READ_AUDIT_TRAIL)
        else:
            client_id = visible_to(caller)
        wanted.check()
        return client_id

    def parts(
        self,
        wanted: ExportRequest,
        client_id: str | None,
        tell: Callable[[int], None] | None = None,
    ) -> Iterator[bytes]:
        """Yield the parts of the file; ``tell`` hears after each how many rows there are."""
        started, told = self.clock(), 0
        span = Span(client_id, wanted.created_from, wanted.created_before)
        yield header(wanted.written, wanted.columns)
        after = wanted.after
        with self.begin(read_only=True, snapshot=True) as transaction:
            while True:
                rows = _rows(transaction, wanted, span, after)
                if rows:
                    yield lines(wanted.written, rows)
                told += len(rows)
                if tell is not None:
                    tell(told)
                if len(rows) < PAGE:
                    return
                after = str(rows[-1]["id"])
                if self.clock() - started > LONGEST_S:
                    raise StorageUnavailable(
                        f"The export took longer than {LONGEST_S:.0f} s and was broken off; go on "
                        "after the last row that you have."
                    )

    def _note(self, caller: Caller, wanted: ExportRequest, request_id: str | None) -> None:
        with self.begin() as transaction:
            transaction.audit_trail.add(
                Event.by(
                    caller,
                    "export.read",
                    wanted.what.value,
                    id=self.new_id(),
                    at=self.now(),
                    request_id=request_id,
                    **_plain(wanted),
                )
            )
            transaction.commit()


def _rows(
    transaction: Transaction, wanted: ExportRequest, span: Span, after: str | None
) -> list[Row]:
    history = transaction.history
    page: dict[str, Any] = {"after": after, "limit": PAGE}  # Any: two arguments of every list
    match wanted.what:
        case Exported.PREDICTIONS:
            found = [
                ({**prediction_row(one), "client_id": one.client_id}, one)
                for one in history.predictions(span, **page)
            ]
        case Exported.ANNOTATIONS:
            found = [(annotation_row(one, of), of) for one, of in history.annotations(span, **page)]
        case Exported.OUTCOMES:
            found = [(outcome_row(one, of), of) for one, of in history.outcomes(span, **page)]
        case Exported.AUDIT_EVENTS:
            return [event_row(event) for event in history.events(span, **page)]
    return [{**row, **content_row(of)} if wanted.content else row for row, of in found]


def _plain(wanted: ExportRequest) -> dict[str, object]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(wanted).items()
    }


@dataclass(frozen=True)
class SubmitExport:
    """Have a file made in the background, to be downloaded later."""

    export: Export

    def __call__(
        self, caller: Caller, wanted: ExportRequest, *, request_id: str | None = None
    ) -> Job:
        """Return the job; raises what `Export` would."""
        caller.require(Permission.RUN_JOBS)
        self.export.allow(caller, wanted)
        new_id, now = self.export.new_id, self.export.now()
        job = Job(
            id=new_id(),
            kind=EXPORT,
            key=None,
            due_at=now,
            created_at=now,
            owner_id=caller.id,
            payload={"name": caller.name, "role": caller.role.value, "wanted": _plain(wanted)},
        )
        with self.export.begin() as transaction:
            transaction.jobs.enqueue(job)
            transaction.audit_trail.add(
                Event.by(
                    caller,
                    "job.requested",
                    job.id,
                    id=new_id(),
                    at=now,
                    request_id=request_id,
                    kind=EXPORT,
                    **_plain(wanted),
                )
            )
            transaction.commit()
        return job


@dataclass(frozen=True)
class RunExport:
    """Run an export job; one that was interrupted begins anew, on a newer state."""

    export: Export
    files: FileStore

    def __call__(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Write the file; returns how many rows it has."""
        payload = cast("dict[str, Any]", dict(job.payload))  # Any: as `SubmitExport` wrote it
        given = payload["wanted"]
        wanted = ExportRequest(
            what=Exported(given["what"]),
            written=Format(given["written"]),
            content=given["content"],
            created_from=_instant(given["created_from"]),
            created_before=_instant(given["created_before"]),
            after=given["after"],
        )
        caller = Caller(cast("str", job.owner_id), payload["name"], Role(payload["role"]))
        rows = 0

        def tell(n: int) -> None:
            nonlocal rows
            rows = n
            progress(0.5, f"{n} rows")

        name = f"{result_folder(job.id)}/{0:08d}.{wanted.written.value}"
        with self.files.create(name) as sink:
            for part in self.export.parts(wanted, self.export.allow(caller, wanted), tell):
                sink.write(part)
        return {"rows": rows, "location": f"/v1/jobs/{job.id}/result"}


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
