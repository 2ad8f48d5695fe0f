"""Exports on the fake and on both databases: one state, one page in memory, each its own rows."""

import csv
import io
import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import Forbidden, InvalidRequest, StorageUnavailable
from setwise.service.domain.files import COLUMNS, CONTENT, Exported, ExportRequest, Format
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.services import files as module
from setwise.service.services.files import Files
from setwise.service.stores.transaction import Transactions
from tests.building import files
from tests.fakes import START, FakeClock, FakeIds
from tests.samples import (
    ADMIN,
    ANN,
    CLIENT,
    LEAD,
    OTHER_CLIENT,
    add_predictions,
    annotation,
    leased,
    outcome,
    prediction,
)
from tests.services.test_files import Worker

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 3)


@pytest.fixture
def service(begin: Transactions) -> Files:
    return files(begin, FakeClock(), FakeIds(0x7000_0000_0000))


def fill(begin: Transactions, n: int = 8) -> list[Prediction]:
    """Store predictions an hour apart, every third one another client's."""
    made = [
        prediction(
            client_id=(OTHER_CLIENT if number % 3 == 2 else CLIENT).id,
            document=Document(id=f"=note {number}", text="fever", metadata={"n": number}),
            created_at=START + number * HOUR,
        )
        for number in range(n)
    ]
    with begin() as transaction:
        for one in made:
            add_predictions(transaction, one)
            transaction.outcomes.add(outcome(one, "a"))
        transaction.commit()
    return made


def rows(parts: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(parts).splitlines()]


def ids(parts: Iterable[bytes]) -> list[str]:
    return [row["id"] for row in rows(parts)]


def test_predictions_come_in_order_whole_and_only_to_whom_they_belong(
    begin: Transactions, service: Files
) -> None:
    made = fill(begin)
    wanted = ExportRequest(Exported.PREDICTIONS)
    assert ids(service.export(LEAD, wanted)) == [one.id for one in made]
    mine = [one.id for one in made if one.client_id == CLIENT.id]
    assert ids(service.export(CLIENT, wanted)) == mine
    assert (
        ids(service.export(CLIENT, ExportRequest(Exported.PREDICTIONS, after=mine[2]))) == mine[3:]
    )
    span = ExportRequest(
        Exported.PREDICTIONS, created_from=START + HOUR, created_before=START + 4 * HOUR
    )
    assert ids(service.export(ADMIN, span)) == [one.id for one in made[1:4]]


def test_documents_come_only_when_asked_for(begin: Transactions, service: Files) -> None:
    fill(begin, 1)
    plain, whole = (
        rows(service.export(CLIENT, ExportRequest(Exported.PREDICTIONS, content=content)))[0]
        for content in (False, True)
    )
    assert tuple(plain) == COLUMNS[Exported.PREDICTIONS]
    assert whole == {**plain, "text": "fever", "features": None, "metadata": {"n": 0}}


def test_outcomes_and_annotations_stand_beside_what_was_predicted(
    begin: Transactions, service: Files
) -> None:
    made = fill(begin)
    found = rows(service.export(CLIENT, ExportRequest(Exported.OUTCOMES)))
    assert [row["prediction_id"] for row in found] == [
        one.id for one in made if one.client_id == CLIENT.id
    ]
    assert tuple(found[0]) == COLUMNS[Exported.OUTCOMES]
    done = annotate(begin)
    (row,) = rows(service.export(LEAD, ExportRequest(Exported.ANNOTATIONS, content=True)))
    assert tuple(row) == (*COLUMNS[Exported.ANNOTATIONS], *CONTENT)
    assert (row["prediction_id"], row["labels"]) == (done.id, ["a"])
    assert row["text"] == "fever, no cough"


def annotate(begin: Transactions) -> Prediction:
    held = leased()
    with begin() as transaction:
        add_predictions(transaction, held.prediction)
        transaction.reviews.add(held)
        transaction.reviews.annotate(annotation(held, "a"))
        transaction.commit()
    return held.prediction


