"""What the worker does for each kind of job."""

from setwise.service.domain.reviews import ReviewState
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.worker import Worker
from tests.kit.edge import Service


def test_expired_leases_go_back_to_the_queue(service: Service) -> None:
    service.predict()
    service.post("/v1/reviews/claim", by="reviewer")
    worker = Worker(service.services.jobs, tasks(service.services), poll_s=0.01)

    def states() -> list[ReviewState]:
        return [task.state for task in service.database.contents.reviews.values()]

    def run_due() -> None:
        while worker.run_one():
            pass

    worker.schedule()
    run_due()
    assert states() == [ReviewState.LEASED]
    service.clock.advance(minutes=16)
    run_due()
    assert states() == [ReviewState.WAITING]
