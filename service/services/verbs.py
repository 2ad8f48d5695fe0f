"""All finished verbs in one place, for the edges that offer them to people and programs."""

from dataclasses import dataclass

from setwise.service.services.accounts import (
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
from setwise.service.services.administer import (
    Authenticate,
    ChangePolicy,
    CreateKey,
    GetPolicy,
    ListKeys,
    RevokeKey,
)
from setwise.service.services.annotators import (
    ChangeGroup,
    GetAnnotator,
    GetGroup,
    ListAnnotators,
    ListGroups,
    PlaceAnnotator,
)
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import GetBreaker, WatchAudits
from setwise.service.services.breaker_reset import ResetBreaker
from setwise.service.services.calibrations import (
    ActivateCalibration,
    GetCalibration,
    ListCalibrations,
    RollBackCalibration,
)
from setwise.service.services.certification import (
    Certify,
    GetCertification,
    ListCertifications,
    RequestCertification,
)
from setwise.service.services.check import CheckSets
from setwise.service.services.cockpit import ReadCockpit
from setwise.service.services.decide import DecideReview, MyReviews, SettleDecisions, UndoDecision
from setwise.service.services.derive import DeriveDecision
from setwise.service.services.explain import ExplainLabels
from setwise.service.services.files import Files
from setwise.service.services.forecast import PreviewPolicy, ReportAutomation
from setwise.service.services.jobs import Jobs
from setwise.service.services.labels import SearchLabels
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.predictions import (
    GetPrediction,
    ListPredictions,
    Predict,
    PredictBatch,
)
from setwise.service.services.preview import PreviewChange
from setwise.service.services.privacy import EraseDocument, ErasePerson, PurgeTexts
from setwise.service.services.recalibration import Recalibrate, RequestCalibration
from setwise.service.services.reliability import ReportReliability
from setwise.service.services.report import ReadBacklog, Summary
from setwise.service.services.reviews import (
    ClaimReview,
    CompleteReview,
    ExpireLeases,
    ExtendLease,
    GetReview,
    ListReviews,
    ReleaseReview,
    SkipReview,
)
from setwise.service.services.webhooks import Webhooks


@dataclass(frozen=True)
class Verbs:
    """What the service can do, each verb with what it needs."""

    predict: Predict
    predict_batch: PredictBatch
    get_prediction: GetPrediction
    derive_decision: DeriveDecision
    list_predictions: ListPredictions
    outcomes: Outcomes
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
    jobs: Jobs
    files: Files
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
    models: Models
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
    audit_trail: AuditTrail
    purge_texts: PurgeTexts
    erase_document: EraseDocument
    erase_person: ErasePerson
    read_backlog: ReadBacklog
    webhooks: Webhooks
