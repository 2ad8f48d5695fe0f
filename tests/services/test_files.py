"""Files: every document is predicted once, every export is of one state and one page in memory."""

import gzip
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
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
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakePredictor
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
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


@pytest.fixture
def clinic(begin: Transactions, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """Return a clinic whose blocks, pages and texts are short."""
    monkeypatch.setattr(module, "BLOCK", 4)
    monkeypatch.setattr(module, "PAGE", 3)
    return Clinic(begin, predicting={"max_text_bytes": 1_000})


def submit(clinic: Clinic, content: bytes, by: Caller = CLIENT, **rest: Any) -> tuple[Job, bool]:
    with clinic.files.receive(by) as upload:
        for place in range(0, len(content), 7):
            upload.write(content[place : place + 7])
    return clinic.files.submit_scoring(by, upload, **rest)


def hand_over(clinic: Clinic, content: bytes) -> Job:
    """Return a job of a file that is larger than an upload of the tests may be."""
    job, _ = submit(clinic, b"{}")
    with clinic.disk.create(f"jobs/{job.id}/upload/documents") as sink:
        sink.write(content)
    return replace(job, payload={**job.payload, "bytes": len(content)})


def result_of(clinic: Clinic, job: Job) -> list[dict[str, Any]]:
    folder = f"jobs/{job.id}/result"
    return rows(clinic.disk.stored[f"{folder}/{name}"] for name in clinic.disk.names(folder))


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
    clinic: Clinic, content: bytes
) -> None:
    job = hand_over(clinic, gzip.compress(content, 1))
    with pytest.raises(Cancelled):
        clinic.files.score(job, Canceller())


