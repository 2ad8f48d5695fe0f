"""Services built with defaults that suit tests."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from setwise.service.domain.accounts import KeyDigest, SessionRule
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import (
    Document,
    Prediction,
    Refused,
    Submission,
    SubmissionOutcome,
)
from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People
from setwise.service.services.accounts.sessions import Sessions
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.services.certification.questions import Questions
from setwise.service.services.files import Files
from setwise.service.services.jobs import Jobs
from setwise.service.services.models import Models
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions, all_predicted
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.reviews.decisions import Reviews
from setwise.service.services.reviews.queue import Queue
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.database import new_id, utc_now
from tests.fake_files import FakeFiles
from tests.fakes import (
    LOTTERY,
    FakeCalibrators,
    FakeClock,
    FakeIds,
    FakeLoader,
    FakePasswords,
    FakePredictors,
    FakeStore,
)


def keys(begin: Any, now: Any = utc_now, ids: Any = new_id) -> Keys:
    """Return the service of API keys."""
    return Keys(begin, now, ids, digest=KeyDigest(b"pepper"), new_secret=secrets.token_urlsafe)


def people(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> People:
    """Return the service of people, with cheap password hashes unless given."""
    return People(begin, now, ids, **_guarded(options))


def sessions(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Sessions:
    """Return the service of sessions, with cheap password hashes unless given."""
    options.setdefault("rule", SessionRule())
    return Sessions(begin, now, ids, **_guarded(options))


def _guarded(options: dict[str, Any]) -> dict[str, Any]:
    options.setdefault("passwords", FakePasswords())
    options.setdefault("session_digest", KeyDigest(b"session pepper"))
    options.setdefault("new_secret", secrets.token_urlsafe)
    return options


def jobs(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Jobs:
    """Return the service of jobs, over files in memory unless given."""
    options.setdefault("files", FakeFiles())
    options.setdefault("keep_files", timedelta(days=7))
    return Jobs(begin, now, ids, **options)


def models(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Models:
    """Return the service of models, over a loader and a store in memory unless given."""
    options.setdefault("loader", FakeLoader())
    options.setdefault("store", FakeStore(FakeClock(), FakeIds(0x7300_0000_0000)))
    return Models(begin, now, ids, lease_clock=now, **options)


def webhooks(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Webhooks:
    """Return the service of webhooks; retries are not spread unless ``draw`` says so."""
    options.setdefault("allow_private", False)
    options.setdefault("draw", lambda: 0.0)
    return Webhooks(begin, now, ids, **options)


def files(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Files:
    """Return the service of files, over files in memory unless given."""
    options.setdefault("store", FakeFiles())
    options.setdefault("predict", lambda submissions, _: [None for _ in submissions])
    options.setdefault("predictors", FakePredictors())
    options.setdefault("max_upload_bytes", 100_000)
    options.setdefault("longest_line", 2_000)
    options.setdefault("secret", b"secret of files")
    return Files(begin, now, ids, **options)


def certifications(
    begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any
) -> Certifications:
    """Return the service of certifications, over a loader in memory unless given."""
    parts = {"loader": FakeLoader(), "questions": Questions(now, LOTTERY)} | options
    policies = Policies(begin, now, ids)
    return Certifications(begin, now, ids, lease_clock=now, policies=policies, **parts)


def queue(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Queue:
    """Return the queue of reviews, without a model unless given."""
    options.setdefault("predictors", FakePredictors())
    return Queue(begin, now, ids, lottery=LOTTERY, **options)


def reviews(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Reviews:
    """Return what people decide on; options of the queue are for that."""
    options.setdefault("predictors", FakePredictors())
    held = {name: options.pop(name) for name in ("lease", "most_leases") if name in options}
    waiting = queue(begin, now, ids, predictors=options["predictors"], **held)
    return Reviews(begin, now, ids, queue=waiting, lottery=LOTTERY, **options)


def outlooks(begin: Any, now: Any = utc_now, **options: Any) -> Outlooks:
    """Return the outlooks on certificates."""
    return Outlooks(begin, Questions(now, LOTTERY, **options))


def breaker(begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any) -> Breaker:
    """Return the breaker."""
    return Breaker(begin, now, ids, **options)


def recalibration(
    begin: Any, now: Any = utc_now, ids: Any = new_id, **options: Any
) -> Recalibration:
    """Return the service of recalibration, over calibrators in memory unless given."""
    options.setdefault("loader", FakeLoader())
    options.setdefault("calibrators", FakeCalibrators())
    options.setdefault("calibrator_loader", options["calibrators"])
    options.setdefault("certifications", certifications(begin, now, ids))
    return Recalibration(begin, now, ids, lease_clock=now, **options)


def reports(begin: Any, now: Any = utc_now, **options: Any) -> Reports:
    """Return the service of reports."""
    options.setdefault("outlooks", outlooks(begin, now))
    return Reports(begin, now, lease_clock=now, **options)


def predict_one(
    predictions: Predictions, caller: Caller, document: Document, **rest: Any
) -> Prediction:
    """Return the prediction of one document; raises what became of it otherwise."""
    (made,) = all_predicted(predictions.predict([Submission(caller, document, **rest)]))
    return made


def results(outcomes: Sequence[SubmissionOutcome]) -> list[Prediction | Exception]:
    """Return each submission's prediction, or the error that refused it."""
    return [each.error if isinstance(each, Refused) else each.prediction for each in outcomes]
