"""Files: every document is predicted once, every export is of one state and one page in memory."""

import gzip
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from setwise.service.domain import errors
from setwise.service.domain import files as domain
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.files import (
    COLUMNS,
    CONTENT,
    Exported,
    ExportRequest,
    Format,
    event_row,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.services import files as module
from setwise.service.services.files import Files
from setwise.service.services.predictions import Predictions
from setwise.service.stores.transaction import Transactions
from tests.building import files
from tests.database import ON_BOTH
from tests.fake_files import FakeFiles
from tests.fakes import LOTTERY, START, FakeClock, FakeIds, FakePredictor, FakePredictors
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
from tests.sqlite import Database


class Died(Exception):
    """The worker is gone."""


class Worker:
    """Runs a job as `setwise.service.runtime.worker` does, and dies when it is told to."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at = die_at
        self.kept: Mapping[str, object] | None = None
        self.told: list[float] = []

    def __call__(self, progress: float, message: str = "") -> None:
        self.told.append(progress)

    def checkpoint(self, state: Mapping[str, object]) -> None:
        if self.die_at is not None and len(self.told) >= self.die_at:
            raise Died
        self.kept = dict(state)


class Desk:
    """A database, files, and the service of files on them."""

    def __init__(self) -> None:
        self.database, self.clock, self.ids = Database(), FakeClock(), FakeIds()
        self.files, self.predictors = FakeFiles(), FakePredictors()
        self.predictions = Predictions(
            self.predictors, self.database, self.clock, self.ids, LOTTERY, max_text_bytes=1_000
        )
        self.service = files(
            self.database, self.clock, self.ids,
            store=self.files, predict=self.predictions.predict, predictors=self.predictors,
        )  # fmt: skip
        self.score = self.service.score

    def submit(self, content: bytes, by: Caller = CLIENT, **rest: Any) -> tuple[Job, bool]:
        with self.service.receive(by) as upload:
            for place in range(0, len(content), 7):
                upload.write(content[place : place + 7])
        return self.service.submit_scoring(by, upload, **rest)

    def hand_over(self, content: bytes) -> Job:
        """Return a job of a file that is larger than an upload of the tests may be."""
        job, _ = self.submit(b"{}")
        with self.files.create(f"jobs/{job.id}/upload/documents") as sink:
            sink.write(content)
        return replace(job, payload={**job.payload, "bytes": len(content)})

    def result(self, job: Job) -> list[dict[str, Any]]:
        folder = f"jobs/{job.id}/result"
        parts = [self.files.stored[f"{folder}/{name}"] for name in self.files.names(folder)]
        return [json.loads(line) for line in b"".join(parts).splitlines()]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(module, "BLOCK", 4)
    return Desk()


class Cancelled(Exception):
    """The job was cancelled."""


class Canceller(Worker):
    """Runs a job until it has reported progress three times."""

    def __call__(self, progress: float, message: str = "") -> None:
        super().__call__(progress, message)
        if len(self.told) == 3:
            raise Cancelled


@pytest.mark.parametrize(
    "content",
    [b"\n" * 500_000, b" " * 80_000_000, b"{}\n" + b"x" * 80_000_000],
    ids=["blank lines", "one blank line", "one long line"],
)
def test_a_file_without_documents_reports_progress_and_can_be_cancelled(
    desk: Desk, content: bytes
) -> None:
    job = desk.hand_over(gzip.compress(content, 1))
    with pytest.raises(Cancelled):
        desk.score(job, Canceller())


@pytest.mark.parametrize("resumed", [False, True])
def test_a_file_of_too_many_lines_or_bytes_is_refused_after_what_came_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    content = gzip.compress(lines(8) + b"\n" * 100_000)
    for name, most in (("MOST_LINES", 50_000), ("MOST_INFLATED_BYTES", 60_000)):
        with monkeypatch.context() as patched:
            patched.setattr(domain, name, most)
            job = desk.hand_over(content)
            worker = Worker()
            for _ in range(1 + resumed):
                with pytest.raises(errors.InvalidRequest, match="more than"):
                    desk.score(replace(job, checkpoint=worker.kept), worker)
        assert len(desk.result(job)) == 8


def lines(n: int) -> bytes:
    return b"".join(
        json.dumps({"id": f"note-{i}", "text": "0.5", "metadata": {"n": i}}).encode() + b"\n"
        for i in range(n)
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_every_document_of_a_file_is_predicted_and_queued(desk: Desk, pack: Any) -> None:
    job, new = desk.submit(pack(lines(10)), CLIENT.calling_from(None, "r-1"))
    assert new
    worker = Worker()
    assert desk.score(job, worker) == {
        "documents": 10,
        "predicted": 10,
        "faulty": 0,
        "location": f"/v1/jobs/{job.id}/result",
    }
    stored = desk.database.contents
    assert [p.document.id for p in stored.predictions.values()] == [f"note-{i}" for i in range(10)]
    assert {p.client_id for p in stored.predictions.values()} == {CLIENT.id}
    assert len(stored.reviews) == 10
    rows = desk.result(job)
    assert [row["line"] for row in rows] == list(range(1, 11))
    assert [row["prediction"]["id"] for row in rows] == list(stored.predictions)
    assert worker.told == sorted(worker.told)
    assert not any("upload" in name for name in desk.files.stored)
    created = [e for e in stored.events.values() if e.action == "prediction.created"]
    assert {event.request_id for event in created} == {"r-1"}


@pytest.mark.parametrize("die_at", [1, 2, 3, 4])
def test_a_worker_that_dies_loses_and_doubles_nothing(desk: Desk, die_at: int) -> None:
    """It dies after the predictions of a block were stored, before the checkpoint was."""
    job, _ = desk.submit(lines(10))
    dying = Worker(die_at)
    if die_at <= 3:
        with pytest.raises(Died):
            desk.score(job, dying)
    else:  # only the last checkpoint, which says that all is done, is lost
        dying.die_at = None
        desk.score(job, dying)
        assert dying.kept is not None
        dying.kept = {**dying.kept, "line": 8, "parts": 2, "documents": 8, "predicted": 8}
    result = desk.score(replace(job, checkpoint=dying.kept), Worker())
    assert result["predicted"] == (10 if die_at <= 3 else 8)
    assert len(desk.database.contents.predictions) == 10
    rows = desk.result(job)
    assert [row["line"] for row in rows] == list(range(1, 11))
    assert len({row["prediction"]["id"] for row in rows}) == 10


def test_a_job_that_was_done_before_its_worker_died_is_done(desk: Desk) -> None:
    job, _ = desk.submit(lines(3))
    first = Worker()
    before = desk.score(job, first)
    assert desk.score(replace(job, checkpoint=first.kept), Worker()) == before


def test_a_bad_line_is_named_and_spoils_no_other(desk: Desk) -> None:
    good = b'{"text": "0.9", "labels": ["a"], "annotator": "x"}\n'
    bad = [
        b"{\n",
        b"[]\n",
        b"\xff\n",
        b'{"text": 5, "more": 1, "metadata": []}\n',
        b'{"id": "x"}\n',
        b'{"text": "' + b"y" * 1_001 + b'"}\n',
        b'{"text": "' + b"y" * 5_000 + b'"}\n',
        b'{"text": "x", "metadata": {"n": NaN}}\n',
        b"[" * 1_500 + b"\n",
        b'{"features": {"bp": "high", "age": 1e300}}\n',
    ]
    content = b"\n".join([good, b"", *bad, good.strip()])
    job, _ = desk.submit(content)
    counts = desk.score(job, Worker())
    assert (counts["predicted"], counts["faulty"]) == (2, len(bad))
    rows = desk.result(job)
    numbers = [row["line"] for row in rows]
    assert numbers == [1, *range(4, 4 + 2 * len(bad), 2), 4 + 2 * len(bad)]
    problems = [row["problem"] for row in rows if "problem" in row]
    pointers = [[error["pointer"] for error in problem["errors"]] for problem in problems]
    assert pointers[3] == ["/more", "/text", "/metadata"]
    assert pointers[4] == [""]
    assert pointers[7] == ["/metadata/n"]
    assert pointers[9] == ["/features", "/features"]
    assert "longer" in problems[6]["detail"]
    assert all(problem["detail"] for problem in problems)
    assert len(desk.database.contents.predictions) == 2


def test_without_a_model_the_job_waits_and_nothing_is_skipped(desk: Desk) -> None:
    job, _ = desk.submit(lines(6))
    predictor, desk.predictors.predictor = desk.predictors.predictor, None
    worker = Worker()
    with pytest.raises(errors.ModelUnavailable):
        desk.score(job, worker)
    assert worker.kept is None
    desk.predictors.predictor = predictor
    assert desk.score(job, Worker())["predicted"] == 6


def test_long_lines_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "BLOCK_BYTES", 100)
    content = io.BytesIO(b"".join(b"x" * n + b"\n" for n in [60] * 5 + [1] * 8))
    blocks = domain.read_blocks(content, after=0, size=7, longest=1_000)
    assert [len(block) for block in blocks] == [2, 2, 7, 2]


@pytest.mark.parametrize("damage", ["cut off", "overwritten"])
def test_damaged_gzip_ends_the_job_and_says_where(desk: Desk, damage: str) -> None:
    content = gzip.compress(b"".join(lines(50)[i * 60 : (i + 1) * 60] for i in range(50)))
    content = content[:-12] if damage == "cut off" else content[:80] + b"\0" * 40 + content[120:]
    job, _ = desk.submit(content)
    with pytest.raises(errors.InvalidRequest, match="damaged after line"):
        desk.score(job, Worker())


def test_under_one_key_a_file_is_scored_once(desk: Desk) -> None:
    job, new = desk.submit(lines(3), request_key="monday")
    assert new
    assert desk.submit(lines(3), request_key="monday") == (job, False)
    with pytest.raises(errors.IdempotencyMismatch):
        desk.submit(lines(4), request_key="monday")
    theirs, new = desk.submit(lines(3), by=OTHER_CLIENT, request_key="monday")
    assert new
    assert set(desk.files.names("jobs")) == {job.id, theirs.id}


def test_bad_uploads_are_refused_and_forgotten(desk: Desk) -> None:
    with pytest.raises(errors.InvalidRequest):
        desk.submit(b"")
    with pytest.raises(errors.InvalidRequest):
        desk.submit(lines(1), request_key="x" * 256)
    with pytest.raises(errors.UploadTooLarge):
        desk.submit(b"x" * 100_001)
    assert desk.files.stored == {}
    assert desk.database.contents.jobs == {}


def test_a_file_that_vanished_ends_the_job(desk: Desk) -> None:
    job, _ = desk.submit(lines(1))
    desk.files.remove(f"jobs/{job.id}")
    with pytest.raises(errors.InvalidRequest, match="no longer there"):
        desk.score(job, Worker())


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
    content = {"text": "fever", "features": None, "metadata": {"n": 0}}
    assert whole == {**plain, **content, "scores": None, "candidates": None, "answer": None}


def test_lines_hold_what_another_model_answered(desk: Desk) -> None:
    desk.predictors.predictor = FakePredictor(external=True)
    rest = {"scores": None, "candidates": None, "answer": None}
    sets: list[dict[str, object]] = [{"labels": ["a"]}, {"labels": [], "score": -3}]
    given: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"scores": {"a": 1, "b": 0.25}, "labels": ["c"]}, {"scores": {"a": 1, "b": 0.25}}),
        ({"candidates": sets}, {"candidates": sets}),
        ({"text": "wheat", "answer": ["a"], "labels": ["c"]}, {"answer": ["a"]}),
        ({"text": "wheat", "labels": ["a", "b"]}, {"answer": ["a", "b"]}),
    ]
    job, _ = desk.submit(b"".join(json.dumps(line).encode() + b"\n" for line, _ in given))
    assert desk.score(job, Worker())["predicted"] == len(given)
    exported = rows(desk.service.export(CLIENT, ExportRequest(Exported.PREDICTIONS, content=True)))
    for (_, kept), row in zip(given, exported, strict=True):
        assert {name: row[name] for name in rest} == {**rest, **kept}


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ({"scores": [0.5]}, "/scores"),
        ({"scores": {"a": "high"}}, "/scores"),
        ({"scores": {"a": 10**400}}, "/scores"),
        ({"candidates": {"a": 1}}, "/candidates"),
        ({"candidates": [["a"]]}, "/candidates/0"),
        ({"candidates": [{"labels": "a"}]}, "/candidates/0/labels"),
        ({"candidates": [{"labels": [], "score": True}]}, "/candidates/0"),
        ({"answer": "a"}, "/answer"),
        ({"labels": [1]}, "/labels"),
    ],
)
def test_a_line_with_a_bad_answer_spoils_no_other(
    desk: Desk, line: dict[str, object], pointer: str
) -> None:
    desk.predictors.predictor = FakePredictor(external=True)
    content = json.dumps(line) + '\n{"answer": ["a"]}\n'
    job, _ = desk.submit(content.encode())
    assert desk.score(job, Worker())["predicted"] == 1
    bad, good = desk.result(job)
    assert [error["pointer"] for error in bad["problem"]["errors"]] == [pointer]
    assert "prediction" in good


@ON_BOTH
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
    return held.prediction


def test_the_audit_trail_names_the_export_itself(begin: Transactions, service: Files) -> None:
    found = rows(
        service.export(ADMIN.calling_from(None, "r-1"), ExportRequest(Exported.AUDIT_EVENTS))
    )
    assert tuple(found[-1]) == COLUMNS[Exported.AUDIT_EVENTS]
    assert (found[-1]["action"], found[-1]["subject"]) == ("export.read", "audit-events")
    assert (found[-1]["actor_id"], found[-1]["request_id"]) == (ADMIN.id, "r-1")


@ON_BOTH
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
    with pytest.raises(errors.StorageUnavailable, match="go on after the last row"):
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
    with pytest.raises(errors.Forbidden):
        service.export(caller, ExportRequest(what))
    with pytest.raises(errors.Forbidden):
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
    with pytest.raises(errors.InvalidRequest):
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
    event = AuditEvent.by(ADMIN, "x", "y", id="z", at=START)
    assert COLUMNS[Exported.AUDIT_EVENTS] == tuple(event_row(event))
    assert {*event_row(event), "actor"} == {*vars(event), "actor_id", "actor_name"}
