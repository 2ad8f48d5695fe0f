"""All kinds of problem: their addresses and what they mean to clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from setwise.service.domain import errors
from setwise.service.domain.errors import ServiceError

_LATER = {"Retry-After": "2"}


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem: its address and what it means to clients."""

    slug: str
    """Last part of the problem's ``type``; never changes once released."""
    status: HTTPStatus
    title: str
    meaning: str
    """What happened and what to do about it."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Sent with every problem of the kind."""

    @property
    def type(self) -> str:
        """The stable relative address of the kind."""
        return f"/problems/{self.slug}"


PROBLEMS: dict[type[ServiceError], ProblemKind] = {
    errors.InvalidRequest: ProblemKind(
        "invalid-request",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The request says something that cannot be done",
        "`errors` points at each fault. Unknown fields are faults too. Correct them; sending the "
        "same request again gives the same answer.",
    ),
    errors.Unauthenticated: ProblemKind(
        "unauthenticated",
        HTTPStatus.UNAUTHORIZED,
        "No valid key",
        "Send `Authorization: Bearer KEY` with a key made by `setwise key create`. A revoked key "
        "stops working within seconds.",
        {"WWW-Authenticate": 'Bearer realm="setwise"'},
    ),
    errors.KeyExpired: ProblemKind(
        "key-expired",
        HTTPStatus.UNAUTHORIZED,
        "The key has expired",
        "It was made to work for a time, and that is over. Ask an administrator for a new one.",
        {"WWW-Authenticate": 'Bearer realm="setwise"'},
    ),
    errors.WrongPassword: ProblemKind(
        "wrong-password",
        HTTPStatus.UNAUTHORIZED,
        "The name or the password is wrong",
        "The response never says which. A disabled account gets the same answer.",
        {"WWW-Authenticate": 'Bearer realm="setwise"'},
    ),
    errors.TooManyRequests: ProblemKind(
        "too-many-requests",
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many requests",
        "Nothing was done. Wait as many seconds as `Retry-After` says, then go on more slowly.",
        {"Retry-After": "1"},
    ),
    errors.ProviderUnavailable: ProblemKind(
        "provider-unavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The identity provider does not answer",
        "People cannot sign in with it at the moment; people who are signed in can continue.",
        _LATER,
    ),
    errors.ForgedRequest: ProblemKind(
        "forged-request",
        HTTPStatus.FORBIDDEN,
        "The request was not sent from a page of this service",
        "A request that is signed in by a cookie and changes something carries the token of its "
        "page in `X-CSRF-Token`. Programs use keys, which need no token.",
    ),
    errors.Forbidden: ProblemKind(
        "forbidden",
        HTTPStatus.FORBIDDEN,
        "Your role does not allow this",
        "The key or session is good, its role is not: clients predict, reviewers review, leads "
        "also see every prediction, admins do everything, auditors read all and change nothing.",
    ),
    errors.NotFound: ProblemKind(
        "not-found",
        HTTPStatus.NOT_FOUND,
        "No such thing",
        "Nothing has this id, or your key may not know that it exists.",
    ),
    errors.PredictionNotFound: ProblemKind(
        "prediction-not-found",
        HTTPStatus.NOT_FOUND,
        "No such prediction",
        "No prediction has this id, or another client made it.",
    ),
    errors.ReviewNotFound: ProblemKind(
        "review-not-found",
        HTTPStatus.NOT_FOUND,
        "No such review task",
        "No review task has this id.",
    ),
    errors.ModelNotFound: ProblemKind(
        "model-not-found",
        HTTPStatus.NOT_FOUND,
        "No such model",
        "No registered model has this id; `GET /v1/admin/models` lists them.",
    ),
    errors.KeyNotFound: ProblemKind(
        "key-not-found",
        HTTPStatus.NOT_FOUND,
        "No such key",
        "No API key has this id; `setwise key list` lists them.",
    ),
    errors.PersonNotFound: ProblemKind(
        "person-not-found",
        HTTPStatus.NOT_FOUND,
        "No such person",
        "No person has this id or login name; `setwise person list` lists them all.",
    ),
    errors.WebhookNotFound: ProblemKind(
        "webhook-not-found",
        HTTPStatus.NOT_FOUND,
        "No such webhook",
        "No webhook has this id; `GET /v1/admin/webhooks` lists them.",
    ),
    errors.DeliveryNotFound: ProblemKind(
        "delivery-not-found",
        HTTPStatus.NOT_FOUND,
        "No such delivery",
        "No delivery has this id; `GET /v1/admin/deliveries` lists them.",
    ),
    errors.JobNotFound: ProblemKind(
        "job-not-found",
        HTTPStatus.NOT_FOUND,
        "No such job",
        "No job has this id, or another caller asked for it; `GET /v1/jobs` lists yours.",
    ),
    errors.CertificationNotFound: ProblemKind(
        "certification-not-found",
        HTTPStatus.NOT_FOUND,
        "No such certification",
        "No attempt to certify a threshold has this id; `GET /v1/admin/certifications` lists them.",
    ),
    errors.AnnotatorNotFound: ProblemKind(
        "annotator-not-found",
        HTTPStatus.NOT_FOUND,
        "No such annotator",
        "No person or key that may review, or has reviewed, has this id; "
        "`GET /v1/admin/annotators` lists them.",
    ),
    errors.GroupNotFound: ProblemKind(
        "group-not-found",
        HTTPStatus.NOT_FOUND,
        "No such group",
        "No group of annotators has this id; `GET /v1/admin/groups` lists them, and "
        "`PUT /v1/admin/groups/{id}` makes one.",
    ),
    errors.CalibrationNotFound: ProblemKind(
        "calibration-not-found",
        HTTPStatus.NOT_FOUND,
        "No such calibrator",
        "No calibrator learnt from reviews has this id; `GET /v1/admin/calibrations` lists them.",
    ),
    errors.ResultNotFound: ProblemKind(
        "result-not-found",
        HTTPStatus.NOT_FOUND,
        "The job has no result file",
        "The job made none, or it was removed after its time (SETWISE_JOB_FILES_DAYS).",
    ),
    errors.ShadowNotFound: ProblemKind(
        "shadow-not-found",
        HTTPStatus.NOT_FOUND,
        "The model does not shadow the one that serves",
        "It never did, or its shadowing has ended.",
    ),
    errors.Conflict: ProblemKind(
        "conflict",
        HTTPStatus.CONFLICT,
        "The present state does not allow this",
        "Read it again and decide once more.",
    ),
    errors.LeaseLost: ProblemKind(
        "lease-lost",
        HTTPStatus.CONFLICT,
        "You do not hold this review task",
        "The lease expired and another reviewer has the task, or it was released. Nothing was "
        "stored; claim the next task.",
    ),
    errors.BlindReviewHeld: ProblemKind(
        "blind-review-held",
        HTTPStatus.CONFLICT,
        "You hold a blind review of this document",
        "Answer it before you read what the model suggested: your answer must not rest on it. "
        "Lists leave such documents out; exports and results of jobs wait.",
    ),
    errors.ReviewAlreadyDecided: ProblemKind(
        "review-already-decided",
        HTTPStatus.CONFLICT,
        "The review task is completed",
        "Its labels stand and are never overwritten. Claim the next task.",
    ),
    errors.TooManyLeases: ProblemKind(
        "too-many-leases",
        HTTPStatus.CONFLICT,
        "You hold too many unfinished review tasks",
        "Complete, skip or release one before you claim the next.",
    ),
    errors.ModelDamaged: ProblemKind(
        "model-damaged",
        HTTPStatus.CONFLICT,
        "The model cannot be loaded",
        "Nothing has changed: the present model goes on serving. `detail` says what is wrong with "
        "the artifact; add a sound copy of it.",
    ),
    errors.NothingToRollBack: ProblemKind(
        "nothing-to-roll-back",
        HTTPStatus.CONFLICT,
        "Nothing else has served before",
        "Activate the model or calibrator that you mean by its id.",
    ),
    errors.NotEnoughReviews: ProblemKind(
        "not-enough-reviews",
        HTTPStatus.CONFLICT,
        "Too little was reviewed to learn from",
        "The detail says how many predictions can be learnt from, why others cannot, and what to "
        "do. Nothing has changed; the calibrator that served goes on serving.",
    ),
    errors.RatesUnknown: ProblemKind(
        "rates-unknown",
        HTTPStatus.CONFLICT,
        "The error rates of reviewers are unknown",
        "Set the error rates of the groups, have leads decide enough answers, or ask with noise "
        "`none`.",
    ),
    errors.CalibrationOfAnotherModel: ProblemKind(
        "calibration-of-another-model",
        HTTPStatus.CONFLICT,
        "The calibrator belongs to another model",
        "A calibrator corrects the confidences of the model that it was learnt for. Activate that "
        "model first, or recalibrate the one that serves.",
    ),
    errors.CalibrationDamaged: ProblemKind(
        "calibration-damaged",
        HTTPStatus.CONFLICT,
        "The calibrator cannot be loaded",
        "Its files are missing or damaged. Nothing has changed; recalibrate, or restore the "
        "artifacts from a backup.",
    ),
    errors.ShadowTaken: ProblemKind(
        "shadow-taken",
        HTTPStatus.CONFLICT,
        "Another model is shadowing",
        "One model at a time shadows the one that serves, and not that one itself.",
    ),
    errors.DuplicateModel: ProblemKind(
        "duplicate-model",
        HTTPStatus.CONFLICT,
        "This model is registered already",
        "An artifact with the same content has an id already; activate that one.",
    ),
    errors.DeliveryCancelled: ProblemKind(
        "delivery-cancelled",
        HTTPStatus.CONFLICT,
        "The delivery's webhook was deleted",
        "There is nowhere to send to. Add the webhook again; it gets what happens from then on.",
    ),
    errors.JobFinished: ProblemKind(
        "job-finished",
        HTTPStatus.CONFLICT,
        "The job has ended",
        "It can no longer be cancelled, and what succeeded is not tried again.",
    ),
    errors.JobUnfinished: ProblemKind(
        "job-unfinished",
        HTTPStatus.CONFLICT,
        "The job has not ended yet",
        "Read `GET /v1/jobs/{id}` until its state is `succeeded`, `failed` or `cancelled`.",
    ),
    errors.LastAdmin: ProblemKind(
        "last-admin",
        HTTPStatus.CONFLICT,
        "The last admin cannot leave",
        "Make another admin key, or another person an admin, first; otherwise no one could "
        "administer the service.",
    ),
    errors.BreakerNotTripped: ProblemKind(
        "breaker-not-tripped",
        HTTPStatus.CONFLICT,
        "The breaker has not tripped",
        "Label sets are sent as the policy says. `GET /v1/admin/breaker` tells what is watched.",
    ),
    errors.CertificateNeeded: ProblemKind(
        "certificate-needed",
        HTTPStatus.CONFLICT,
        "A new certificate is needed",
        "What was proved before the trip no longer counts. `detail` has what the last attempt "
        "since says, never what the next one would find. Have more audits read, let `POST "
        "/v1/admin/certifications` prove a threshold, then reset the breaker. Or set a threshold "
        "by hand and say that it is not certified.",
    ),
    errors.LoginTaken: ProblemKind(
        "login-taken",
        HTTPStatus.CONFLICT,
        "The login name is taken",
        "Login names are unique, also among disabled people; choose another.",
    ),
    errors.IdempotencyMismatch: ProblemKind(
        "idempotency-mismatch",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The idempotency key belongs to another request",
        "The key was used with a different address or body. Repeat the first request to get its "
        "answer, or use a new key.",
    ),
    errors.RequestUnfinished: ProblemKind(
        "request-unfinished",
        HTTPStatus.CONFLICT,
        "A request with this idempotency key is unfinished",
        "It is in progress, or the server stopped before it could store the response. Send it "
        "again in a moment; if the answer stays the same, read what the request made.",
        _LATER,
    ),
    errors.StaleVersion: ProblemKind(
        "stale-version",
        HTTPStatus.PRECONDITION_FAILED,
        "It has changed since you read it",
        "The version in `If-Match` is not the current one. Read it again, decide again and send "
        "the new `ETag`.",
    ),
    errors.VersionRequired: ProblemKind(
        "version-required",
        HTTPStatus.PRECONDITION_REQUIRED,
        "The version that you mean is missing",
        "Send `If-Match` with the `ETag` of the answer that you base the change on.",
    ),
    errors.DocumentTooLarge: ProblemKind(
        "document-too-large",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "The document is too large",
        "The text has more bytes than this server takes (SETWISE_MAX_TEXT_BYTES).",
    ),
    errors.UploadTooLarge: ProblemKind(
        "upload-too-large",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "The file is too large",
        "The file has more bytes than this server takes (SETWISE_MAX_UPLOAD_BYTES). Send it in "
        "parts, or gzipped.",
        {"Connection": "close"},
    ),
    errors.ModelUnavailable: ProblemKind(
        "model-unavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "No model is active",
        "Nothing was stored. An administrator registers and activates a model with `setwise model "
        "add ARTIFACT --activate`; `GET /readyz` turns to 200 when it serves.",
        _LATER,
    ),
    errors.StorageFull: ProblemKind(
        "storage-full",
        HTTPStatus.INSUFFICIENT_STORAGE,
        "There is no space left for the file",
        "Nothing of it was stored. Tell the operator, who makes room where the service keeps files "
        "(SETWISE_FILES_URL); then send it again.",
        {"Connection": "close"},
    ),
    errors.StorageUnavailable: ProblemKind(
        "storage-unavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The database does not answer",
        "Send the same request again later. With an `Idempotency-Key` it takes effect once, "
        "however often you send it.",
        _LATER,
    ),
}
"""The problem that clients get for each class of error."""

