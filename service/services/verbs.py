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
    CreateKey,
    ListKeys,
    RevokeKey,
)
from setwise.service.services.annotators import Annotators
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification import Certifications
from setwise.service.services.cockpit import ReadCockpit
from setwise.service.services.derive import DeriveDecision
from setwise.service.services.files import Files
from setwise.service.services.forecast import ReportAutomation
from setwise.service.services.jobs import Jobs
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import (
    GetPrediction,
    ListPredictions,
    Predict,
    PredictBatch,
)
from setwise.service.services.privacy import EraseDocument, ErasePerson, PurgeTexts
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reliability import ReportReliability
from setwise.service.services.report import ReadBacklog, Summary
from setwise.service.services.reviews import Reviews
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
    reviews: Reviews
    summary: Summary
    jobs: Jobs
    files: Files
    policy: Policies
    report_reliability: ReportReliability
    report_automation: ReportAutomation
    annotators: Annotators
    breaker: Breaker
    read_cockpit: ReadCockpit
    certification: Certifications
    recalibration: Recalibration
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
