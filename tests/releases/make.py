"""Make the backups of a release, which every later release must restore, upgrade and use.

Run once, with the release checked out::

    python -m tests.releases.make 0.2.0

It fills an SQLite and a PostgreSQL database through the services, with a few rows in every table,
and writes beside this file what ``setwise backup`` makes of each, and `ANSWERS`. The
documents are made up; the secrets guard nothing.
"""

import base64
import json
import os
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from unittest import mock

from pydantic import SecretStr
from sqlalchemy import func, select

from setwise.models.data.dataset_files import read_dataset
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service import build
from setwise.service.cli import main
from setwise.service.domain.accounts.callers import ANONYMOUS, SYSTEM, Caller, Role
from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.errors import WrongPassword
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, IdempotencyKey, Prediction, Submission
from setwise.service.domain.recalibration import Options
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import GateState, SegmentBy
from setwise.service.domain.webhooks import EndpointChange, ReceiverResponse
from setwise.service.logs import configure_logging
from setwise.service.services.analysis.proofs import Schedule
from setwise.service.services.predictions import all_predicted
from setwise.service.settings import Settings
from setwise.service.stores import tables
from setwise.service.stores.database import utc_now
from setwise.service.stores.upkeep import migrate
from tests.kit.postgres import find_binaries, run_server
from tests.trained import documents, write_documents

HERE = Path(__file__).parent
ANSWERS = "answers.json"
ENCRYPTION_KEY = base64.b64encode(b"guards made-up texts in tests 01").decode()
PASSWORD = "correct horse battery"
TEXTS = ("judge verdict orbit", "wheat silo barley said", "violin choir concert", "unseen words")
TEN = 10  # reviews suffice for a recalibration here: few rows are wanted


def settings(folder: Path, database_url: str) -> Settings:
    """Return the settings with which the backups are made and used."""
    return Settings(
        data_dir=folder,
        database_url=database_url,
        encryption_keys=SecretStr(ENCRYPTION_KEY),
    )


