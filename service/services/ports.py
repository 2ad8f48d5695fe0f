"""What the verbs need from the world outside, as Protocols.

Ids are UUIDv7 strings, so ordering by id is ordering by time and an id serves as a list's cursor.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from setwise.service.services.annotator_ports import Annotators
from setwise.service.services.breaker_ports import Breakers
from setwise.service.services.calibration_ports import Calibrations
from setwise.service.services.delivery_ports import Deliveries, Endpoints, Outbox
from setwise.service.services.model_ports import Comparisons, Models
from setwise.service.services.people_ports import AuditTrail, Keys, People, Sessions, SignInAttempts
from setwise.service.services.prediction_ports import (
    Certifications,
    Outcomes,
    Policies,
    Predictions,
    Recording,
    Texts,
)
from setwise.service.services.report_ports import Backlogs, History, Reports
from setwise.service.services.review_ports import Reviews
from setwise.service.services.work_ports import Jobs

Stage = Callable[[str], AbstractContextManager[object]]
"""Watches how long a part of the work takes: ``with stage("score"): …``."""


def unwatched(name: str) -> AbstractContextManager[object]:  # noqa: ARG001 -- a `Stage`
    """Watch nothing."""
    return _UNWATCHED


_UNWATCHED: AbstractContextManager[object] = nullcontext()

Clock = Callable[[], datetime]
NewId = Callable[[], str]


class UnitOfWork(Protocol):
    """One transaction: all of it happens at `commit`, or nothing does."""

    predictions: Predictions
    reviews: Reviews
    outcomes: Outcomes
    policies: Policies
    certifications: Certifications
    breakers: Breakers
    annotators: Annotators
    calibrations: Calibrations
    models: Models
    keys: Keys
    people: People
    sessions: Sessions
    attempts: SignInAttempts
    audit_trail: AuditTrail
    jobs: Jobs
    texts: Texts
    outbox: Outbox
    endpoints: Endpoints
    deliveries: Deliveries
    history: History
    comparisons: Comparisons
    backlog: Backlogs
    reports: Reports

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def adding(self, recording: Recording) -> Callable[[], None]:
        """Return what adds all of it to the transaction; raises then as `Predictions.add_all` does.

        To be asked for before the transaction is entered, so that others who want to write do not
        wait while it is made ready.
        """

    def commit(self) -> None: ...


class Begin(Protocol):
    """Opens transactions."""

    def __call__(self, *, read_only: bool = False, snapshot: bool = False) -> UnitOfWork:
        """Return a unit of work; with ``snapshot`` all its reads see one state."""
