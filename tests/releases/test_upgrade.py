"""What earlier releases stored is upgraded and goes on working."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import func, select

from setwise.service import build
from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import ReviewState
from setwise.service.stores import tables
from setwise.service.stores.upkeep import revisions
from tests.releases.make import ANSWERS, HERE, PASSWORD, settings
from tests.releases.restoring import RELEASES, restore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Return a kind of database, and the URL of an empty one."""
    if request.param == "sqlite":
        yield request.param, f"sqlite:///{tmp_path_factory.mktemp('empty') / 'setwise.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    made = server.make()
    yield request.param, made.render_as_string(hide_password=False)
    server.drop(made)


@pytest.fixture(scope="module", params=RELEASES)
def upgrade(
    request: pytest.FixtureRequest,
    database: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[build.Application, dict[str, Any]]]:
    """Restore a backup, upgrade it, and start the service on it."""
    kind, url = database
    folder = tmp_path_factory.mktemp("upgraded")
    restore(request.param, kind, folder, url)
    application = build.build(settings(folder, url))
    with closing(application):
        application.unseal()
        application.registry.start()
        yield application, json.loads((HERE / request.param / ANSWERS).read_text())[kind]
        application.registry.stop()


def test_the_first_release_is_kept() -> None:
    assert "0.2.0" in RELEASES


def test_every_row_is_there(upgrade: tuple[build.Application, dict[str, Any]]) -> None:
    application, stored = upgrade
    assert revisions.check(application.engine).ok
    with application.engine.connect() as connection:
        for name, count in stored["rows"].items():
            table = tables.metadata.tables[name]
            found_count = connection.execute(select(func.count()).select_from(table)).scalar_one()
            assert found_count >= count > 0, name


def test_the_model_predicts_the_same_sets_with_the_same_confidences(
    upgrade: tuple[build.Application, dict[str, Any]],
) -> None:
    application, stored = upgrade
    texts = [one["text"] for one in stored["predictions"]]
    refusals = application.registry.active().score([Document(text=text) for text in texts])
    for one, then in zip(refusals, stored["predictions"], strict=True):
        assert list(one.labels) == then["labels"]
        assert one.confidence == pytest.approx(then["confidence"], abs=1e-9)
        assert one.calibrator_version == then["calibrator"]


def test_keys_and_passwords_still_open_it(
    upgrade: tuple[build.Application, dict[str, Any]],
) -> None:
    application, stored = upgrade
    services = application.services
    for role, secret in stored["keys"].items():
        assert services.keys.authenticate(secret).role is Role(role)
    signed_in, _ = services.sessions.sign_in("ann", PASSWORD)
    assert signed_in.caller.name == "Ann"


def test_the_queue_is_read_and_a_review_is_answered(
    upgrade: tuple[build.Application, dict[str, Any]],
) -> None:
    application, stored = upgrade
    services = application.services
    reviewer, lead = (services.keys.authenticate(stored["keys"][r]) for r in ("reviewer", "lead"))
    waiting = services.queue.page(lead, state=ReviewState.WAITING, limit=200).items
    texts = {one.id: one.prediction.document.text for one in waiting}
    assert stored["waiting"].items() <= texts.items()
    task_id = list(stored["waiting"])[-1]  # the first was skipped by this reviewer
    task = services.queue.claim(reviewer, only=task_id)
    assert task is not None
    services.reviews.complete(reviewer, task.id, task.prediction.scored.labels, None, task.version)
    assert services.queue.get(lead, task_id).state is ReviewState.COMPLETED


def test_reports_and_the_policy_are_read(
    upgrade: tuple[build.Application, dict[str, Any]],
) -> None:
    application, stored = upgrade
    services = application.services
    admin = services.keys.authenticate(stored["keys"]["admin"])
    assert services.policy.get(admin).version == stored["policy"]
    assert services.reports.summary(admin).predictions == stored["rows"]["predictions"]
    assert services.certification.page(admin).items
    assert services.recalibration.page(admin).items
    assert services.breaker.get(admin).trips
    assert services.webhooks.deliveries(admin).items
    assert services.jobs.page(admin).items