UNKNOWN_ADDRESS = ProblemKind(
    "unknown-address",
    HTTPStatus.NOT_FOUND,
    "Nothing lives at this address",
    "Every address is listed in `/openapi.json`. There are no trailing slashes.",
)
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed",
    HTTPStatus.METHOD_NOT_ALLOWED,
    "The address does not take this method",
    "`Allow` lists the methods that it takes.",
)
BODY_TOO_LARGE = ProblemKind(
    "body-too-large",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "The body is too large",
    "The body is larger than any allowed document could make it, so it was not read to its end.",
    {"Connection": "close"},
)
BODY_TOO_SLOW = ProblemKind(
    "body-too-slow",
    HTTPStatus.REQUEST_TIMEOUT,
    "The body did not arrive",
    "Nothing of the announced body came for a while, so the connection is closed. Send it again.",
    {"Connection": "close"},
)
UNSUPPORTED_MEDIA_TYPE = ProblemKind(
    "unsupported-media-type",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "The body is not JSON",
    "Send JSON in UTF-8 with `Content-Type: application/json`.",
)
MALFORMED_JSON = ProblemKind(
    "malformed-json",
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "The body is not well-formed JSON",
    "It is not JSON in UTF-8 as RFC 8259 defines it: NaN, Infinity, single surrogates, raw control "
    "characters and nesting beyond 200 levels are refused as well.",
)
NOT_READY = ProblemKind(
    "not-ready",
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The service cannot predict yet",
    "`errors` names what is missing: the database, its migrations or a model.",
    _LATER,
)
INTERNAL_ERROR = ProblemKind(
    "internal-error",
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "The service failed",
    "A fault of ours, logged under the request id in `X-Request-ID`. Quote it to the operator.",
)

BY_HTTP_STATUS = {
    kind.status: kind
    for kind in (UNKNOWN_ADDRESS, METHOD_NOT_ALLOWED, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE)
}

ALL_KINDS: tuple[ProblemKind, ...] = (
    *PROBLEMS.values(),
    *BY_HTTP_STATUS.values(),
    MALFORMED_JSON,
    NOT_READY,
    BODY_TOO_SLOW,
    INTERNAL_ERROR,
)
