"""What a visitor of the start page can do next, and what is missing before documents flow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.services.report import Counts


@dataclass(frozen=True)
class Step:
    """Something to do.

    Attributes
    ----------
    sentence : str
        What it is.
    command : str
        To type on the server; empty where a page does.
    address : str
        Of the page where it is done; empty where there is none.
    """

    sentence: str
    command: str = ""
    address: str = ""


def missing(
    caller: Caller, counts: Counts, policy: RoutingPolicy, models: Sequence[ModelVersion]
) -> Iterator[Step]:
    """Yield what lacks before documents flow: as work to administrators, as news to others."""
    administers = caller.may(Permission.ADMINISTER)
    if not any(model.active for model in models):
        if not administers:
            yield Step("No model serves yet: an administrator has to activate one.")
        elif models:
            yield Step(
                "Activate one of the registered models.", "setwise model activate ID", _MODELS
            )
        else:
            yield Step("Train a model on documents of yours.", "setwise train DATA --out model")
            yield Step("Register it and let it serve.", "setwise model add model --activate")
    if not counts.predictions:
        if administers:
            yield Step(
                "Make a key for the program that sends documents.",
                "setwise key create --role client --name NAME",
                "/board/keys",
            )
            yield Step("Post a first document; the call is described under API.", address="/docs")
        else:
            yield Step("No program has sent a document yet; an administrator makes its key.")
    if policy.threshold is None:
        if administers:
            yield Step("Set a threshold; its effect is shown first.", address="/board/policy")
        else:
            yield Step("No threshold is set yet, so a person reads every document.")


def possible(caller: Caller, counts: Counts) -> Iterator[Step]:
    """Yield what a visitor can do here, the daily work first."""
    if caller.may(Permission.REVIEW):
        yield Step(
            "Settle a document: read it, then press the number of the set that is right. "
            "The key ? shows all keys."
            if counts.waiting
            else "Nothing waits for a person now. Keep the desk open: new documents appear there "
            "by themselves.",
            address="/desk",
        )
    if caller.may(Permission.REPORT):
        yield Step(
            "Move the threshold and see what it would do. Nothing changes by looking.",
            address="/cockpit#what-if",
        )
        yield Step(
            "See whether confidence means what it says, and where the errors are.",
            address="/cockpit#reliability",
        )
    if caller.may(Permission.ADMINISTER):
        yield Step(
            "Change what is sent without a person; you see the effect on recent documents before "
            "it is in force.",
            address="/board/policy",
        )
        yield Step(
            "Learn from reviews how sure the model should be, and read which documents would go "
            "another way.",
            address="/board/calibrators",
        )
    if caller.may(Permission.READ_AUDIT_TRAIL):
        yield Step("Read who did what, when and from where.", address="/board/audit")


_MODELS = "/board/models"
