"""All services in one object, for the API, pages and command line."""

from dataclasses import dataclass

from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People
from setwise.service.services.accounts.sessions import Sessions
from setwise.service.services.annotators import Annotators
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.services.documents import Documents
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.selections import Selections
from setwise.service.services.documents.texts import Texts
from setwise.service.services.files import Files
from setwise.service.services.idempotency import Idempotency
from setwise.service.services.jobs import Jobs
from setwise.service.services.labels import Labels
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.retraining import Retraining
from setwise.service.services.reviews.answers import Answers
from setwise.service.services.reviews.decisions import Reviews
from setwise.service.services.reviews.queue import Queue
from setwise.service.services.segments import Segments
from setwise.service.services.webhooks import Webhooks


@dataclass(frozen=True)
class Services:
    """All services of one process."""

    predictions: Predictions
    documents: Documents
    comments: Comments
    selections: Selections
    outcomes: Outcomes
    queue: Queue
    reviews: Reviews
    answers: Answers
    jobs: Jobs
    files: Files
    policy: Policies
    segments: Segments
    annotators: Annotators
    breaker: Breaker
    certification: Certifications
    outlook: Outlooks
    recalibration: Recalibration
    retraining: Retraining
    models: Models
    labels: Labels
    reports: Reports
    keys: Keys
    people: People
    sessions: Sessions
    audit_trail: AuditTrail
    webhooks: Webhooks
    texts: Texts
    idempotency: Idempotency
