"""Jobs over HTTP."""

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.jobs import Job
from tests.kit.edge import Service, assert_problem
from tests.samples import job


def add(
    service: Service, owner_id: str | None = None, kind: str = "scoring", **rest: object
) -> Job:
    made = job(kind, owner_id=owner_id, **rest)
    with service.database() as transaction:
        assert transaction.jobs.enqueue(made)
    return made


def test_a_job_is_shown_to_its_owner_and_to_administrators(service: Service) -> None:
    billing = service.key("billing", Role.CLIENT)
    made = add(service, billing)
    shown = service.get(f"/v1/jobs/{made.id}", by="billing")
    assert shown.status_code == 200
    assert shown.json() == {
        "id": made.id,
        "kind": "scoring",
        "state": "queued",
        "progress": 0.0,
        "message": "",
        "created_at": "2026-01-02T03:04:05.678901Z",
        "started_at": None,
        "finished_at": None,
        "result": None,
        "error": None,
        "error_code": None,
    }
    assert service.get(f"/v1/jobs/{made.id}", by="admin").json() == shown.json()
    assert_problem(service.get(f"/v1/jobs/{made.id}", by="client"), 404, "job-not-found")
    assert_problem(service.post(f"/v1/jobs/{made.id}/cancel", by="client"), 404, "job-not-found")


def test_jobs_are_listed_in_pages(service: Service) -> None:
    billing = service.key("billing", Role.CLIENT)
    made = [add(service, billing).id for _ in range(3)]
    add(service, kind="purge")
    first = service.get("/v1/jobs?limit=2&kind=scoring", by="admin").json()
    assert [one["id"] for one in first["items"]] == [made[2], made[1]]
    query = f"/v1/jobs?limit=2&kind=scoring&cursor={first['next_cursor']}"
    assert [one["id"] for one in service.get(query, by="admin").json()["items"]] == [made[0]]
    assert len(service.get("/v1/jobs", by="billing").json()["items"]) == 3
    assert service.get("/v1/jobs", by="lead").json()["items"] == []
    assert service.get("/v1/jobs?state=failed", by="admin").json()["items"] == []
    assert_problem(
        service.get("/v1/jobs?state=lost", by="admin"), 422, "invalid-request", "/query/state"
    )


def test_a_job_is_cancelled_once_and_may_be_tried_again(service: Service) -> None:
    made = add(service, service.key("billing", Role.CLIENT))
    path = f"/v1/jobs/{made.id}"
    assert_problem(service.post(f"{path}/retry", by="admin"), 409, "job-unfinished")
    cancelled = service.post(f"{path}/cancel", by="admin")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert_problem(service.post(f"{path}/cancel", by="admin"), 409, "job-finished")
    queued = service.post(f"{path}/retry", by="admin")
    assert (queued.status_code, queued.json()["state"]) == (200, "queued")
    actions = [event.action for event in service.database.contents.events.values()]
    assert actions[-2:] == ["job.cancelled", "job.retried"]


def test_a_duty_of_the_service_cannot_be_cancelled(service: Service) -> None:
    path = f"/v1/jobs/{add(service, kind='erase_traces').id}"
    assert_problem(service.post(f"{path}/cancel", by="admin"), 409, "job-needed")
    assert service.get(path, by="admin").json()["state"] == "queued"


def test_the_error_of_a_failed_job_is_kept(service: Service) -> None:
    made = add(service)
    claimed = service.services.jobs.claim(["scoring"])
    assert claimed is not None
    service.services.jobs.fail(claimed, "line 7 is no JSON", code="invalid-request", hopeless=True)
    shown = service.get(f"/v1/jobs/{made.id}", by="admin").json()
    assert (shown["state"], shown["error"]) == ("failed", "line 7 is no JSON")
    assert shown["error_code"] == "invalid-request"
