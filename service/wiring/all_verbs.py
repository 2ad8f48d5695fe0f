"""Ports in, all verbs out."""

import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from setwise.service.domain.accounts import KeyDigest, SessionRule
from setwise.service.domain.audits import Lottery
from setwise.service.domain.breaker import BreakerRule, Freshness
from setwise.service.domain.predictions import Prediction
from setwise.service.services.accounts import Accounts
from setwise.service.services.annotators import Annotators
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification import Certifications
from setwise.service.services.files import Files
from setwise.service.services.jobs import Jobs
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.ports import (
    ArtifactStore,
    CalibratorLoader,
    CalibratorStore,
    FileStore,
    ModelLoader,
    Passwords,
    PredictorSource,
)
from setwise.service.services.predictions import Predictions, Stage, no_shadow, unwatched
from setwise.service.services.rates import ReportedRates
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.reviews import Reviews
from setwise.service.services.verbs import Verbs
from setwise.service.services.webhooks import Webhooks
from setwise.service.settings import Settings
from setwise.service.sign_in.passwords import Argon2Passwords
from setwise.service.stores.clock import Clock, utc_now
from setwise.service.stores.identity import NewId, new_id
from setwise.service.stores.transaction import Transactions
from setwise.service.wiring.keys import derived


def verbs(
    settings: Settings,
    begin: Transactions,
    *,
    predictors: PredictorSource,
    loader: ModelLoader,
    calibrator_loader: CalibratorLoader,
    shadow: Callable[[Sequence[Prediction]], None] = no_shadow,
    store: ArtifactStore,
    calibrators: CalibratorStore,
    files: FileStore,
    pepper: bytes,
    lease_clock: Clock,
    clock: Clock = utc_now,
    ids: NewId = new_id,
    passwords: Passwords | None = None,
    stage: Stage = unwatched,
) -> Verbs:
    """Return all verbs over the given ports.

    Parameters
    ----------
    lease_clock : callable
        The clock that every server with this database shares; leases are measured with it.
    passwords : Passwords or None
        Argon2id with sound parameters unless given.
    """
    desk: dict[str, Any] = {  # Any: three arguments that every verb on reviews takes
        "begin": begin,
        "now": lease_clock,
        "new_id": ids,
    }
    office: dict[str, Any] = {"begin": begin, "now": clock, "new_id": ids}  # Any: as above
    lottery = Lottery(derived(pepper, "audits"))
    certifications = Certifications(lottery=lottery, lease_clock=lease_clock, **office)
    rule = BreakerRule(
        settings.breaker_run_length,
        Freshness(settings.breaker_stale_documents, _days(settings.breaker_stale_days)),
    )
    breaker = Breaker(outlook=certifications.outlook, rule=rule, **office)
    predictions = Predictions(
        predictors=predictors,
        lottery=lottery,
        max_text_bytes=settings.max_text_bytes,
        retain_auto=_days(settings.retain_auto_days),
        retain_reviewed=_days(settings.retain_reviewed_days),
        shadow=shadow,
        stage=stage,
        **office,
    )
    return Verbs(
        predictions=predictions,
        outcomes=Outcomes(**office),
        reviews=Reviews(
            predictors=predictors,
            lottery=lottery,
            lease=timedelta(seconds=settings.lease_s),
            most_leases=settings.leases_per_reviewer,
            undo_window=timedelta(seconds=settings.undo_s),
            annotated=breaker.annotated,
            **desk,
        ),
        jobs=Jobs(**desk, files=files, keep_files=timedelta(days=settings.job_files_days)),
        files=Files(
            store=files,
            predict=predictions.predict,
            max_upload_bytes=settings.max_upload_bytes,
            longest_line=settings.max_body_bytes,
            **desk,
        ),
        policy=Policies(**office),
        certification=certifications,
        breaker=breaker,
        annotators=Annotators(**office),
        recalibration=Recalibration(
            loader=loader,
            calibrator_loader=calibrator_loader,
            calibrators=calibrators,
            group_rates=ReportedRates(),
            lease_clock=lease_clock,
            **office,
        ),
        reports=Reports(begin, clock, lease_clock),
        models=Models(loader=loader, store=store, lease_clock=lease_clock, **office),
        accounts=Accounts(
            passwords=passwords or Argon2Passwords(),
            key_digest=KeyDigest(pepper),
            session_digest=KeyDigest(derived(pepper, "sessions")),
            new_secret=lambda: secrets.token_urlsafe(32),
            session_rule=SessionRule(
                idle=timedelta(seconds=settings.session_idle_s),
                longest=timedelta(seconds=settings.session_longest_s),
            ),
            **office,
        ),
        audit_trail=AuditTrail(begin),
        webhooks=Webhooks(
            allow_private=settings.webhook_allow_private,
            grace=timedelta(seconds=settings.webhook_secret_grace_s),
            **desk,
        ),
    )


def _days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None