def test_the_audit_trail_names_the_export_itself(begin: Transactions, service: Files) -> None:
    found = rows(service.export(ADMIN, ExportRequest(Exported.AUDIT_EVENTS), request_id="r-1"))
    assert tuple(found[-1]) == COLUMNS[Exported.AUDIT_EVENTS]
    assert (found[-1]["action"], found[-1]["subject"]) == ("export.read", "audit-events")
    assert (found[-1]["actor_id"], found[-1]["request_id"]) == (ADMIN.id, "r-1")


def test_csv_has_a_header_and_no_formula(begin: Transactions, service: Files) -> None:
    fill(begin, 4)
    parts = service.export(LEAD, ExportRequest(Exported.PREDICTIONS, Format.CSV))
    table = list(csv.DictReader(io.StringIO(b"".join(parts).decode(), newline="")))
    assert [row["document_id"] for row in table] == [f"'=note {n}" for n in range(4)]
    assert tuple(table[0]) == COLUMNS[Exported.PREDICTIONS]


def test_an_export_sees_one_state_however_long_it_takes(
    begin: Transactions, service: Files
) -> None:
    made = fill(begin)
    parts = service.export(LEAD, ExportRequest(Exported.PREDICTIONS))
    first = [next(parts), next(parts)]
    fill(begin, 5)
    assert len(rows([*first, *parts])) == len(made)
    assert len(rows(service.export(LEAD, ExportRequest(Exported.PREDICTIONS)))) == len(made) + 5


def test_an_export_that_takes_too_long_is_broken_off(begin: Transactions) -> None:
    fill(begin)
    instants = iter([0.0, 1.0, 601.0])
    ids = FakeIds(0x7000_0000_0000)
    service = files(begin, FakeClock(), ids, stopwatch=lambda: next(instants))
    parts = service.export(LEAD, ExportRequest(Exported.PREDICTIONS))
    assert len(rows([next(parts), next(parts), next(parts)])) == 6
    with pytest.raises(StorageUnavailable, match="go on after the last row"):
        next(parts)


@pytest.mark.parametrize(
    ("caller", "what"),
    [
        (ANN, Exported.PREDICTIONS),
        (ANN, Exported.ANNOTATIONS),
        (CLIENT, Exported.ANNOTATIONS),
        (CLIENT, Exported.AUDIT_EVENTS),
        (LEAD, Exported.AUDIT_EVENTS),
    ],
)
def test_who_may_not_have_rows_gets_none(
    begin: Transactions, service: Files, caller: Caller, what
) -> None:
    with pytest.raises(Forbidden):
        service.export(caller, ExportRequest(what))
    with pytest.raises(Forbidden):
        service.submit_export(caller, ExportRequest(what))


@pytest.mark.parametrize(
    "wanted",
    [
        ExportRequest(Exported.PREDICTIONS, after="nonsense"),
        ExportRequest(Exported.PREDICTIONS, created_from=START, created_before=START),
        ExportRequest(Exported.AUDIT_EVENTS, content=True),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_read(
    begin: Transactions, service: Files, wanted: ExportRequest
) -> None:
    with pytest.raises(InvalidRequest):
        service.export(ADMIN, wanted)
    with begin(read_only=True) as transaction:
        assert transaction.audit_trail.page(after=None, limit=1).items == ()


def test_a_job_makes_the_same_file(begin: Transactions, service: Files) -> None:
    fill(begin)
    wanted = ExportRequest(
        Exported.PREDICTIONS, Format.CSV, content=True, created_from=START + HOUR
    )
    job = service.submit_export(CLIENT, wanted)
    with begin(read_only=True) as transaction:
        stored = transaction.jobs.get(job.id)
    assert stored is not None
    result = service.run_export(stored, Worker())
    assert result == {"rows": 5, "location": f"/v1/jobs/{job.id}/result"}
    assert service.store.stored == {
        f"jobs/{job.id}/result/00000000.csv": b"".join(service.export(CLIENT, wanted))
    }


def test_every_row_has_the_columns_of_its_kind() -> None:
    assert COLUMNS[Exported.AUDIT_EVENTS] == tuple(
        vars(Event.by(ADMIN, "x", "y", id="z", at=START))
    )