@pytest.mark.parametrize("resumed", [False, True])
def test_a_file_of_too_many_lines_or_bytes_is_refused_after_what_came_before(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    content = gzip.compress(lines(8) + b"\n" * 100_000)
    for name, most in (("MOST_LINES", 50_000), ("MOST_INFLATED_BYTES", 60_000)):
        with monkeypatch.context() as patched:
            patched.setattr(domain, name, most)
            job = hand_over(clinic, content)
            worker = Worker()
            for _ in range(1 + resumed):
                with pytest.raises(errors.InvalidRequest, match="more than"):
                    clinic.files.score(replace(job, checkpoint=worker.kept), worker)
        assert len(result_of(clinic, job)) == 8


def lines(n: int) -> bytes:
    return b"".join(
        json.dumps({"id": f"note-{i}", "text": "0.5", "metadata": {"n": i}}).encode() + b"\n"
        for i in range(n)
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_every_document_of_a_file_is_predicted_and_queued(clinic: Clinic, pack: Any) -> None:
    job, new = submit(clinic, pack(lines(10)), CLIENT.calling_from(None, "r-1"))
    assert new
    worker = Worker()
    assert clinic.files.score(job, worker) == {
        "documents": 10,
        "predicted": 10,
        "faulty": 0,
        "location": f"/v1/jobs/{job.id}/result",
    }
    contents = clinic.contents
    assert [p.document.id for p in contents.predictions.values()] == [
        f"note-{i}" for i in range(10)
    ]
    assert {p.client_id for p in contents.predictions.values()} == {CLIENT.id}
    assert len(contents.reviews) == 10
    rows = result_of(clinic, job)
    assert [row["line"] for row in rows] == list(range(1, 11))
    assert [row["prediction"]["id"] for row in rows] == list(contents.predictions)
    assert worker.told == sorted(worker.told)
    assert not any("upload" in name for name in clinic.disk.stored)
    events = [e for e in contents.events.values() if e.action == "prediction.created"]
    assert {event.request_id for event in events} == {"r-1"}


@pytest.mark.parametrize("die_at", [1, 2, 3, 4])
def test_a_worker_that_dies_loses_and_doubles_nothing(clinic: Clinic, die_at: int) -> None:
    """It dies after the predictions of a block were stored, before the checkpoint was."""
    job, _ = submit(clinic, lines(10))
    dying = Worker(die_at)
    if die_at <= 3:
        with pytest.raises(Died):
            clinic.files.score(job, dying)
    else:  # only the last checkpoint, which says that all is done, is lost
        dying.die_at = None
        clinic.files.score(job, dying)
        assert dying.kept is not None
        dying.kept = {**dying.kept, "line": 8, "parts": 2, "documents": 8, "predicted": 8}
    result = clinic.files.score(replace(job, checkpoint=dying.kept), Worker())
    assert result["predicted"] == (10 if die_at <= 3 else 8)
    assert len(clinic.contents.predictions) == 10
    rows = result_of(clinic, job)
    assert [row["line"] for row in rows] == list(range(1, 11))
    assert len({row["prediction"]["id"] for row in rows}) == 10


def test_a_job_that_was_done_before_its_worker_died_is_done(clinic: Clinic) -> None:
    job, _ = submit(clinic, lines(3))
    first = Worker()
    before = clinic.files.score(job, first)
    assert clinic.files.score(replace(job, checkpoint=first.kept), Worker()) == before


def test_a_bad_line_is_named_and_spoils_no_other(clinic: Clinic) -> None:
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
    job, _ = submit(clinic, content)
    counts = clinic.files.score(job, Worker())
    assert (counts["predicted"], counts["faulty"]) == (2, len(bad))
    assert str(counts["message"]).startswith(
        "Finished with errors: 10 of 12 documents refused. Line 4: The line is not JSON"
    )
    rows = result_of(clinic, job)
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
    assert len(clinic.contents.predictions) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{}\n" * 6, "None of the 6 documents could be predicted. Line 1: The document cannot be"),
        (b"\n" * 6, "The file holds no documents"),
    ],
)
def test_a_file_of_which_nothing_is_predicted_fails_and_says_why(
    clinic: Clinic, content: bytes, why: str
) -> None:
    job, _ = submit(clinic, content)
    worker = Worker()
    with pytest.raises(errors.InvalidRequest, match=why):
        clinic.files.score(job, worker)
    with pytest.raises(errors.InvalidRequest, match=why):  # its worker died before it said so
        clinic.files.score(replace(job, checkpoint=worker.kept), Worker())
    assert len(result_of(clinic, job)) == content.count(b"{}")
    assert not any("upload" in name for name in clinic.disk.stored)


def test_while_the_model_loads_the_job_waits_and_nothing_is_skipped(clinic: Clinic) -> None:
    job, _ = submit(clinic, lines(6))
    predictor = clinic.predictors.unload()
    worker = Worker()
    with pytest.raises(errors.ModelLoading):
        clinic.files.score(job, worker)
    assert worker.kept is None
    clinic.predictors.predictor = predictor
    assert clinic.files.score(job, Worker())["predicted"] == 6


def test_without_a_model_every_document_of_a_file_waits_for_a_person(clinic: Clinic) -> None:
    job, _ = submit(clinic, lines(6))
    clinic.predictors.predictor = None
    assert clinic.files.score(job, Worker())["predicted"] == 6
    rows = [row["prediction"] for row in result_of(clinic, job)]
    assert {(row["reason"], row["confidence"], row["labels"]) for row in rows} == {
        ("no_model", None, None)
    }


def test_long_lines_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "BLOCK_BYTES", 100)
    content = io.BytesIO(b"".join(b"x" * n + b"\n" for n in [60] * 5 + [1] * 8))
    blocks = domain.read_blocks(content, after=0, size=7, longest=1_000)
    assert [len(block) for block in blocks] == [2, 2, 7, 2]


