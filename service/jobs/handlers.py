"""Which use case each kind of job runs."""

from collections.abc import Mapping
from datetime import timedelta

from service.domain.work import Job
from service.jobs.worker import Report, Task
from service.use_cases.candidates import COMPARE
from service.use_cases.export import EXPORT
from service.use_cases.score import SCORING
from service.use_cases.verbs import Verbs

EXPIRE_LEASES_EVERY = timedelta(seconds=30)
"""A claim takes over expired leases by itself; this makes the queue's counts right as well."""


SWEEP_FILES_EVERY = timedelta(hours=1)
PURGE_EVERY = timedelta(hours=1)


def tasks(verbs: Verbs) -> dict[str, Task]:
    """Return what the worker does for each kind of job."""

    def expire_leases(job: Job, report: Report) -> Mapping[str, object]:  # noqa: ARG001 -- a Handler
        return {"expired": verbs.expire_leases()}

    def sweep_files(job: Job, report: Report) -> Mapping[str, object]:  # noqa: ARG001 -- as above
        return {"swept": verbs.sweep_files()}

    def purge_texts(job: Job, report: Report) -> Mapping[str, object]:  # noqa: ARG001 -- as above
        return {"purged": verbs.purge_texts()}

    return {
        "purge_texts": Task(purge_texts, every=PURGE_EVERY),
        "expire_leases": Task(expire_leases, every=EXPIRE_LEASES_EVERY),
        "sweep_files": Task(sweep_files, every=SWEEP_FILES_EVERY),
        SCORING: Task(verbs.score_file, long=True),
        EXPORT: Task(verbs.run_export, long=True),
        COMPARE: Task(verbs.compare_recent, long=True),
    }
