"""Numbers on recent documents: what a policy would do with them, and how right the model was.

Whether a set was right is known where a person or a later outcome said so. Documents are not
checked at random unless audits draw them, so these numbers are for orientation; what proves a
threshold is a certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.errors import FieldFault, InvalidRequest
from service.domain.evidence import Evidence, lowest_threshold
from service.domain.people import Caller, Permission
from service.domain.routing import RoutingPolicy
from service.domain.rules import Rule, read_rules
from service.use_cases.ports import Begin

MOST_DOCUMENTS = 50_000
PREVIEWED = 5_000
"""Documents that a preview looks at; it reads their labels and metadata."""

LEAST_CHECKED = 20
BUCKETS = 10
STEPS = 50
SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class Share:
    """How many of the checked sets were right, with exact bounds.

    Attributes
    ----------
    value, low, high : float or None
        The share, and between what it lies, each bound with the risk that was asked for; None
        while nothing was checked.
    """

    checked: int
    right: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


def share(found: Sequence[Evidence], risk: float) -> Share:
    """Return the share of the checked ones that were right, bounded as Clopper and Pearson do."""
    from models.confidence.binomial import lower_bound  # noqa: PLC0415 -- scipy loads slowly

    verdicts = [one.correct for one in found if one.correct is not None]
    n, right = len(verdicts), sum(verdicts)
    if not n:
        return Share(0, 0)
    low, high = float(lower_bound(right, n, risk)), 1.0 - float(lower_bound(n - right, n, risk))
    return Share(n, right, right / n, low, high)


@dataclass(frozen=True)
class Forecast:
    """What a policy does with recent documents.

    Attributes
    ----------
    expected_accuracy : float or None
        Mean confidence of what is sent.
    reviews_a_day : float
        Documents left to people, at the pace of these.
    """

    threshold: float | None
    documents: int
    sent: int
    coverage: float
    expected_accuracy: float | None
    accuracy: Share
    reviews: int
    reviews_a_day: float


def forecast(
    found: Sequence[Evidence], threshold: float | None, rules: Sequence[Rule], risk: float
) -> Forecast:
    """Return what a threshold and rules would do with documents."""
    sent = [one for one in found if one.would_be_sent(threshold, rules)]
    instants = [one.created_at for one in found]
    span_s = (max(instants) - min(instants)).total_seconds() if instants else 0.0
    reviews = len(found) - len(sent)
    return Forecast(
        threshold=threshold,
        documents=len(found),
        sent=len(sent),
        coverage=len(sent) / len(found) if found else 0.0,
        expected_accuracy=sum(one.confidence for one in sent) / len(sent) if sent else None,
        accuracy=share(sent, risk),
        reviews=reviews,
        reviews_a_day=reviews * SECONDS_A_DAY / max(span_s, SECONDS_A_DAY),
    )


@dataclass(frozen=True)
class Preview:
    """What the policy in force does, and what another one would do, with the same documents."""

    now: Forecast
    then: Forecast


@dataclass(frozen=True)
class PreviewPolicy:
    """Say what a threshold, or a target, and rules would do with recent documents."""

    begin: Begin

    def __call__(
        self,
        caller: Caller,
        *,
        threshold: float | None = None,
        target_accuracy: float | None = None,
        rules: Sequence[object] | None = None,
    ) -> Preview:
        """Return both forecasts.

        Parameters
        ----------
        threshold, target_accuracy : float or None
            One of them, or neither to change only the rules. For a target it is the lowest
            threshold that would have met it.
        rules : sequence or None
            As declared; None keeps those in force.

        Raises
        ------
        InvalidRequest
            If both are given, or one cannot be, or the rules have faults.
        """
        caller.require(Permission.REPORT)
        faults = list(_faults(threshold, target_accuracy))
        read, wrong = read_rules(rules or [])
        if faults or wrong:
            raise InvalidRequest("This policy cannot be previewed.", [*faults, *wrong])
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            found = transaction.history.evidence(PREVIEWED, with_labels=True)
        then_rules = policy.rules if rules is None else read
        if target_accuracy is not None:
            free = [one for one in found if one.would_be_sent(0.0, then_rules)]
            wanted = lowest_threshold(free, target_accuracy, LEAST_CHECKED)
        else:
            wanted = threshold if threshold is not None else policy.least_confidence
        return Preview(
            now=forecast(found, _in_force(policy), policy.rules, policy.risk),
            then=forecast(found, wanted, then_rules, policy.risk),
        )


def _in_force(policy: RoutingPolicy) -> float | None:
    return policy.least_confidence if policy.sends else None


def _faults(threshold: float | None, target: float | None) -> list[FieldFault]:
    faults = []
    if threshold is not None and target is not None:
        faults.append(FieldFault("/target_accuracy", "stands beside a threshold; send one of them"))
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        faults.append(FieldFault("/threshold", f"is {threshold}; it must lie between 0 and 1"))
    if target is not None and not 0.0 < target < 1.0:
        faults.append(
            FieldFault(
                "/target_accuracy", f"is {target}; it must lie between 0 and 1, both excluded"
            )
        )
    return faults


@dataclass(frozen=True)
class Bucket:
    """Documents of about the same confidence.

    Attributes
    ----------
    low, high : float
        The confidences that it holds, ``low`` included.
    confidence : float or None
        Their mean, over the checked documents, to be compared with the accuracy.
    """

    low: float
    high: float
    documents: int
    confidence: float | None
    accuracy: Share


@dataclass(frozen=True)
class Reliability:
    """How well confidence agrees with being right.

    Attributes
    ----------
    brier : float or None
        Mean squared difference between confidence and correctness of the checked documents.
    """

    documents: int
    checked: int
    brier: float | None
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class ReportReliability:
    """Compare confidence with correctness on recent documents."""

    begin: Begin

    def __call__(self, caller: Caller, documents: int) -> Reliability:
        """Return ten buckets of equal width."""
        found, policy = _recent(self.begin, caller, documents)
        buckets: list[list[Evidence]] = [[] for _ in range(BUCKETS)]
        for one in found:
            buckets[min(int(one.confidence * BUCKETS), BUCKETS - 1)].append(one)
        checked = [one for one in found if one.correct is not None]
        errors = [(one.confidence - float(bool(one.correct))) ** 2 for one in checked]
        return Reliability(
            documents=len(found),
            checked=len(checked),
            brier=sum(errors) / len(errors) if errors else None,
            buckets=tuple(
                _bucket(place, inside, policy.risk) for place, inside in enumerate(buckets)
            ),
        )


def _bucket(place: int, inside: Sequence[Evidence], risk: float) -> Bucket:
    checked = [one.confidence for one in inside if one.correct is not None]
    return Bucket(
        low=place / BUCKETS,
        high=(place + 1) / BUCKETS,
        documents=len(inside),
        confidence=sum(checked) / len(checked) if checked else None,
        accuracy=share(inside, risk),
    )


@dataclass(frozen=True)
class ReportAutomation:
    """Say for many thresholds what share would be sent, and how much of it was right."""

    begin: Begin

    def __call__(self, caller: Caller, documents: int) -> tuple[Forecast, list[Forecast]]:
        """Return the forecast of the policy in force, and those of thresholds from 0 to 1."""
        found, policy = _recent(self.begin, caller, documents)
        curve = [forecast(found, step / STEPS, (), policy.risk) for step in range(STEPS + 1)]
        return forecast(found, _in_force(policy), (), policy.risk), curve


def _recent(begin: Begin, caller: Caller, documents: int) -> tuple[list[Evidence], RoutingPolicy]:
    caller.require(Permission.REPORT)
    if not 1 <= documents <= MOST_DOCUMENTS:
        fault = FieldFault("/query/documents", f"must lie between 1 and {MOST_DOCUMENTS}")
        raise InvalidRequest("A report on so many documents cannot be made.", [fault])
    with begin(read_only=True) as transaction:
        policy = transaction.policies.current()
        return transaction.history.evidence(documents, with_labels=False), policy
