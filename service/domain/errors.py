"""The errors that the service raises; none of them mentions HTTP."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

INTERNAL_ERROR = "internal-error"
"""Code of a fault of the service itself, which no class below describes."""


class ServiceError(Exception):
    """A request that fails: what is wrong, where, and how to correct it."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    @classmethod
    def code(cls) -> str:
        """Return a stable name of the kind of error, for programs.

        >>> JobNotFound.code()
        'job-not-found'
        """
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


@dataclass(frozen=True)
class FieldFault:
    """A fault in a request, at a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


MOST_FAULTS = 50
"""Faults of one request that are described: each takes time, and no reader needs more."""


def first_faults(faults: Iterable[FieldFault]) -> list[FieldFault]:
    """Return the first faults, without looking for more."""
    return list(islice(faults, MOST_FAULTS))


class InvalidRequest(ServiceError):
    """The request is well-formed but asks for something invalid."""

    def __init__(self, detail: str, faults: Iterable[FieldFault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(first_faults(faults))


class Unauthenticated(ServiceError):
    """The key is missing, unknown or revoked, or no session is valid."""


class KeyExpired(Unauthenticated):
    """The key has expired."""


class WrongPassword(Unauthenticated):
    """The login name or password is wrong; the error never says which."""


class TooManyRequests(ServiceError):
    """The caller sent too many requests and can retry later."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProviderUnavailable(ServiceError):
    """The identity provider does not respond, or its response is invalid."""


class ForgedRequest(ServiceError):
    """The request does not come from a page of the service (CSRF)."""


class Forbidden(ServiceError):
    """The caller's role does not allow this."""


class NotFound(ServiceError):
    """Nothing has this id, or the caller may not see it."""


class PredictionNotFound(NotFound):
    """No prediction has this id, or another client made it."""


class ReviewNotFound(NotFound):
    """No review task has this id."""


class ModelNotFound(NotFound):
    """No registered model has this id."""


class KeyNotFound(NotFound):
    """No API key has this id."""


class InvitationOver(NotFound):
    """The invitation was used or replaced, or has expired."""


class PersonNotFound(NotFound):
    """No person has this id or login name."""


class WebhookNotFound(NotFound):
    """No webhook has this id."""


class DeliveryNotFound(NotFound):
    """No delivery has this id."""


class JobNotFound(NotFound):
    """No job has this id, or another caller requested it."""


class CertificationNotFound(NotFound):
    """No attempt to certify a threshold has this id."""


class AnnotatorNotFound(NotFound):
    """No current or past annotator has this id."""


class GroupNotFound(NotFound):
    """No group of annotators has this id."""


class LabelNotFound(NotFound):
    """Neither the model nor the catalogue has a label of this name."""


class CalibrationNotFound(NotFound):
    """No calibrator learnt from reviews has this id."""


class ResultNotFound(NotFound):
    """The job made no file, or the file has been deleted."""


class ShadowNotFound(NotFound):
    """The model is not the shadow of the active model."""


class Conflict(ServiceError):
    """The current state does not allow the change."""


class LeaseLost(Conflict):
    """The caller does not hold the lease on the task or job."""


class BlindReviewHeld(Conflict):
    """The caller holds a blind review of the document and has not answered it."""


class ReviewAlreadyDecided(Conflict):
    """The review task is already submitted; its labels cannot change."""


class ReviewOpen(Conflict):
    """A review of the document is open; its answer comes first."""


class TooManyLeases(Conflict):
    """The reviewer holds the maximum number of unfinished tasks."""


class ModelDamaged(Conflict):
    """The registered model cannot be loaded; the active one keeps serving."""


class NothingToRollBack(Conflict):
    """No other model or calibrator has served before."""


class NotEnoughReviews(Conflict):
    """There are too few reviews to learn a calibrator."""


class RatesUnknown(Conflict):
    """The error rates of reviewers are unknown and cannot be corrected for."""


class CalibrationOfAnotherModel(Conflict):
    """The calibrator belongs to a model that is not active."""


class CalibrationDamaged(Conflict):
    """The calibrator cannot be loaded; the active one keeps serving."""


class ShadowTaken(Conflict):
    """Another model is already the shadow, or this model is active."""


class DuplicateModel(Conflict):
    """An artifact with the same content is already registered."""


class DeliveryCancelled(Conflict):
    """The delivery's webhook was deleted."""


class TooManySecrets(Conflict):
    """The webhook's last secrets still sign beside the current one, and no more fit."""


class JobFinished(Conflict):
    """The job has ended, so it cannot be cancelled or retried."""


class JobNeeded(Conflict):
    """The service itself needs the job, so nobody can cancel it."""


class JobUnfinished(Conflict):
    """The job has not ended yet."""


class LastAdmin(Conflict):
    """The change would leave the service without an administrator."""


class LoginTaken(Conflict):
    """Another person has this login name."""


class SimilarLabels(Conflict):
    """A new label differs only in its spelling from labels that exist."""

    def __init__(self, label: str, similar: Sequence[str]) -> None:
        named = ", ".join(map(repr, similar))
        super().__init__(
            f"{label!r} is spelt almost like {named}. Give that label, or add the new one with "
            '"insist": true.'
        )
        self.label = label
        self.similar = tuple(similar)


class BreakerNotTripped(Conflict):
    """The breaker has not tripped, so there is nothing to reset."""


class CertificateNeeded(Conflict):
    """Resetting the breaker needs a certificate from after the trip."""


class IdempotencyMismatch(ServiceError):
    """The idempotency key was used with a different request body."""


class RequestUnfinished(Conflict):
    """A request with the same idempotency key has no stored response."""


class StaleVersion(ServiceError):
    """The resource has changed since the caller read it."""


class VersionRequired(ServiceError):
    """The request must name the version that it changes."""


class DocumentTooLarge(ServiceError):
    """The document is larger than the configured limit."""


class UploadTooLarge(ServiceError):
    """The file is larger than the configured limit."""


class StorageFull(ServiceError):
    """There is no space left for a file; nothing of it was stored."""


class ModelUnavailable(ServiceError):
    """No model can be reached, so nothing can be predicted."""


class NoModel(ModelUnavailable):
    """No model has been activated yet; documents go to people as they come."""


class ModelLoading(ModelUnavailable):
    """The active model is still being loaded."""


class ModelUnreadable(ModelUnavailable):
    """A model is active, but it cannot be loaded."""


class TracesLeft(ServiceError):
    """Files still hold an erased document, because they cannot be read or written."""


class StorageUnavailable(ServiceError):
    """The database does not respond; the request can be retried later."""


class StorageSlow(StorageUnavailable):
    """The database responds, but takes longer than the service allows."""


class StorageDamaged(ServiceError):
    """What is stored was changed, moved or cut off, or lacks its key; a retry does not help."""
