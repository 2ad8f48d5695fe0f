"""The policy: change it in a form, see what that would do, put it into force."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.audits import AuditMode, AuditPlan
from setwise.service.domain.callers import SYSTEM, Permission
from setwise.service.domain.errors import InvalidRequest, StaleVersion
from setwise.service.domain.policy import PolicyChange, RoutingPolicy, ThresholdMode
from setwise.service.domain.rules import (
    AtMostRule,
    ExactlyOneRule,
    LabelRule,
    MetadataRule,
    RequiresRule,
    Rule,
    read_rules,
)
from setwise.service.pages.board.frame import done, framed
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.preview import Effect
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/policy"

_PLACES = {
    "/target_accuracy": "target",
    "/risk": "risk",
    "/threshold/value": "threshold",
    "/confidence_floor": "floor",
    "/audit/certification_rate": "certification_rate",
    "/audit/training_rate": "training_rate",
    "/overlap_rate": "overlap_rate",
    "/gold_reread_rate": "gold_reread_rate",
}


def policy_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the policy."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """Show the policy in force, ready to be changed."""
        policy = verbs.get_policy(visit.caller)
        return _page(verbs, visit, policy, typed(policy), notice=done)

    @router.get(f"{HERE}/preview")
    def unasked(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],  # noqa: ARG001 -- the door
    ) -> Response:
        """Lead back who comes to the address of a preview without a change to look at."""
        return go(HERE)

    @router.post(f"{HERE}/preview")
    def preview(
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Say what a change would do; nothing is changed yet."""
        policy = verbs.get_policy(visit.caller)
        change = wanted(form)
        if change is None:
            return _page(verbs, visit, policy, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
        effect = verbs.preview_change(visit.caller, change)
        # As it would be stored, so that a rule just written stands among the others.
        return _page(verbs, visit, policy, typed(effect.after, form), effect=effect)

    @router.post(HERE)
    def save(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Put a change into force."""
        change = wanted(form)
        if change is not None:
            try:
                verbs.change_policy(
                    visit.caller, change, form.text("version"), request_id=request_id_of(request)
                )
            except StaleVersion:
                return _overtaken(verbs, visit, change, form)
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            else:
                return done(HERE, "policy-saved")
        policy = verbs.get_policy(visit.caller)
        return _page(verbs, visit, policy, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    return router


def _overtaken(verbs: Verbs, visit: Visit, change: PolicyChange, form: Filled) -> Response:
    effect = verbs.preview_change(visit.caller, change)
    draft = typed(effect.after, form)
    author = names_of(verbs, effect.before.created_by)
    draft.blame(
        "",
        f"{author} has changed the policy meanwhile. Nothing of yours was put into force: compare "
        "it with what is in force now, below, and decide again.",
    )
    return _page(
        verbs, visit, effect.before, draft, effect=effect, status=HTTPStatus.PRECONDITION_FAILED
    )


def _page(
    verbs: Verbs,
    visit: Visit,
    policy: RoutingPolicy,
    form: Filled,
    *,
    effect: Effect | None = None,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    values = {
        "policy": policy,
        "author": names_of(verbs, policy.created_by),
        "form": form,
        "rules": list(_shown_rules(form)),
        "effect": effect,
        "changes": list(differences(effect.before, effect.after)) if effect else [],
        "percent": percent,
        "threshold_in_words": threshold_in_words,
    }
    return framed(
        "board_policy.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def names_of(verbs: Verbs, actor_id: str) -> str:
    """Return the name of a person or key by its id; the id where nobody has it any more."""
    if actor_id == SYSTEM.id:
        return "The service itself"
    named = {one.id: one.name for one in verbs.list_keys(SYSTEM)}
    named |= {one.id: one.name for one in verbs.list_people(SYSTEM)}
    return named.get(actor_id, actor_id)


# From a policy to a form, and back.


def typed(policy: RoutingPolicy, before: Filled | None = None) -> Filled:
    """Return the form that would make a policy.

    Parameters
    ----------
    before : Filled or None
        The form that was sent; a threshold in it survives while the mode does not use it.
    """
    fixed = policy.threshold_mode is ThresholdMode.FIXED
    unused = before.text("threshold") if before else ""
    audits = policy.audits
    return Filled.of(
        version=policy.version,
        target=percent(policy.target_accuracy),
        risk=percent(policy.risk),
        mode=policy.threshold_mode.value,
        threshold=_number(policy.threshold) if fixed else unused,
        floor=_number(policy.confidence_floor),
        certification_rate=percent(audits.certification_rate),
        training_rate=percent(audits.training_rate),
        audit_mode=audits.mode.value,
        overlap_rate=percent(audits.overlap_rate),
        gold_reread_rate=percent(audits.gold_reread_rate),
        rule=[json.dumps(rule.declared(), ensure_ascii=False) for rule in policy.rules],
        **({"auto_send": "yes"} if policy.auto_send else {}),
    )


def percent(share: float) -> str:
    """Write a share in percent, without the noise of binary fractions.

    >>> percent(0.07), percent(0.955)
    ('7', '95.5')
    """
    return f"{100 * share:.10g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def wanted(form: Filled) -> PolicyChange | None:
    """Return the change that a form asks for; None, with the faults in it, if it cannot be."""
    mode = form.choice("mode", ThresholdMode)
    audit_mode = form.choice("audit_mode", AuditMode)
    target, risk = form.percent("target", inside=True), form.percent("risk", inside=True)
    fixed = mode is ThresholdMode.FIXED
    threshold = form.number("threshold", 0, 1) if fixed else None
    floor = form.number("floor", 0, 1, needed=False)
    rates = {
        name: form.percent(name)
        for name in ("certification_rate", "training_rate", "overlap_rate", "gold_reread_rate")
    }
    rules = _rules(form)
    if form.faults or mode is None or audit_mode is None or target is None or risk is None:
        return None
    audits = AuditPlan(mode=audit_mode, **{name: rate or 0.0 for name, rate in rates.items()})
    change = PolicyChange(
        target, risk, form.ticked("auto_send"), mode, threshold, floor, audits, rules
    )
    form.take(list(change.faults()), _PLACES)
    return None if form.faults else change


def _rules(form: Filled) -> list[object]:
    """Return the rules that are kept, and the new one if one is written."""
    kept: list[object] = []
    for text in form.all("rule"):
        try:
            kept.append(json.loads(text))
        except ValueError:
            form.blame("", "A rule could not be read; reload the page.")
    if not form.text("new_kind"):
        return kept
    new = _new_rule(form)
    if new is not None:
        faults = read_rules([new])[1]
        form.take(faults, {fault.pointer: _field_of(fault.pointer) for fault in faults})
        kept.append(new)
    return kept


def _new_rule(form: Filled) -> dict[str, object] | None:
    kind = form.text("new_kind")
    rule: dict[str, object] = {"kind": kind}
    if form.text("new_name"):
        rule["name"] = form.text("new_name")
    if kind in {"label", "requires"}:
        rule["label"] = form.text("new_label")
    if kind == "metadata":
        rule["field"] = form.text("new_field")
        rule["values"] = [_value(line) for line in form.lines("new_labels")]
    if kind in {"exactly_one", "requires"} or (kind == "at_most" and form.lines("new_labels")):
        rule["labels"] = form.lines("new_labels")
    if kind == "at_most":
        rule["n"] = form.whole("new_n", 0, 1000)
        return rule if rule["n"] is not None else None
    return rule


def _field_of(pointer: str) -> str:
    """Return the field in which a part of the new rule is written.

    >>> _field_of("/rules/0/values/2")
    'new_labels'
    """
    part = pointer.split("/")[3]
    return "new_labels" if part == "values" else f"new_{part}"


def _value(line: str) -> object:
    """Read a value of metadata: a JSON number, true or false; anything else is text."""
    try:
        found: object = json.loads(line)
    except ValueError:
        return line
    return found if isinstance(found, str | bool | int | float) else line


# In words.


@dataclass(frozen=True)
class ShownRule:
    """A rule in the form: what is sent back, its name, and a sentence."""

    value: str
    name: str
    meaning: str


def _shown_rules(form: Filled) -> Iterator[ShownRule]:
    for text in form.all("rule"):
        try:
            rules, _ = read_rules([json.loads(text)])
        except ValueError:
            rules = ()
        for rule in rules:
            yield ShownRule(text, rule.name, in_words(rule))


def in_words(rule: Rule) -> str:
    """Say in a sentence what a rule holds back.

    >>> in_words(AtMostRule("few", 3))
    'A set with more than 3 labels goes to a person.'
    """
    match rule:
        case LabelRule(label=label):
            held = f"A set with {label}"
        case MetadataRule(field=where, values=values):
            held = f"A document whose {where} is {_listed(values, 'or')}"
        case ExactlyOneRule(labels=labels):
            held = f"A set without exactly one of {_listed(labels)}"
        case AtMostRule(n=n, labels=None):
            held = f"A set with more than {n} labels"
        case AtMostRule(n=n, labels=tuple(labels)):
            held = f"A set with more than {n} of {_listed(labels)}"
        case RequiresRule(label=label, labels=labels):
            held = f"A set with {label} but without {_listed(labels)}"
        case _:
            held = f"What breaks {json.dumps(rule.declared(), ensure_ascii=False)}"
    return f"{held} goes to a person."


def _listed(parts: Sequence[object], word: str = "and") -> str:
    texts = [str(part) for part in parts]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def differences(before: RoutingPolicy, after: RoutingPolicy) -> Iterator[tuple[str, str, str]]:
    """Yield what a change changes: its name, what it was, what it becomes."""
    pairs = zip(_described(before).items(), _described(after).values(), strict=True)
    for (name, was), becomes in pairs:
        if was != becomes:
            yield name, was, becomes
    for rule in before.rules:
        if rule not in after.rules:
            yield "Rule", in_words(rule), "dropped"
    for rule in after.rules:
        if rule not in before.rules:
            yield "Rule", "none", in_words(rule)
    if set(before.rules) == set(after.rules) and before.rules != after.rules:
        yield "Rules", "in this order", "in another order"


def _described(policy: RoutingPolicy) -> dict[str, str]:
    audits = policy.audits
    return {
        "Sending": "automatic" if policy.auto_send else "switched off",
        "Target": f"{percent(policy.target_accuracy)} %",
        "Risk": f"{percent(policy.risk)} %",
        "Threshold": threshold_in_words(policy),
        "Floor": _number(policy.confidence_floor) or "none",
        "Certification audits": f"{percent(audits.certification_rate)} %",
        "Training audits": f"{percent(audits.training_rate)} %",
        "An audited document": "waits" if audits.mode is AuditMode.HOLD else "is sent meanwhile",
        "Overlap": f"{percent(audits.overlap_rate)} %",
        "Audits read again": f"{percent(audits.gold_reread_rate)} %",
    }


def threshold_in_words(policy: RoutingPolicy) -> str:
    """Say what the threshold is and where it comes from."""
    if policy.threshold_mode is ThresholdMode.FIXED:
        return f"{_number(policy.threshold)}, fixed by hand, not certified"
    if policy.threshold is None:
        return "certified by audits, none proved yet"
    return f"{_number(policy.threshold)}, certified by audits"
