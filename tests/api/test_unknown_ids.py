"""Each operation on something by its id says that it is not there, and nothing else."""

import re

import pytest

from setwise.service.settings import Settings
from tests.api.test_rights import UNKNOWN, bodies
from tests.kit.edge import Service, assert_problem, build_service, described

PROBLEMS = {
    "annotator_id": "annotator-not-found",
    "calibration_id": "calibration-not-found",
    "certification_id": "certification-not-found",
    "delivery_id": "delivery-not-found",
    "group_id": "group-not-found",
    "job_id": "job-not-found",
    "key_id": "key-not-found",
    "model_id": "model-not-found",
    "person_id": "person-not-found",
    "prediction_id": "prediction-not-found",
    "task_id": "review-not-found",
    "webhook_id": "webhook-not-found",
}
OTHERWISE = {("DELETE", "/v1/admin/models/{model_id}/shadow"): "shadow-not-found"}
MAKES_IT = {("PUT", "/v1/admin/groups/{group_id}")}
OPERATIONS = {
    (method.upper(), path)
    for path, methods in described()["paths"].items()
    for method in methods
    if "_id}" in path
} - MAKES_IT


@pytest.fixture(scope="module")
def service() -> Service:
    return build_service(Settings(max_text_bytes=1_000))


@pytest.mark.parametrize("operation", sorted(OPERATIONS), ids=" ".join)
@pytest.mark.parametrize("missing", [UNKNOWN, "nonsense"])
def test_what_is_not_there_is_said_to_be_missing(
    service: Service, operation: tuple[str, str], missing: str
) -> None:
    method, path = operation
    arguments = bodies(described(), method, path)
    headers = {**arguments.pop("headers", {}), "If-Match": '"1"'}
    (parameter,) = re.findall(r"{(\w+)}", path)
    address = path.replace(f"{{{parameter}}}", missing)
    response = service.send(method, address, by="admin", headers=headers, **arguments)
    body = assert_problem(response, 404, OTHERWISE.get(operation, PROBLEMS[parameter]))
    assert operation in OTHERWISE or missing in body["detail"]
