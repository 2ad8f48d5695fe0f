"""Let what is confident be sent again after the breaker has tripped."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from setwise.service.domain.breaker import Reset, Trip
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import (
    BreakerNotTripped,
    CertificateNeeded,
    FieldFault,
    InvalidRequest,
    ModelUnavailable,
)
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.services.recording import Recorded
from setwise.service.stores.transaction import Transaction


@dataclass(frozen=True)
class ResetBreaker(Recorded):
    """Let confident label sets be sent again.

    Attributes
    ----------
    outlook : callable
        Says what a certification would find now, as its evidence, without making one.
    """

    outlook: Callable[[], Mapping[str, object]]

    def __call__(
        self, caller: Caller, *, uncertified: bool = False, request_id: str | None = None
    ) -> Reset:
        """Return the reset; what is predicted from now on is sent again.

        Parameters
        ----------
        uncertified : bool
            The owner's word, which a threshold needs that was set by hand.

        Raises
        ------
        BreakerNotTripped
            If sending is not stopped.
        CertificateNeeded
            If nothing from after the trip proves the threshold; the detail says what lacks.
        InvalidRequest
            If ``uncertified`` is given for a threshold that is to be certified.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            transaction.policies.lock()
            policy = transaction.policies.current()
            trip = None if policy.trip_id is None else transaction.breakers.trip(policy.trip_id)
            if trip is None:
                raise BreakerNotTripped("The breaker has not tripped; there is nothing to reset.")
            proof = _proof(policy, trip, uncertified=uncertified)
            if proof is not None or policy.threshold_mode is ThresholdMode.FIXED:
                reset = Reset(self.new_id(), trip.id, proof, caller.id, self.now())
                self._close(transaction, caller, policy, reset, request_id=request_id)
                transaction.commit()
                return reset
        raise CertificateNeeded(self._lacking())

    def _close(
        self,
        transaction: Transaction,
        caller: Caller,
        policy: RoutingPolicy,
        reset: Reset,
        *,
        request_id: str | None,
    ) -> None:
        resumed = replace(
            policy,
            version=self.new_id(),
            trip_id=None,
            created_at=reset.created_at,
            created_by=caller.id,
        )
        transaction.breakers.close(reset)
        transaction.policies.add(resumed, replacing=policy.version)
        self._note(
            transaction,
            caller,
            "breaker.reset",
            resumed.version,
            request_id,
            trip_id=reset.trip_id,
            replaced=policy.version,
            certificate_id=reset.certificate_id,
            threshold=resumed.threshold,
        )

    def _lacking(self) -> str:
        needed = "No certificate from after the trip proves a threshold. "
        try:
            found = self.outlook()
        except ModelUnavailable:
            return needed + "Nothing has been predicted since."
        if found["certified"] is True:
            return (
                needed + "The audits would prove one now: ask for it with "
                "POST /v1/admin/certifications, then reset the breaker."
            )
        further = found["further_audits"]
        if further is None:
            return (
                needed + f"The audits say: {found['reason']}. More of them would not change that; "
                "lower the target, or train or recalibrate the model."
            )
        return needed + f"About {further} more audits are needed ({found['reason']})."


def _proof(policy: RoutingPolicy, trip: Trip, *, uncertified: bool) -> str | None:
    """Return the certificate that the policy stands on, if it is from after the trip."""
    if policy.threshold_mode is ThresholdMode.FIXED:
        if not uncertified:
            raise CertificateNeeded(
                "The threshold was set by hand and no audits prove it. Send uncertified: true to "
                "go on upon your own word, or change the policy's threshold to mode certified."
            )
        return None
    if uncertified:
        fault = FieldFault(
            "/uncertified", "goes with a threshold of mode fixed; the policy's mode is certified"
        )
        raise InvalidRequest("The breaker cannot be reset like this.", [fault])
    certificate = policy.certificate_id
    return certificate if certificate is not None and certificate > trip.id else None
