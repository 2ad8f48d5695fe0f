"""An installation with something of everything in it, for the commands that look after one."""

from pathlib import Path

from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, IdempotencyKey
from setwise.service.domain.webhooks import EndpointChange
from setwise.service.logs import configure_logging
from setwise.service.settings import Settings
from setwise.service.stores.upkeep import migrate
from tests.building import predict_one


def fill(data: Path, database_url: str, artifact: Path) -> str:
    """Make tables, a model, keys, predictions, a review, a webhook; return the admin's key."""
    # A command that ran before in this process has sent the log to a stream that is gone by now.
    configure_logging("error", "console")
    application = build.build(Settings(data_dir=data, database_url=database_url))
    try:
        migrate.upgrade(application.engine)
        services = application.services
        services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifact)).id)
        services.webhooks.add(SYSTEM, EndpointChange("https://billing.example", "it's billing's"))
        _, secret = services.keys.create(SYSTEM, "root", Role.ADMIN)
        _, client = services.keys.create(SYSTEM, "client", Role.CLIENT)
        change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.0)
        application.registry.follow()
        for number, text in enumerate(["judge verdict", "tab\tin \\ text\n\u2028", "orbit é"]):
            predict_one(
                services.predictions,
                services.keys.authenticate(client),
                Document(id=f"note-{number}", text=text, metadata={"big": 1e300, "none": None}),
                idempotency=IdempotencyKey(f"key-{number}", "0" * 64),
            )
            if number == 0:
                services.policy.change(SYSTEM, change, None)
        reviewer = services.keys.authenticate(
            services.keys.create(SYSTEM, "reviewer", Role.REVIEWER)[1]
        )
        task = services.queue.claim(reviewer)
        assert task is not None
        services.reviews.complete(reviewer, task.id, ["court"], "checked", task.version)
    finally:
        application.close()
    return secret