@pytest.mark.parametrize("damage", ["cut off", "overwritten"])
def test_damaged_gzip_ends_the_job_and_says_where(clinic: Clinic, damage: str) -> None:
    content = gzip.compress(b"".join(lines(50)[i * 60 : (i + 1) * 60] for i in range(50)))
    content = content[:-12] if damage == "cut off" else content[:80] + b"\0" * 40 + content[120:]
    job, _ = submit(clinic, content)
    with pytest.raises(errors.InvalidRequest, match="damaged after line"):
        clinic.files.score(job, Worker())


def test_under_one_key_a_file_is_scored_once(clinic: Clinic) -> None:
    job, new = submit(clinic, lines(3), request_key="monday")
    assert new
    assert submit(clinic, lines(3), request_key="monday") == (job, False)
    with pytest.raises(errors.IdempotencyMismatch):
        submit(clinic, lines(4), request_key="monday")
    theirs, new = submit(clinic, lines(3), by=OTHER_CLIENT, request_key="monday")
    assert new
    assert set(clinic.disk.names("jobs")) == {job.id, theirs.id}


def test_bad_uploads_are_refused_and_forgotten(clinic: Clinic) -> None:
    with pytest.raises(errors.InvalidRequest):
        submit(clinic, b"")
    with pytest.raises(errors.InvalidRequest):
        submit(clinic, lines(1), request_key="x" * 256)
    with pytest.raises(errors.UploadTooLarge):
        submit(clinic, b"x" * 100_001)
    assert clinic.disk.stored == {}
    assert clinic.contents.jobs == {}


def test_a_file_that_vanished_ends_the_job(clinic: Clinic) -> None:
    job, _ = submit(clinic, lines(1))
    clinic.disk.remove(f"jobs/{job.id}")
    with pytest.raises(errors.InvalidRequest, match="no longer there"):
        clinic.files.score(job, Worker())


HOUR = timedelta(hours=1)


def fill(clinic: Clinic, n: int = 8) -> list[Prediction]:
    """Store predictions an hour apart, every third one another client's."""
    predictions = [
        prediction(
            client_id=(OTHER_CLIENT if number % 3 == 2 else CLIENT).id,
            document=Document(id=f"=note {number}", text="fever", metadata={"n": number}),
            created_at=START + number * HOUR,
        )
        for number in range(n)
    ]
    with clinic.begin() as transaction:
        for one in predictions:
            add_predictions(transaction, one)
            transaction.outcomes.add(outcome(one, "a"))
    return predictions


def rows(parts: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(parts).splitlines()]


def ids(parts: Iterable[bytes]) -> list[str]:
    return [row["id"] for row in rows(parts)]


def test_predictions_come_in_order_whole_and_only_to_whom_they_belong(clinic: Clinic) -> None:
    predictions = fill(clinic)
    request = ExportRequest(Exported.PREDICTIONS)
    assert ids(clinic.files.export(LEAD, request)) == [one.id for one in predictions]
    mine = [one.id for one in predictions if one.client_id == CLIENT.id]
    assert ids(clinic.files.export(CLIENT, request)) == mine
    assert (
        ids(clinic.files.export(CLIENT, ExportRequest(Exported.PREDICTIONS, after=mine[2])))
        == mine[3:]
    )
    span = ExportRequest(
        Exported.PREDICTIONS, created_from=START + HOUR, created_before=START + 4 * HOUR
    )
    assert ids(clinic.files.export(ADMIN, span)) == [one.id for one in predictions[1:4]]


def test_documents_come_only_when_asked_for(clinic: Clinic) -> None:
    fill(clinic, 1)
    plain, whole = (
        rows(clinic.files.export(CLIENT, ExportRequest(Exported.PREDICTIONS, content=content)))[0]
        for content in (False, True)
    )
    assert tuple(plain) == COLUMNS[Exported.PREDICTIONS]
    content = {"text": "fever", "features": None, "metadata": {"n": 0}}
    answer = {"answer_scores": None, "answer_candidates": None, "answer": None}
    assert whole == {**plain, **content, **answer}


