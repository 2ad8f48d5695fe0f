"""Settings in, the finished service out. Only here are concrete classes named."""

import hashlib
import hmac
import importlib.util
import os
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from service import tracing
from service.api.cursors import Cursors
from service.api.dependencies import Callers, Edge
from service.api.groups import Grouped
from service.api.predictions import is_small
from service.db import encryption, migrate
from service.db import engine as engines
from service.db.checkpoints import Checkpoints
from service.db.clock import database_clock, utc_now
from service.db.identity import new_id
from service.db.unit_of_work import Transactions
from service.domain.accounts import SessionRule
from service.domain.audits import Lottery
from service.domain.backlog import Line
from service.domain.breaker import Freshness, Position
from service.domain.delivery import signing_secret
from service.domain.errors import ModelUnavailable, ServiceError
from service.domain.people import SYSTEM, KeyDigest
from service.domain.predictions import Prediction
from service.inference.registry import ModelRegistry
from service.inference.shadow import ShadowScorer
from service.inference.store import FolderOrObjectStore
from service.jobs.courier import Courier, DeliveryVerbs
from service.jobs.files import FolderOrObjectFiles
from service.jobs.handlers import tasks
from service.jobs.sealed_files import SealedFiles
from service.jobs.sender import HttpSender
from service.jobs.worker import JobVerbs, Worker
from service.security.ciphers import TextCipher, read_keys
from service.security.cookies import SessionCookies
from service.security.limits import KeyLimits
from service.security.oidc import OpenIdConnect, Provider, read_roles
from service.security.passwords import Argon2Passwords
from service.settings import PREFIX, BadSetting, Settings
from service.telemetry import Metrics
from service.tracing import Tracing
from service.use_cases import (
    administer,
    annotators,
    audit,
    breaker,
    breaker_reset,
    calibrations,
    candidates,
    certify,
    check,
    cockpit,
    decide,
    deliver,
    derive,
    explain,
    export,
    forecast,
    labels,
    outcomes,
    oversee,
    people,
    predict,
    preview,
    privacy,
    recalibrate,
    reliability,
    report,
    results,
    review,
    score,
    webhooks,
    work,
)
from service.use_cases.calibration_ports import CalibratorLoader, CalibratorStore
from service.use_cases.files import Files
from service.use_cases.model_ports import ArtifactStore, ModelLoader, PredictorSource
from service.use_cases.people_ports import Passwords
from service.use_cases.ports import Begin, Clock, NewId, Stage, unwatched
from service.use_cases.rates import ReportedRates
from service.use_cases.verbs import Verbs


