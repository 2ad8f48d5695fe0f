"""A process that is killed without warning: what it acknowledged is there, whole, exactly once."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sqlalchemy import text

from setwise.service.domain.predictions import Document, IdempotencyKey
from setwise.service.domain.recalibration import Activate, Options
from setwise.service.services.predictions import Predictions
from setwise.service.stores.database import create, new_id, utc_now
from setwise.service.stores.transaction import Transactions
from tests.building import jobs, predict_one
from tests.fakes import LOTTERY, FakePredictors
from tests.samples import ADMIN, CLIENT
from tests.services.test_recalibration import Loop

ROOT = Path(__file__).parents[2]

WRITER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[2])
    from setwise.service.stores.database import utc_now
    from setwise.service.stores.database import create
    from setwise.service.stores.database import new_id
    from setwise.service.stores.transaction import Transactions
    from setwise.service.domain.predictions import Document, IdempotencyKey
    from setwise.service.services.predictions import Predictions
    from tests.building import predict_one
    from tests.fakes import LOTTERY, FakePredictors
    from tests.samples import CLIENT

    begin = Transactions(create(sys.argv[1]))
    predictions = Predictions(FakePredictors(), begin, utc_now, new_id, LOTTERY)
    for number in range(100_000):
        key = IdempotencyKey(f"request-{number}", "digest")
        document = Document(text="0.4 of " + "x" * 3000)
        made = predict_one(predictions, CLIENT, document, idempotency=key)
        print(made.id, flush=True)
    """
)


@pytest.mark.slow
def test_every_acknowledged_prediction_survives_a_kill_with_its_task(database_url: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database_url, ROOT], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(50)]
    writer.send_signal(signal.SIGKILL)  # in the middle of the next ones
    acknowledged += writer.stdout.read().split()
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL

    engine = create(database_url)
    with engine.connect() as connection:
        # In one look: a server may commit what the killed process asked it to at any moment.
        rows = connection.execute(
            text(
                """SELECT p.id, t.id IS NOT NULL AND k.key IS NOT NULL AND p.actor_name IS NOT NULL
                   FROM predictions p
                   LEFT JOIN review_tasks t ON t.prediction_id = p.id
                   LEFT JOIN idempotency_keys k ON k.prediction_id = p.id
                   ORDER BY p.id"""
            )
        ).all()
    ids = [str(identity) for identity, _ in rows]
    assert set(acknowledged) <= set(ids)
    assert all(whole for _, whole in rows)
    # At most the one under way was stored without its answer, and its client learns of it.
    assert len(ids) - len(acknowledged) in {0, 1}
    predictions = Predictions(FakePredictors(), Transactions(engine), utc_now, new_id, LOTTERY)
    for number, identity in enumerate(ids):
        key = IdempotencyKey(f"request-{number}", "digest")
        again = predict_one(predictions, CLIENT, Document(text="any"), idempotency=key)
        assert again.id == identity
    engine.dispose()


WORKER = textwrap.dedent(
    """
    import sys, time
    sys.path.insert(0, sys.argv[2])
    from datetime import timedelta
    from setwise.service.stores.database import utc_now
    from setwise.service.stores.database import create
    from setwise.service.stores.transaction import Transactions
    from tests.building import jobs

    claim = jobs(Transactions(create(sys.argv[1])), lease=timedelta(seconds=1)).claim
    print(claim(["fit"]).id, flush=True)
    time.sleep(60)
    """
)


@pytest.mark.slow
def test_another_worker_takes_over_the_job_of_a_killed_one(database_url: str) -> None:
    engine = create(database_url)
    begin = Transactions(engine)
    job = jobs(begin).enqueue("fit")
    assert job is not None
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, database_url, ROOT], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == job.id
    worker.kill()
    worker.wait()
    worker.stdout.close()
    claim = jobs(begin).claim
    taken_job = None
    while taken_job is None:
        taken_job = claim(["fit"])
    assert (taken_job.id, taken_job.attempt, taken_job.token) == (job.id, 2, 2)
    engine.dispose()


RECALIBRATION = textwrap.dedent(
    """
    import sys, time
    sys.path.insert(0, sys.argv[2])
    from dataclasses import replace
    from datetime import timedelta
    from setwise.service.stores.database import utc_now
    from setwise.service.stores.database import create
    from setwise.service.stores.transaction import Transactions
    from setwise.service.domain.recalibration import Activate
    from tests.building import jobs
    from tests.fakes import FakeCalibrators
    from tests.services.test_recalibration import Loop

    class Slow(FakeCalibrators):
        def add_calibrator(self, kept):
            print(kept.version, flush=True)
            time.sleep(60)

    begin = Transactions(create(sys.argv[1]))
    job = jobs(begin, lease=timedelta(seconds=1)).claim(["calibration"])
    loop = Loop(begin)
    loop.recalibration = replace(loop.recalibration, calibrators=Slow())
    loop.run(activate=Activate.IF_BETTER)
    """
)


@pytest.mark.slow
def test_a_recalibration_that_is_killed_changes_nothing_and_is_done_again(
    database_url: str,
) -> None:
    engine = create(database_url)
    begin = Transactions(engine)
    loop = Loop(begin)
    loop.register()
    loop.review(loop.predict(300))
    job = loop.recalibration.request(ADMIN, Options(activate=Activate.IF_BETTER))
    worker = subprocess.Popen(
        [sys.executable, "-c", RECALIBRATION, database_url, ROOT],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    version = worker.stdout.readline().strip()  # learnt, and not yet recorded
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert version
    with begin(read_only=True) as transaction:
        assert transaction.calibrations.active(loop.model.id) is None
        assert transaction.calibrations.page(after=None, limit=1).items == ()
    assert loop.recalibration.request(ADMIN, Options()).id == job.id, "one job at a time"
    claim, taken_job = jobs(begin).claim, None
    while taken_job is None:
        taken_job = claim(["calibration"])
    assert (taken_job.id, taken_job.attempt) == (job.id, 2)
    calibration, _ = loop.run(activate=Activate.IF_BETTER)
    assert (calibration.version, calibration.active) == (version, True)
    engine.dispose()