def test_lines_hold_what_another_model_answered(clinic: Clinic) -> None:
    clinic.predictors.predictor = FakePredictor(external=True)
    rest = {"answer_scores": None, "answer_candidates": None, "answer": None}
    sets: list[dict[str, object]] = [{"labels": ["a"]}, {"labels": [], "score": -3}]
    given: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"scores": {"a": 1, "b": 0.25}, "labels": ["c"]}, {"answer_scores": {"a": 1, "b": 0.25}}),
        ({"candidates": sets}, {"answer_candidates": sets}),
        ({"text": "wheat", "answer": ["a"], "labels": ["c"]}, {"answer": ["a"]}),
        ({"text": "wheat", "labels": ["a", "b"]}, {"answer": ["a", "b"]}),
    ]
    job, _ = submit(clinic, b"".join(json.dumps(line).encode() + b"\n" for line, _ in given))
    assert clinic.files.score(job, Worker())["predicted"] == len(given)
    items = rows(clinic.files.export(CLIENT, ExportRequest(Exported.PREDICTIONS, content=True)))
    for (_, kept), row in zip(given, items, strict=True):
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
    clinic: Clinic, line: dict[str, object], pointer: str
) -> None:
    clinic.predictors.predictor = FakePredictor(external=True)
    content = json.dumps(line) + '\n{"answer": ["a"]}\n'
    job, _ = submit(clinic, content.encode())
    assert clinic.files.score(job, Worker())["predicted"] == 1
    bad, good = result_of(clinic, job)
    assert [error["pointer"] for error in bad["problem"]["errors"]] == [pointer]
    assert "prediction" in good


@ON_BOTH
def test_outcomes_and_annotations_stand_beside_what_was_predicted(clinic: Clinic) -> None:
    predictions = fill(clinic)
    items = rows(clinic.files.export(CLIENT, ExportRequest(Exported.OUTCOMES)))
    assert [row["prediction_id"] for row in items] == [
        one.id for one in predictions if one.client_id == CLIENT.id
    ]
    assert tuple(items[0]) == COLUMNS[Exported.OUTCOMES]
    prediction = annotate(clinic)
    (row,) = rows(clinic.files.export(LEAD, ExportRequest(Exported.ANNOTATIONS, content=True)))
    assert tuple(row) == (*COLUMNS[Exported.ANNOTATIONS], *CONTENT)
    assert (row["prediction_id"], row["labels"]) == (prediction.id, ["a"])
    assert row["text"] == "fever, no cough"


def annotate(clinic: Clinic) -> Prediction:
    task = leased()
    with clinic.begin() as transaction:
        add_predictions(transaction, task.prediction)
        transaction.reviews.add(task)
        transaction.reviews.annotate(annotation(task, "a"))
    return task.prediction


def test_the_audit_trail_names_the_export_itself(clinic: Clinic) -> None:
    items = rows(
        clinic.files.export(ADMIN.calling_from(None, "r-1"), ExportRequest(Exported.AUDIT_EVENTS))
    )
    assert tuple(items[-1]) == COLUMNS[Exported.AUDIT_EVENTS]
    assert (items[-1]["action"], items[-1]["subject"]) == ("export.read", "audit-events")
    assert (items[-1]["actor_id"], items[-1]["request_id"]) == (ADMIN.id, "r-1")


@ON_BOTH
def test_an_export_sees_one_state_however_long_it_takes(clinic: Clinic) -> None:
    predictions = fill(clinic)
    parts = clinic.files.export(LEAD, ExportRequest(Exported.PREDICTIONS))
    first = [next(parts), next(parts)]
    fill(clinic, 5)
    assert len(rows([*first, *parts])) == len(predictions)
    assert (
        len(rows(clinic.files.export(LEAD, ExportRequest(Exported.PREDICTIONS))))
        == len(predictions) + 5
    )