@dataclass(frozen=True)
class Application:
    """A whole service in one process, not yet started.

    Attributes
    ----------
    impatient : Engine or None
        For what must not wait for a lock; there is one for SQLite.
    """

    settings: Settings
    engine: Engine
    impatient: Engine | None
    verbs: Verbs
    edge: Edge
    registry: ModelRegistry
    worker: Worker
    courier: Courier
    shadow: ShadowScorer
    checkpoints: Checkpoints

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Serve a model and run jobs inside the block; what ASGI calls a lifespan."""
        await run_in_threadpool(self.registry.start)
        self.shadow.start()
        self.checkpoints.start()
        if self.settings.embedded_worker:
            self.worker.start()
            self.courier.start()
        try:
            yield
        finally:
            await run_in_threadpool(self.edge.predict.close)
            if self.settings.embedded_worker:
                await run_in_threadpool(self.courier.stop)
                await run_in_threadpool(self.worker.stop)
            await run_in_threadpool(self.shadow.stop)
            await run_in_threadpool(self.registry.stop)
            await run_in_threadpool(self.checkpoints.stop)
            if self.edge.spans is not None:
                await run_in_threadpool(self.edge.spans.close)
            self.close()

    def unseal(self) -> None:
        """See to it that this server can read what is stored, before it writes.

        Raises
        ------
        BadSetting
            If it lacks an encryption key.
        """
        fault = encryption.missing_keys(self.engine)
        if fault is not None:
            raise BadSetting(f"{PREFIX}ENCRYPTION_KEYS: {fault}")
        encryption.note_key(self.engine, utc_now())

    def close(self) -> None:
        """Close every connection to the database."""
        self.engine.dispose()
        if self.impatient is not None:
            self.impatient.dispose()


def storage(settings: Settings) -> tuple[Engine, Transactions, FolderOrObjectStore]:
    """Return the database and the store of artifacts; nothing is opened, and nothing is made.

    Raises
    ------
    BadSetting
        If the database's address cannot be used.
    """
    try:
        engine = engines.create(settings.database_url, cipher=_cipher(settings))
    except ValueError as error:
        raise BadSetting(f"{PREFIX}DATABASE_URL: {error}") from error
    store = FolderOrObjectStore(
        settings.artifact_url,
        cache=settings.data_dir / "artifact-cache",
        new_id=new_id,
        now=utc_now,
    )
    return engine, Transactions(engine), store


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: NewId = new_id,
    predictors: PredictorSource | None = None,
) -> Application:
    """Put the service together. Nothing is opened yet, except the file that holds the pepper.

    Parameters
    ----------
    clock, ids : callable
        The time and where ids come from, in simulations; otherwise as they are.
    predictors : PredictorSource or None
        What scores in the place of registered models, likewise.

    Raises
    ------
    BadSetting
        If the database's address or the pepper's file cannot be used.
    """
    engine, begin, store = storage(settings)
    impatient = _impatient(settings, engine)
    pepper = _pepper(settings)
    registry = ModelRegistry(begin, store, poll_s=settings.model_poll_s)
    shadow = ShadowScorer(registry.shadow, candidates.RecordComparisons(begin, utc_now, new_id))
    files: Files = FolderOrObjectFiles(settings.files_url)
    cipher = _cipher(settings)
    if cipher is not None:
        files = SealedFiles(files, cipher)
    lease_clock = clock or database_clock(engine)
    metrics, spans = Metrics(), _tracing(settings)
    finished = verbs(
        settings,
        begin,
        stage=_Stages(metrics, spans),
        predictors=predictors or registry,
        loader=registry,
        calibrator_loader=registry,
        shadow=shadow.offer,
        store=store,
        calibrators=store,
        files=files,
        pepper=pepper,
        lease_clock=lease_clock,
        clock=clock or utc_now,
        ids=ids,
    )
    return Application(
        settings=settings,
        engine=engine,
        impatient=impatient,
        verbs=finished,
        edge=edge(
            settings,
            finished,
            brief=None if impatient is None else begin.impatient(impatient),
            pepper=pepper,
            checks={
                "database": _database_check(engine),
                "encryption": _encryption_check(engine),
                "model": _model_check(registry),
            },
            metrics=metrics,
            spans=spans,
        ),
        registry=registry,
        worker=Worker(_job_verbs(begin, lease_clock), tasks(finished), poll_s=settings.job_poll_s),
        courier=Courier(
            _delivery_verbs(begin, lease_clock),
            HttpSender(allow_private=settings.webhook_allow_private, now=utc_now),
            utc_now,
            poll_s=settings.job_poll_s,
        ),
        shadow=shadow,
        checkpoints=Checkpoints(engine),
    )


def verbs(
    settings: Settings,
    begin: Begin,
    *,
    predictors: PredictorSource,
    loader: ModelLoader,
    calibrator_loader: CalibratorLoader,
    shadow: Callable[[Sequence[Prediction]], None] = predict.nobody,
    store: ArtifactStore,
    calibrators: CalibratorStore,
    files: Files,
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
    lease = timedelta(seconds=settings.lease_s)
    digest, tokens = KeyDigest(pepper), KeyDigest(_derived(pepper, "sessions"))
    passwords = passwords or Argon2Passwords()
    sessions = SessionRule(
        idle=timedelta(seconds=settings.session_idle_s),
        longest=timedelta(seconds=settings.session_longest_s),
    )
    # Deliveries fall due by the clock that leases are measured with.
    addressing: dict[str, Any] = {"allow_private": settings.webhook_allow_private, **desk}
    signing: dict[str, Any] = {"new_secret": lambda: signing_secret(secrets.token_bytes(32))}
    activate = administer.ActivateModel(loader=loader, **office)
    switching: dict[str, Any] = {  # Any: as above
        "loader": loader,
        "calibrators": calibrator_loader,
        **office,
    }
    record = candidates.RecordComparisons(begin, clock, ids)
    exporting = export.Export(**office)
    lottery = Lottery(_derived(pepper, "audits"))
    certifying = certify.Certify(lottery=lottery, **office)
    rule = breaker.BreakerRule(
        settings.breaker_run_length,
        Freshness(settings.breaker_stale_documents, _days(settings.breaker_stale_days)),
    )
    watch = breaker.WatchAudits(rule=rule, **office)
    complete = review.CompleteReview(
        predictors=predictors, lottery=lottery, answered=watch.answered, **desk
    )
    settle = decide.SettleDecisions(begin, lease_clock, complete)
    one = predict.Predict(
        predictors=predictors,
        lottery=lottery,
        max_text_bytes=settings.max_text_bytes,
        shadow=shadow,
        stage=stage,
        **office,
    )
    return Verbs(
        predict=one,
        predict_batch=predict.PredictBatch(one),
        get_prediction=predict.GetPrediction(begin),
        derive_decision=derive.DeriveDecision(begin, lottery),
        list_predictions=predict.ListPredictions(begin),
        report_outcome=outcomes.ReportOutcome(**office),
        list_outcomes=outcomes.ListOutcomes(begin),
        claim_review=review.ClaimReview(
            lease=lease, most_leases=settings.leases_per_reviewer, **desk
        ),
        extend_lease=review.ExtendLease(lease=lease, **desk),
        release_review=review.ReleaseReview(**desk),
        skip_review=review.SkipReview(**desk),
        complete_review=complete,
        decide_review=decide.DecideReview(
            complete=complete,
            settle=settle,
            window=timedelta(seconds=settings.undo_s),
            lease=lease,
            **desk,
        ),
        undo_decision=decide.UndoDecision(lease=lease, **desk),
        settle_decisions=settle,
        my_reviews=decide.MyReviews(begin, lease_clock),
        check_sets=check.CheckSets(begin, predictors),
        explain_labels=explain.ExplainLabels(predictors),
        get_review=review.GetReview(begin),
        list_reviews=review.ListReviews(begin),
        expire_leases=review.ExpireLeases(**desk),
        search_labels=labels.SearchLabels(predictors),
        summary=report.Summary(begin),
        get_job=oversee.GetJob(begin),
        list_jobs=oversee.ListJobs(begin),
        cancel_job=oversee.CancelJob(**desk),
        retry_job=oversee.RetryJob(**desk),
        receive_upload=score.ReceiveUpload(files, ids, settings.max_upload_bytes),
        submit_scoring=score.SubmitScoring(**desk, files=files),
        score_file=score.ScoreFile(one, files, longest_line=settings.max_body_bytes),
        read_result=results.ReadResult(begin, files),
        export=exporting,
        submit_export=export.SubmitExport(exporting),
        run_export=export.RunExport(exporting, files),
        sweep_files=results.SweepFiles(
            begin, clock, files, keep=timedelta(days=settings.job_files_days)
        ),
        get_policy=administer.GetPolicy(begin),
        preview_policy=forecast.PreviewPolicy(begin),
        preview_change=preview.PreviewChange(begin, clock),
        report_reliability=reliability.ReportReliability(begin),
        report_automation=forecast.ReportAutomation(begin),
        read_cockpit=cockpit.ReadCockpit(begin, clock),
        change_policy=administer.ChangePolicy(**office),
        request_certification=certify.RequestCertification(**desk),
        certify=certifying,
        list_annotators=annotators.ListAnnotators(begin),
        get_annotator=annotators.GetAnnotator(begin),
        place_annotator=annotators.PlaceAnnotator(**office),
        list_groups=annotators.ListGroups(begin),
        get_group=annotators.GetGroup(begin),
        change_group=annotators.ChangeGroup(**office),
        watch_audits=watch,
        get_breaker=breaker.GetBreaker(begin, rule),
        reset_breaker=breaker_reset.ResetBreaker(outlook=certifying.outlook, **office),
        get_certification=certify.GetCertification(begin),
        list_certifications=certify.ListCertifications(begin),
        request_calibration=recalibrate.RequestCalibration(**desk),
        recalibrate=recalibrate.Recalibrate(
            loader=loader, calibrators=calibrators, group_rates=ReportedRates(), **office
        ),
        get_calibration=calibrations.GetCalibration(begin),
        list_calibrations=calibrations.ListCalibrations(begin),
        activate_calibration=calibrations.ActivateCalibration(**switching),
        roll_back_calibration=calibrations.RollBackCalibration(**switching),
        add_model=administer.AddModel(store=store, **office),
        list_models=administer.ListModels(begin),
        activate_model=activate,
        roll_back_model=candidates.RollBackModel(activate=activate, **office),
        verify_model=candidates.VerifyModel(begin, loader),
        begin_shadow=candidates.BeginShadow(loader=loader, **office),
        end_shadow=candidates.EndShadow(loader=loader, **office),
        get_comparison=candidates.GetComparison(begin),
        submit_compare=candidates.SubmitCompare(**desk),
        compare_recent=candidates.CompareRecent(begin, loader, record),
        create_key=administer.CreateKey(
            digest=digest, random_part=lambda: secrets.token_urlsafe(32), **office
        ),
        list_keys=administer.ListKeys(begin),
        revoke_key=administer.RevokeKey(**office),
        authenticate=administer.Authenticate(begin, digest, clock),
        create_person=people.CreatePerson(passwords=passwords, **office),
        list_people=people.ListPeople(begin),
        change_person=people.ChangePerson(**office),
        set_password=people.SetPassword(passwords=passwords, **office),
        change_own_password=people.ChangeOwnPassword(passwords=passwords, **office),
        sign_in=people.SignIn(
            passwords=passwords,
            digest=tokens,
            new_token=lambda: secrets.token_urlsafe(32),
            rule=sessions,
            **office,
        ),
        sign_in_externally=people.SignInExternally(
            digest=tokens,
            new_token=lambda: secrets.token_urlsafe(32),
            rule=sessions,
            **office,
        ),
        open_session=people.OpenSession(begin, clock, tokens, sessions),
        sign_out=people.SignOut(digest=tokens, **office),
        list_events=audit.ListEvents(begin),
        purge_texts=privacy.PurgeTexts(
            auto=_days(settings.retain_auto_days),
            reviewed=_days(settings.retain_reviewed_days),
            **office,
        ),
        erase_document=privacy.EraseDocument(**office),
        erase_person=privacy.ErasePerson(**office),
        read_outbox=deliver.ReadOutbox(begin),
        acknowledge_messages=deliver.AcknowledgeMessages(begin, clock),
        read_backlog=report.ReadBacklog(begin, lease_clock),
        add_webhook=webhooks.AddWebhook(**addressing, **signing),
        change_webhook=webhooks.ChangeWebhook(**addressing),
        delete_webhook=webhooks.DeleteWebhook(**desk),
        get_webhook=webhooks.GetWebhook(begin),
        list_webhooks=webhooks.ListWebhooks(begin),
        rotate_secret=webhooks.RotateSecret(
            grace=timedelta(seconds=settings.webhook_secret_grace_s), **signing, **desk
        ),
        try_webhook=webhooks.TryWebhook(**desk),
        list_deliveries=webhooks.ListDeliveries(begin),
        get_delivery=webhooks.GetDelivery(begin),
        replay_delivery=webhooks.ReplayDelivery(**desk),
        replay_dead=webhooks.ReplayDead(**desk),
    )


def edge(
    settings: Settings,
    finished: Verbs,
    *,
    pepper: bytes,
    checks: Mapping[str, Callable[[], str | None]],
    ids: NewId = new_id,
    metrics: Metrics | None = None,
    spans: Tracing | None = None,
    brief: Begin | None = None,
) -> Edge:
    """Return what the HTTP interface needs, over finished verbs.

    Parameters
    ----------
    brief : callable or None
        Begins transactions that never wait, for a database that is part of this process.
    """
    metrics = metrics or Metrics()
    _watch(metrics, finished)
    return Edge(
        verbs=finished,
        predict=Grouped(
            finished.predict.together,
            name="predictions",
            brief=None if brief is None else replace(finished.predict, begin=brief).together,
            small=is_small,
        ),
        callers=Callers(finished.authenticate, trusted_s=settings.key_cache_s),
        sessions=SessionCookies(
            finished.open_session,
            secret=_derived(pepper, "forms"),
            public_url=settings.public_url,
            longest_s=settings.session_longest_s,
        ),
        provider=_provider(settings),
        limits=KeyLimits(settings.key_rate_per_minute),
        https=settings.public_url.startswith("https:"),
        open_metrics=settings.open_metrics,
        cursors=Cursors(_derived(pepper, "cursors")),
        checks=checks,
        new_id=ids,
        max_body_bytes=settings.max_body_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        metrics=metrics,
        spans=spans,
    )


def _impatient(settings: Settings, engine: Engine) -> Engine | None:
    """Return an engine for the same database that waits for no lock; None if that is elsewhere."""
    if engine.dialect.name != "sqlite":
        return None
    return engines.create(settings.database_url, patience_s=0.0, cipher=_cipher(settings))


def _job_verbs(begin: Begin, now: Clock) -> JobVerbs:
    return JobVerbs(
        enqueue=work.EnqueueJob(begin, now, new_id),
        claim=work.ClaimJob(begin, now),
        checkpoint=work.CheckpointJob(begin),
        proceed=work.ContinueJob(begin, now),
        succeed=work.SucceedJob(begin, now),
        repeat=work.RepeatJob(begin, now),
        fail=work.FailJob(begin, now),
        give_back=work.ReturnJob(begin, now),
    )


def _delivery_verbs(begin: Begin, now: Clock) -> DeliveryVerbs:
    return DeliveryVerbs(
        wait=deliver.DeliveriesWait(begin, now),
        route=deliver.RouteMessages(begin, now, new_id),
        claim=deliver.ClaimDeliveries(begin, now),
        record=deliver.RecordAnswers(begin, now, new_id, draw=random.random),
    )


def _watch(metrics: Metrics, finished: Verbs) -> None:
    """Add what is read at each scrape: the work that waits, and the versions that decide."""

    def gauges(
        part: str, measure: Callable[[Line, datetime], float]
    ) -> Callable[[], Mapping[tuple[str, ...], float]]:
        def read() -> Mapping[tuple[str, ...], float]:
            backlog, now = finished.read_backlog(SYSTEM)
            lines: Mapping[str, Line] = getattr(backlog, part)
            return {(state,): measure(line, now) for state, line in lines.items()}

        return read

    for part, name, what in (
        ("reviews", "setwise_reviews", "Review tasks that are not completed"),
        ("deliveries", "setwise_deliveries", "Messages and deliveries under way and given up"),
        ("jobs", "setwise_jobs", "Jobs that wait or run"),
    ):
        metrics.watch(name, f"{what}.", ["state"], gauges(part, lambda line, _: line.count))
        metrics.watch(
            f"{name}_oldest_seconds",
            f"{what}: for how long the oldest does.",
            ["state"],
            gauges(part, Line.age_s),
        )

    def serving() -> Mapping[tuple[str, ...], float]:
        policy = finished.get_policy(SYSTEM).version
        model = finished.predict.predictors.active()
        return {(model.version, model.calibrator_version, policy): 1.0}

    def watched() -> Mapping[tuple[str, ...], float]:
        seen = finished.get_breaker(SYSTEM).watch
        return {
            ("tripped",): float(seen.position is Position.TRIPPED),
            ("alarm",): max(seen.path, default=0.0) / seen.run_length,
        }

    metrics.watch(
        "setwise_breaker",
        "tripped: 1 while nothing is sent; alarm: how near the audits are to that, which is 1.",
        ["what"],
        watched,
    )
    metrics.watch(
        "setwise_serving",
        "Always 1; the labels name the versions that decide now.",
        ["model_version", "calibrator_version", "policy_version"],
        serving,
    )


class _Stages:
    """Watches the stages of a prediction for the metrics and, where asked for, for traces."""

    def __init__(self, metrics: Metrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing

    def __call__(self, name: str) -> AbstractContextManager[object]:
        if self._tracing is None:
            return self._metrics.stage(name)
        both = ExitStack()
        both.enter_context(self._metrics.stage(name))
        both.enter_context(self._tracing.stage(name))
        return both


def _tracing(settings: Settings) -> Tracing | None:
    if not settings.otlp_endpoint:
        return None
    try:
        return tracing.start(settings.otlp_endpoint)
    except tracing.NoTracing as error:
        raise BadSetting(f"{PREFIX}OTLP_ENDPOINT: {error}") from error


def _database_check(engine: Engine) -> Callable[[], str | None]:
    def check() -> str | None:
        try:
            status = migrate.check(engine)
        except ServiceError as error:
            return error.detail
        return None if status.ok else unmigrated(status)

    return check


def _provider(settings: Settings) -> OpenIdConnect | None:
    if not settings.oidc_issuer:
        return None
    needed = {
        "OIDC_CLIENT_ID": settings.oidc_client_id,
        "OIDC_ROLES": settings.oidc_roles,
        "PUBLIC_URL": settings.public_url,
    }
    for name, given in needed.items():
        if not given:
            raise BadSetting(f"{PREFIX}{name}: is needed with {PREFIX}OIDC_ISSUER")
    if any(importlib.util.find_spec(name) is None for name in ("httpx", "joserfc")):
        raise BadSetting(f"{PREFIX}OIDC_ISSUER: install the extra setwise[oidc] first")
    secret = settings.oidc_client_secret
    return OpenIdConnect(
        Provider(
            settings.oidc_issuer,
            settings.oidc_client_id,
            secret.get_secret_value() if secret else None,
            settings.oidc_role_claim,
            read_roles(settings.oidc_roles),
        )
    )


def _days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None


def _cipher(settings: Settings) -> TextCipher | None:
    keys = settings.encryption_keys
    known = read_keys(keys.get_secret_value()) if keys else []
    return TextCipher(known) if known else None


def _encryption_check(engine: Engine) -> Callable[[], str | None]:
    def check() -> str | None:
        try:
            if not migrate.check(engine).ok:
                return None  # which another check tells
            return encryption.missing_keys(engine)
        except ServiceError as error:
            return error.detail

    return check


def unmigrated(status: migrate.Status) -> str:
    """Say what to do about a database that the code cannot work with."""
    have = f"at revision {status.current}" if status.current else "empty"
    return f"The database is {have}, not at {status.head}: run setwise db upgrade."


def _model_check(registry: ModelRegistry) -> Callable[[], str | None]:
    def check() -> str | None:
        try:
            registry.active()
        except ModelUnavailable as error:
            return error.detail
        return None

    return check


def _pepper(settings: Settings) -> bytes:
    """Return the secret behind stored keys and cursors, made on the first start."""
    if settings.pepper is not None:
        return settings.pepper.get_secret_value().encode()
    path = settings.data_dir / "pepper"
    try:
        if not path.exists():
            _write_once(path, secrets.token_hex(32))
        return path.read_bytes().strip()
    except OSError as error:
        raise BadSetting(
            f"{PREFIX}DATA_DIR: the key file {path} cannot be used: {error.strerror}"
        ) from error


def _write_once(path: Path, content: str) -> None:
    """Write a private file in one step; of two processes at once, the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{new_id()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _derived(pepper: bytes, purpose: str) -> bytes:
    """Return a secret for one purpose, which tells nothing of the others."""
    return hmac.digest(pepper, purpose.encode(), hashlib.sha256)
