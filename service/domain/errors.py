"""Every refusal of the service, one class each. No class here knows of HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass


class ServiceError(Exception):
    """A request that cannot be met, with a sentence for the person who asked.

    Parameters
    ----------
    detail : str
        What was wrong, where, and what would be right.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True)
class FieldFault:
    """One fault in a request body: a JSON pointer (RFC 6901) and what is wrong there."""

    pointer: str
    detail: str


class InvalidRequest(ServiceError):
    """The body is well-formed JSON but says something that cannot be done."""

    def __init__(self, detail: str, faults: Sequence[FieldFault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)


class Unauthenticated(ServiceError):
    """No key, an unknown key or a revoked key; or no session, or one that has ended."""


class KeyExpired(Unauthenticated):
    """The key's time is over."""


class WrongPassword(Unauthenticated):
    """The login name or the password is wrong; which of them is not told."""


class TooManyRequests(ServiceError):
    """The caller has asked too often and may ask again later.

    Parameters
    ----------
    retry_after_s : float
        Seconds until then.
    """

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProviderUnavailable(ServiceError):
    """The identity provider does not answer, or not as it should."""


class ForgedRequest(ServiceError):
    """A browser sent the request without its user's doing: it comes from another site."""


class Forbidden(ServiceError):
    """The caller's role does not allow this."""


class NotFound(ServiceError):
    """Nothing of that kind has this id, or the caller may not know that it exists."""


class PredictionNotFound(NotFound):
    """No prediction has this id, or another client made it."""


class ReviewNotFound(NotFound):
    """No review task has this id."""


class ModelNotFound(NotFound):
    """No registered model has this id."""


class KeyNotFound(NotFound):
    """No API key has this id."""


class PersonNotFound(NotFound):
    """Nobody has this id or login name."""


class WebhookNotFound(NotFound):
    """No webhook has this id."""


class DeliveryNotFound(NotFound):
    """No delivery has this id."""


class JobNotFound(NotFound):
    """No job has this id, or somebody else asked for it."""


class CertificationNotFound(NotFound):
    """No attempt to certify a threshold has this id."""


class AnnotatorNotFound(NotFound):
    """Nobody who may review, or has reviewed, has this id."""


class GroupNotFound(NotFound):
    """No group of annotators has this id."""


class CalibrationNotFound(NotFound):
    """No calibrator learnt from reviews has this id."""


class ResultNotFound(NotFound):
    """The job has made no file, or it was removed after its time."""


class ShadowNotFound(NotFound):
    """The model does not shadow the one that serves."""


class Conflict(ServiceError):
    """The state of the thing does not allow the change."""


class LeaseLost(Conflict):
    """The caller does not hold the lease on this review task or job."""


class ReviewAlreadyDecided(Conflict):
    """The review task is completed; its labels stand."""


class TooManyLeases(Conflict):
    """The reviewer holds as many unfinished tasks as one person may."""


class ModelDamaged(Conflict):
    """The registered model cannot be loaded; the present one goes on serving."""


class NothingToRollBack(Conflict):
    """Nothing else has served before."""


class NotEnoughReviews(Conflict):
    """What was reviewed so far cannot teach a calibrator anything."""


class RatesUnknown(Conflict):
    """Nobody knows how often reviewers err, so it cannot be corrected for."""


class CalibrationOfAnotherModel(Conflict):
    """The calibrator belongs to a model that does not serve."""


class CalibrationDamaged(Conflict):
    """The calibrator cannot be loaded; the present one goes on serving."""


class ShadowTaken(Conflict):
    """Another model shadows the one that serves, or the model serves itself."""


class DuplicateModel(Conflict):
    """An artifact with the same content is registered already."""


class DeliveryCancelled(Conflict):
    """The delivery's webhook was deleted, so there is nowhere to send to."""


class JobFinished(Conflict):
    """The job has ended, so it can no longer be cancelled or tried again."""


class JobUnfinished(Conflict):
    """The job has not ended yet."""


class LastAdmin(Conflict):
    """The change would leave nobody who can administer the service."""


class LoginTaken(Conflict):
    """Somebody else has this login name."""


class BreakerNotTripped(Conflict):
    """Sending is not stopped, so there is nothing to start again."""


class CertificateNeeded(Conflict):
    """The breaker stays open until something from after its trip proves a threshold."""


class IdempotencyMismatch(ServiceError):
    """The idempotency key was used before with another request body."""


class StaleVersion(ServiceError):
    """The thing has changed since the caller read it."""


class VersionRequired(ServiceError):
    """The call must name the version that it means to change."""


class DocumentTooLarge(ServiceError):
    """The document is larger than the configured limit."""


class UploadTooLarge(ServiceError):
    """The file is larger than the configured limit."""


class ModelUnavailable(ServiceError):
    """No model is active, so nothing can be predicted."""


class StorageUnavailable(ServiceError):
    """The database does not answer; the same request may be sent again later."""
