"""What jobs made: read by whom, and for how long it is kept."""

from datetime import timedelta

import pytest

from setwise.service.domain.errors import JobNotFound, JobUnfinished, ResultNotFound
from tests.building import jobs
from tests.fake_files import FakeFiles
from tests.fakes import START, FakeClock
from tests.samples import ADMIN, CLIENT, OTHER_CLIENT, job
from tests.sqlite import Database

DAY = timedelta(days=1)


def store(database: Database, files: FakeFiles, *parts: bytes, finished: bool = True):
    made = job("scoring", owner_id=CLIENT.id)
    with database() as transaction:
        transaction.jobs.enqueue(made)
        if finished:
            transaction.jobs.change(made.cancelled(START))
        transaction.commit()
    for number, part in enumerate(parts):
        files.stored[f"jobs/{made.id}/result/{number:08d}.jsonl"] = part
    return made


def test_a_result_is_read_part_by_part_in_order() -> None:
    database, files = Database(), FakeFiles()
    made = store(database, files, b"a\n" * 50_000, b"b\n")
    for caller in (CLIENT, ADMIN):
        result = jobs(database, files=files).result(caller, made.id)
        assert result.name == f"scoring-{made.id}.jsonl"
        chunks = list(result.chunks)
        assert b"".join(chunks) == b"a\n" * 50_000 + b"b\n"
        assert max(map(len, chunks)) <= 65_536
    with pytest.raises(JobNotFound):
        jobs(database, files=files).result(OTHER_CLIENT, made.id)


def test_there_is_no_result_before_the_end_or_without_a_file() -> None:
    database, files = Database(), FakeFiles()
    with pytest.raises(JobUnfinished):
        jobs(database, files=files).result(CLIENT, store(database, files, b"a", finished=False).id)
    with pytest.raises(ResultNotFound):
        jobs(database, files=files).result(CLIENT, store(database, files).id)


def test_files_go_when_their_time_is_over() -> None:
    database, files, clock = Database(), FakeFiles(), FakeClock()
    done, running = (store(database, files, b"a", finished=finished) for finished in (True, False))
    begun = f"{int(START.timestamp() * 1000):012x}"
    orphan = f"{begun[:8]}-{begun[8:]}-7000-8000-00000000dead"  # no job ever had this id
    files.stored[f"jobs/{orphan}/upload/documents"] = b"a"
    sweep = jobs(database, clock, files=files, keep_files=7 * DAY).sweep_files
    clock.advance(days=0.5)
    assert sweep() == 0
    clock.advance(days=1)
    assert sweep() == 1
    clock.advance(days=6)
    assert sweep() == 1
    assert files.names("jobs") == [running.id]
    assert done.id != running.id
