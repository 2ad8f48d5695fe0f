"""Jobs over HTTP."""

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.jobs import Job
from tests.kit.edge import Service, assert_problem
from tests.samples import job


def add(
    service: Service, owner_id: str | None = None, kind: str = "scoring", **rest: object
) -> Job:
    new_job = job(kind, owner_id=owner_id, **rest)
    with service.database() as transaction:
        assert transaction.jobs.enqueue(new_job)
    return new_job


def test_a_job_is_shown_to_its_owner_and_to_administrators(service: Service) -> None:
    billing = service.key("billing", Role.CLIENT)
    job = add(service, billing)
    response = service.get(f"/v1/jobs/{job.id}", by="billing")
    assert response.status_code == 200
    assert response.json() == {
        "id": job.id,
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
    assert service.get(f"/v1/jobs/{job.id}", by="admin").json() == response.json()
    assert_problem(service.get(f"/v1/jobs/{job.id}", by="client"), 404, "job-not-found")
    assert_problem(service.post(f"/v1/jobs/{job.id}/cancel", by="client"), 404, "job-not-found")


def test_jobs_are_listed_in_pages(service: Service) -> None:
    billing = service.key("billing", Role.CLIENT)
    ids = [add(service, billing).id for _ in range(3)]
    add(service, kind="purge")
    first = service.get("/v1/jobs?limit=2&kind=scoring", by="admin").json()
    assert [one["id"] for one in first["items"]] == [ids[2], ids[1]]
    query = f"/v1/jobs?limit=2&kind=scoring&cursor={first['next_cursor']}"
    assert [one["id"] for one in service.get(query, by="admin").json()["items"]] == [ids[0]]
    assert len(service.get("/v1/jobs", by="billing").json()["items"]) == 3
    assert service.get("/v1/jobs", by="lead").json()["items"] == []
    assert service.get("/v1/jobs?state=failed", by="admin").json()["items"] == []
    assert_problem(
        service.get("/v1/jobs?state=lost", by="admin"), 422, "invalid-request", "/query/state"
    )


def test_a_job_is_cancelled_once_and_may_be_tried_again(service: Service) -> None:
    job = add(service, service.key("billing", Role.CLIENT))
    path = f"/v1/jobs/{job.id}"
    assert_problem(service.post(f"{path}/retry", by="admin"), 409, "job-unfinished")
    response = service.post(f"{path}/cancel", by="admin")
    assert (response.status_code, response.json()["state"]) == (200, "cancelled")
    assert_problem(service.post(f"{path}/cancel", by="admin"), 409, "job-finished")
    queued_response = service.post(f"{path}/retry", by="admin")
    assert (queued_response.status_code, queued_response.json()["state"]) == (200, "queued")
    actions = [event.action for event in service.database.contents.events.values()]
    assert actions[-2:] == ["job.cancelled", "job.retried"]


def test_a_duty_of_the_service_cannot_be_cancelled(service: Service) -> None:
    path = f"/v1/jobs/{add(service, kind='erase_traces').id}"
    assert_problem(service.post(f"{path}/cancel", by="admin"), 409, "job-needed")
    assert service.get(path, by="admin").json()["state"] == "queued"


def test_the_error_of_a_failed_job_is_kept(service: Service) -> None:
    job = add(service)
    claimed_job = service.services.jobs.claim(["scoring"])
    assert claimed_job is not None
    service.services.jobs.fail(
        claimed_job, "line 7 is no JSON", code="invalid-request", hopeless=True
    )
    body = service.get(f"/v1/jobs/{job.id}", by="admin").json()
    assert (body["state"], body["error"]) == ("failed", "line 7 is no JSON")
    assert body["error_code"] == "invalid-request"