def test_an_export_that_takes_too_long_is_broken_off(clinic: Clinic) -> None:
    fill(clinic)
    instants = iter([0.0, 1.0, 601.0])
    slow = replace(clinic.files, stopwatch=lambda: next(instants))
    parts = slow.export(LEAD, ExportRequest(Exported.PREDICTIONS))
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
def test_who_may_not_have_rows_gets_none(clinic: Clinic, caller: Caller, what) -> None:
    with pytest.raises(errors.Forbidden):
        clinic.files.export(caller, ExportRequest(what))
    with pytest.raises(errors.Forbidden):
        clinic.files.submit_export(caller, ExportRequest(what))


@pytest.mark.parametrize(
    "wanted",
    [
        ExportRequest(Exported.PREDICTIONS, after="nonsense"),
        ExportRequest(Exported.PREDICTIONS, created_from=START, created_before=START),
        ExportRequest(Exported.AUDIT_EVENTS, content=True),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_read(
    clinic: Clinic, wanted: ExportRequest
) -> None:
    with pytest.raises(errors.InvalidRequest):
        clinic.files.export(ADMIN, wanted)
    assert not clinic.contents.events


def test_a_job_makes_the_same_file(clinic: Clinic) -> None:
    fill(clinic)
    request = ExportRequest(
        Exported.PREDICTIONS, Format.CSV, content=True, created_from=START + HOUR
    )
    job = clinic.files.submit_export(CLIENT, request)
    result = clinic.files.run_export(clinic.contents.jobs[job.id], Worker())
    assert result == {"rows": 5, "location": f"/v1/jobs/{job.id}/result"}
    assert clinic.disk.stored == {
        f"jobs/{job.id}/result/00000000.csv": b"".join(clinic.files.export(CLIENT, request))
    }


@ON_BOTH
@pytest.mark.parametrize("written", list(Format))
def test_a_job_that_is_killed_again_and_again_goes_on_where_it_was(
    clinic: Clinic, written: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "PART_S", -1.0)  # a part for each page
    fill(clinic)
    request = ExportRequest(Exported.PREDICTIONS, written)
    whole = b"".join(clinic.files.export(LEAD, request))
    job = clinic.files.submit_export(LEAD, request)
    deaths = 0
    while True:
        worker = Worker(die_at=2)  # with its second part
        try:
            result = clinic.files.run_export(job, worker)
        except Died:
            deaths += 1
            job = replace(job, checkpoint=worker.kept or job.checkpoint)
            with clinic.begin() as transaction:  # it was not there when the export began
                add_predictions(transaction, prediction())
        else:
            break
    store = clinic.disk
    assert b"".join(store.stored[name] for name in sorted(store.stored)) == whole
    assert deaths == 3
    assert result["rows"] == whole.count(b"\n") - (written is Format.CSV)


def test_a_worker_that_lost_its_export_writes_no_file(clinic: Clinic) -> None:
    fill(clinic)
    job = clinic.files.submit_export(LEAD, ExportRequest(Exported.PREDICTIONS))
    with pytest.raises(Died):
        clinic.files.run_export(job, Worker(die_at=1))
    assert clinic.disk.stored == {}


def test_only_an_export_that_is_streamed_has_a_longest_time(clinic: Clinic) -> None:
    fill(clinic)
    slow = replace(clinic.files, stopwatch=count(0, 700).__next__)
    request = ExportRequest(Exported.PREDICTIONS)
    with pytest.raises(errors.StorageSlow):
        b"".join(slow.export(LEAD, request))
    assert slow.run_export(slow.submit_export(LEAD, request), Worker())["rows"]


def test_every_row_has_the_columns_of_its_kind() -> None:
    event = AuditEvent.by(ADMIN, "x", "y", id="z", at=START)
    assert COLUMNS[Exported.AUDIT_EVENTS] == tuple(event_row(event))
    assert {*event_row(event), "actor"} == {*vars(event), "actor_id", "actor_name"}
