"""What the review desk is told of a task: all that a reviewer may know, and nothing more."""

from collections.abc import Mapping, Sequence

from setwise.service.domain.callers import Caller
from setwise.service.domain.predictions import Reason
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.rules import AtMostRule, ExactlyOneRule, RequiresRule, Rule
from setwise.service.services.check import Oddity
from setwise.service.services.verbs import Verbs

Json = dict[str, object]

_WHY: Mapping[Reason, str] = {
    Reason.BELOW_THRESHOLD: "The model is less sure than the threshold asks.",
    Reason.NO_THRESHOLD: "No threshold is in force, so people read everything.",
    Reason.OUT_OF_DOMAIN: "The model knows nothing that stands in this document.",
    Reason.BREAKER: "Automatic sending is paused, so people read everything.",
    Reason.RULE: "A rule of the policy asks for a person.",
}

_NAMED = 5
"""Labels of a rule that are named; a long rule would bury the warning."""


def item(verbs: Verbs, caller: Caller, task: ReviewTask) -> Json:
    """Describe a task that ``caller`` holds."""
    document, scored, blind = task.prediction.document, task.prediction.scored, task.kind.blind
    sets = [] if blind else [candidate.labels for candidate in scored.candidates]
    warnings = [warnings_of(odd) for odd in verbs.check_sets(caller, task, sets)]
    return {
        "id": task.id,
        "version": task.version,
        "document": {
            "id": document.id,
            "text": document.text,
            "features": document.features,
            "metadata": document.metadata,
        },
        # A blind task is told as any other review to which the model has nothing to say.
        "kind": (ReviewKind.REVIEW if blind else task.kind).value,
        "why": None if blind else _why(task),
        "candidates": None
        if blind
        else [
            {"labels": one.labels, "confidence": one.confidence, "warnings": warned}
            for one, warned in zip(scored.candidates, warnings, strict=True)
        ],
        "marginals": None
        if blind
        else [{"label": m.label, "probability": m.probability} for m in scored.marginals],
        "answers": list(task.answers) or None,
        "expires_in_s": verbs.my_reviews.left_s(task),
    }


def _why(task: ReviewTask) -> str | None:
    if task.kind is ReviewKind.ADJUDICATION:
        if len(task.answers) == 1:  # an audit that agreed, read once more
            return "Somebody has read it. Say whether the answer is right; yours counts."
        return "Two answers differ. Yours decides."
    if task.passed_on:
        return "Two people passed it on."
    if task.prediction.rule is not None:
        return f"The rule “{task.prediction.rule}” asks for a person."
    return _WHY.get(task.prediction.reason)


def warnings_of(odd: Oddity) -> list[str]:
    """Say in sentences what is odd about a label set."""
    warned = [f"Rule “{rule.name}”: {_demand(rule)}." for rule in odd.broken]
    if odd.unseen:
        warned.append("No training document has exactly this set.")
    return warned


def _demand(rule: Rule) -> str:
    match rule:
        case ExactlyOneRule():
            return f"exactly one of {_listed(rule.labels)} is expected"
        case AtMostRule(labels=None):
            return f"at most {rule.n} label{'s' if rule.n != 1 else ''} are expected"
        case AtMostRule(labels=labels):
            return f"at most {rule.n} of {_listed(labels or ())} are expected"
        case RequiresRule():
            return f"{rule.label} comes with {_listed(rule.labels)}"
        case _:
            return "it is not kept"


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