def _fill(application: build.Application, folder: Path) -> dict[str, object]:
    """Let every table get rows; return what later releases must answer."""
    services = application.services
    application.unseal()
    models = [services.models.add(SYSTEM, str(folder / name)) for name in ("model", "candidate")]
    services.models.activate(SYSTEM, models[0].id)
    application.registry.start()
    secrets = {}
    callers: dict[Role, Caller] = {}
    for role in Role:
        _, secrets[role.value] = services.keys.create(SYSTEM, role.value, role)
        callers[role] = services.keys.authenticate(secrets[role.value])
    client, ann, lead, admin = (
        callers[role] for role in (Role.CLIENT, Role.REVIEWER, Role.LEAD, Role.ADMIN)
    )
    services.people.create(admin, login="ann", name="Ann", role=Role.REVIEWER, password=PASSWORD)
    services.sessions.sign_in("ann", PASSWORD, visitor=ANONYMOUS.calling_from("192.0.2.7"))
    with suppress(WrongPassword):
        services.sessions.sign_in(
            "ben", "wrong password", visitor=ANONYMOUS.calling_from("192.0.2.8")
        )
    services.annotators.change_group(
        admin, "careful", GroupChange("careful", Rates(0.1, 0.1)), None
    )
    services.annotators.place(admin, ann.id, "careful", None)
    services.webhooks.add(admin, EndpointChange("https://billing.example/hook", "billing"))

    def change(
        mode: ThresholdMode, threshold: float | None, audits: AuditPlan, *segments: GateState
    ) -> None:
        wanted_change = PolicyChange(
            *(0.5, 0.6, True, mode, threshold),
            audits=audits,
            segment_by=SegmentBy("ward" if segments else None),
            segments=segments,
        )
        services.policy.change(admin, wanted_change, None)

    made = 0

    def predict(n: int) -> list[Prediction]:
        nonlocal made
        texts = [str(one["text"]) for one in documents(made + n, seed=9)[made:]]
        submissions = [
            Submission(client, Document(id=f"note-{made + place}", text=text, metadata={"ward": 3}))
            for place, text in enumerate(texts)
        ]
        key = IdempotencyKey(f"key-{made}", "0" * 64)
        submissions[0] = submissions[0]._replace(idempotency=key)
        made += n
        return all_predicted(services.predictions.predict(submissions))

    def read(caller: Caller, *, wrong: bool = False) -> None:
        while (task := services.queue.claim(caller)) is not None:
            right = task.prediction.scored.labels
            labels = ["storm", "space", "court"] if wrong else right
            services.reviews.complete(caller, task.id, labels, "as told", task.version)

    # A certificate, then wrong audits that trip the breaker, then sending again.
    change(ThresholdMode.CERTIFIED, None, AuditPlan(certification_rate=0.8, gold_reread_rate=1.0))
    first, *_ = predict(30)
    services.documents.find(admin)  # who may be given no blind review of them any more
    read(ann)
    read(lead)
    services.comments.write(lead, first.id, "A borderline case.")
    services.comments.of(admin, first.id)
    services.labels.describe(admin, "label,name\ncourt,Court reports\n")
    services.certification.score_audits(models[1], lambda *_: None)
    request = services.idempotency.open(client.id, "request", b"request")
    services.idempotency.finish(request, b"{}")
    early = services.certification.by(Schedule(room=0.0))
    certifications = early.certify(admin.id)
    predictions = predict(8)
    services.outcomes.report(client, predictions[0].id, ["court"], "billing")
    change(ThresholdMode.FIXED, 0.1, AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    while services.policy.get(admin).states[0].trip_id is None:
        predict(8)
        read(ann, wrong=True)
        read(lead, wrong=True)
    services.breaker.reset(admin, uncertified=True)
    change(ThresholdMode.FIXED, 0.99, AuditPlan())
    for wrong in (True, False):
        predict(10)
        read(ann, wrong=wrong)
    with mock.patch("setwise.service.domain.recalibration.LEAST_ROWS", TEN):
        calibration, _ = services.recalibration.run(
            Options(), lambda *_: None, requested_by=admin.id
        )
    services.recalibration.activate(admin, calibration.id)
    application.registry.follow()
    # A segment with its own threshold, and a queue with a task in each state.
    change(ThresholdMode.FIXED, 0.99, AuditPlan(), GateState("3", threshold=0.99))
    predict(1)
    change(ThresholdMode.FIXED, 0.99, AuditPlan())
    predict(6)
    for settle in ("skip", "decide", "lease"):
        task = services.queue.claim(ann)
        assert task is not None
        if settle == "skip":
            services.queue.skip(ann, task.id, "Outside my expertise")
        elif settle == "decide":
            services.reviews.decide(ann, task.id, ["court"], "sure", task.version)
    services.models.begin_shadow(admin, models[1].id)
    services.models.submit_compare(admin, models[1].id, 4)
    application.worker.schedule()
    while application.worker.run_one():
        pass
    services.webhooks.route()
    parcels = services.webhooks.claim({}, otherwise=2)
    services.webhooks.record(
        [
            (parcel.delivery, ReceiverResponse(utc_now(), 0.1, status=status))
            for parcel, status in zip(parcels, (204, 500), strict=True)
        ]
    )
    with application.engine.connect() as connection:
        counts = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in tables.metadata.tables.items()
            if table is not tables.unindexed_texts  # texts are encrypted here: none waits for it
        }
    assert all(counts.values()), counts
    assert certifications[0].threshold is not None, certifications
    refusals = application.registry.active().score([Document(text=text) for text in TEXTS])
    waiting = services.queue.page(lead, state=ReviewState.WAITING, limit=200).items
    return {
        "rows": counts,
        "keys": secrets,
        "waiting": {one.id: one.prediction.document.text for one in waiting},
        "policy": services.policy.get(admin).version,
        "predictions": [
            {
                "text": text,
                "labels": list(one.labels),
                "confidence": one.confidence,
                "calibrator": one.calibrator_version,
            }
            for text, one in zip(TEXTS, refusals, strict=True)
        ],
    }


def _train(folder: Path) -> None:
    options = TrainingOptions(
        preset="paper", calibrator="isotonic", n_folds=2, n_candidates=5, alpha=1e-3
    )
    for seed, name in enumerate(("model", "candidate")):
        data = read_dataset(write_documents(folder / f"{name}.jsonl", 150, seed=seed))
        save(train(data, options), folder / name)


def _make(release: str) -> None:
    configure_logging("error", "console")
    target = HERE / release
    target.mkdir(exist_ok=True)
    answers = {}
    with tempfile.TemporaryDirectory() as name, run_server(find_binaries()) as server:
        folder = Path(name)
        _train(folder)
        urls = {
            "sqlite": f"sqlite:///{folder / 'setwise.db'}",
            "postgresql": server.make().render_as_string(hide_password=False),
        }
        for kind, url in urls.items():
            application = build.build(settings(folder / kind, url))
            with closing(application):
                migrate.upgrade(application.engine)
                answers[kind] = _fill(application, folder)
                application.registry.stop()
            os.environ |= {"SETWISE_DATA_DIR": str(folder / kind), "SETWISE_DATABASE_URL": url}
            archive = target / f"{kind}.zip"
            archive.unlink(missing_ok=True)
            with suppress(SystemExit):
                main(["backup", str(archive)])
            assert archive.is_file()
    (target / ANSWERS).write_text(json.dumps(answers, indent=2) + "\n")


if __name__ == "__main__":
    _make(sys.argv[1])
