"""All finished verbs in one place, for the edges that offer them to people and programs."""

from dataclasses import dataclass

from service.use_cases.administer import (
    ActivateModel,
    AddModel,
    Authenticate,
    ChangePolicy,
    CreateKey,
    GetPolicy,
    ListKeys,
    ListModels,
    RevokeKey,
)
from service.use_cases.annotators import (
    ChangeGroup,
    GetAnnotator,
    GetGroup,
    ListAnnotators,
    ListGroups,
    PlaceAnnotator,
)
from service.use_cases.audit import ListEvents
from service.use_cases.breaker import GetBreaker, WatchAudits
from service.use_cases.breaker_reset import ResetBreaker
from service.use_cases.calibrations import (
    ActivateCalibration,
    GetCalibration,
    ListCalibrations,
    RollBackCalibration,
)
from service.use_cases.candidates import (
    BeginShadow,
    CompareRecent,
    EndShadow,
    GetComparison,
    RollBackModel,
    SubmitCompare,
    VerifyModel,
)
from service.use_cases.certify import (
    Certify,
    GetCertification,
    ListCertifications,
    RequestCertification,
)
from service.use_cases.check import CheckSets
from service.use_cases.cockpit import ReadCockpit
from service.use_cases.decide import DecideReview, MyReviews, SettleDecisions, UndoDecision
from service.use_cases.deliver import AcknowledgeMessages, ReadOutbox
from service.use_cases.derive import DeriveDecision
from service.use_cases.explain import ExplainLabels
from service.use_cases.export import Export, RunExport, SubmitExport
from service.use_cases.forecast import PreviewPolicy, ReportAutomation
from service.use_cases.labels import SearchLabels
from service.use_cases.outcomes import ListOutcomes, ReportOutcome
from service.use_cases.oversee import CancelJob, GetJob, ListJobs, RetryJob
from service.use_cases.people import (
    ChangeOwnPassword,
    ChangePerson,
    CreatePerson,
    ListPeople,
    OpenSession,
    SetPassword,
    SignIn,
    SignInExternally,
    SignOut,
)
from service.use_cases.predict import (
    GetPrediction,
    ListPredictions,
    Predict,
    PredictBatch,
)
from service.use_cases.preview import PreviewChange
from service.use_cases.privacy import EraseDocument, ErasePerson, PurgeTexts
from service.use_cases.recalibrate import Recalibrate, RequestCalibration
from service.use_cases.reliability import ReportReliability
from service.use_cases.report import ReadBacklog, Summary
from service.use_cases.results import ReadResult, SweepFiles
from service.use_cases.review import (
    ClaimReview,
    CompleteReview,
    ExpireLeases,
    ExtendLease,
    GetReview,
    ListReviews,
    ReleaseReview,
    SkipReview,
)
from service.use_cases.score import ReceiveUpload, ScoreFile, SubmitScoring
from service.use_cases.webhooks import (
    AddWebhook,
    ChangeWebhook,
    DeleteWebhook,
    GetDelivery,
    GetWebhook,
    ListDeliveries,
    ListWebhooks,
    ReplayDead,
    ReplayDelivery,
    RotateSecret,
    TryWebhook,
)


@dataclass(frozen=True)
class Verbs:
    """What the service can do, each verb with what it needs."""

    predict: Predict
    predict_batch: PredictBatch
    get_prediction: GetPrediction
    derive_decision: DeriveDecision
    list_predictions: ListPredictions
    report_outcome: ReportOutcome
    list_outcomes: ListOutcomes
    claim_review: ClaimReview
    extend_lease: ExtendLease
    release_review: ReleaseReview
    skip_review: SkipReview
    complete_review: CompleteReview
    decide_review: DecideReview
    undo_decision: UndoDecision
    settle_decisions: SettleDecisions
    my_reviews: MyReviews
    check_sets: CheckSets
    explain_labels: ExplainLabels
    get_review: GetReview
    list_reviews: ListReviews
    expire_leases: ExpireLeases
    search_labels: SearchLabels
    summary: Summary
    get_job: GetJob
    list_jobs: ListJobs
    cancel_job: CancelJob
    retry_job: RetryJob
    receive_upload: ReceiveUpload
    submit_scoring: SubmitScoring
    score_file: ScoreFile
    read_result: ReadResult
    sweep_files: SweepFiles
    export: Export
    submit_export: SubmitExport
    run_export: RunExport
    get_policy: GetPolicy
    change_policy: ChangePolicy
    preview_policy: PreviewPolicy
    preview_change: PreviewChange
    report_reliability: ReportReliability
    report_automation: ReportAutomation
    list_annotators: ListAnnotators
    get_annotator: GetAnnotator
    place_annotator: PlaceAnnotator
    list_groups: ListGroups
    get_group: GetGroup
    change_group: ChangeGroup
    watch_audits: WatchAudits
    get_breaker: GetBreaker
    reset_breaker: ResetBreaker
    read_cockpit: ReadCockpit
    request_certification: RequestCertification
    certify: Certify
    get_certification: GetCertification
    list_certifications: ListCertifications
    request_calibration: RequestCalibration
    recalibrate: Recalibrate
    get_calibration: GetCalibration
    list_calibrations: ListCalibrations
    activate_calibration: ActivateCalibration
    roll_back_calibration: RollBackCalibration
    add_model: AddModel
    list_models: ListModels
    activate_model: ActivateModel
    roll_back_model: RollBackModel
    verify_model: VerifyModel
    begin_shadow: BeginShadow
    end_shadow: EndShadow
    get_comparison: GetComparison
    submit_compare: SubmitCompare
    compare_recent: CompareRecent
    create_key: CreateKey
    list_keys: ListKeys
    revoke_key: RevokeKey
    authenticate: Authenticate
    create_person: CreatePerson
    list_people: ListPeople
    change_person: ChangePerson
    set_password: SetPassword
    change_own_password: ChangeOwnPassword
    sign_in: SignIn
    sign_in_externally: SignInExternally
    open_session: OpenSession
    sign_out: SignOut
    list_events: ListEvents
    purge_texts: PurgeTexts
    erase_document: EraseDocument
    erase_person: ErasePerson
    read_outbox: ReadOutbox
    acknowledge_messages: AcknowledgeMessages
    read_backlog: ReadBacklog
    add_webhook: AddWebhook
    change_webhook: ChangeWebhook
    delete_webhook: DeleteWebhook
    get_webhook: GetWebhook
    list_webhooks: ListWebhooks
    rotate_secret: RotateSecret
    try_webhook: TryWebhook
    list_deliveries: ListDeliveries
    get_delivery: GetDelivery
    replay_delivery: ReplayDelivery
    replay_dead: ReplayDead
