"""The policy: change it in a form, preview the effect, save it.

Question: how right must what is sent be, and what certifies it?
Its first screen shows the policy in force and the three fields that an owner decides; what an
expert sets stands under *Advanced*. A change is previewed before it is saved.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import InvalidRequest, ModelUnavailable, StaleVersion
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES
from setwise.service.domain.outcomes import UnknownLabel, unknown_labels
from setwise.service.domain.policy import Policy, PolicyChange, ThresholdMode
from setwise.service.domain.routing.rules import (
    AtMostRule,
    ExactlyOneRule,
    LabelRule,
    MetadataRule,
    ParentsRule,
    RequiresRule,
    Rule,
    VersionsRule,
    read_rules,
)
from setwise.service.pages import documents
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.pages.figures import what_if
from setwise.service.pages.forms import BoundInput, Filled, inputs, lines, places, whole_number
from setwise.service.requests.policy import PolicyBody, PolicyRequest, Threshold
from setwise.service.services.all import Services
from setwise.service.services.analysis.what_if import WhatIf

HERE = "/board/policy"

_ADVANCED: Mapping[str, Sequence[str]] = {
    "Risk, and when to stop": ("risk", "confidence_floor", "auto_send"),
    "More audits": (
        "audit.rest_rate",
        "audit.ramp_up_rate",
        "audit.training_rate",
        "overlap_rate",
        "gold_reread_rate",
        "audit.mode",
    ),
    "Models": ("retrain",),
    "Segments": ("segment_by", "segment_bounds", "most_segments"),
}
"""Fields that an expert sets, by the group in which they unfold."""
_GIVEN = {"target_accuracy", "threshold.value"}
"""Fields that a link may fill in."""


def _current(call: Call) -> ui.View:
    """Show the policy; what an address gives stands in the form, and is not saved."""
    form = typed(call.services.policy.get(call.caller))
    for name in _GIVEN.intersection(call.query):
        form.show_again(name, [call.query[name]])
    if "threshold.value" in call.query:
        form.show_again("threshold.mode", [ThresholdMode.FIXED.value])
    return _view(call, form)


def _preview(call: Call, _: Nothing) -> ui.View:
    change = wanted(call.filled)
    if change is None:
        return _view(call, call.filled, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    effect = call.services.policy.preview_change(call.caller, change)
    # As it would be stored, so that a rule just written stands among the others.
    return _view(call, typed(effect.after, call.filled), effect)


def _save(call: Call, _: Nothing) -> ui.View | None:
    change, form = wanted(call.filled), call.filled
    if change is None:
        return _view(call, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        call.services.policy.change(call.caller, change, form.text("version"))
    except InvalidRequest:
        # The form is sound, so what is missing is a reason.
        effect = call.services.policy.preview_change(call.caller, change)
        draft = typed(effect.after, form)
        draft.blame("reason", "Give a reason, or change the threshold.")
        return _view(call, draft, effect, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    except StaleVersion:
        effect = call.services.policy.preview_change(call.caller, change)
        draft = typed(effect.after, form)
        draft.blame(
            "",
            "The policy has been changed in the meantime, by "
            f"{name_of(call.services, effect.before.created_by)}. Your changes are not saved: "
            "compare them with the current policy below, and decide again.",
        )
        return _view(call, draft, effect, status=HTTPStatus.PRECONDITION_FAILED)
    return None


def _view(
    call: Call, form: Filled, effect: WhatIf | None = None, status: HTTPStatus = HTTPStatus.OK
) -> ui.View:
    policy = effect.before if effect else call.services.policy.get(call.caller)
    return ui.View(
        "Policy",
        status=status,
        template="board_policy.html",
        values={
            "policy": policy,
            "author": name_of(call.services, policy.created_by),
            "form": form,
            "inputs": {each.name: each for each in inputs(PolicyRequest)},
            "advanced": list(_advanced(form)),
            "settings": [*_texts(policy), *(("Rule", in_words(rule)) for rule in policy.rules)],
            "rules": list(_shown_rules(form)),
            "effect": effect,
            "what_if": what_if.show(effect) if effect else None,
            "given": not effect and not form.faults and not _GIVEN.isdisjoint(call.query),
            "changes": list(differences(effect.before, effect.after)) if effect else [],
            "unknown": _unknown_labels(call, effect.after) if effect else [],
            "percent": percent,
            "instant": ui.instant,
            "threshold_in_words": threshold_in_words,
            "read_blind": read_blind(policy),
            "retested": retested(call.services, policy, call.caller),
            **_segments(call),
        },
    )


@dataclass(frozen=True)
class AdvancedGroup:
    """Fields of the form that unfold together under *Advanced*."""

    name: str
    inputs: Sequence[BoundInput]
    changed: str
    """Those that differ from what a new installation has, in words."""
    faulty: bool


def _advanced(form: Filled) -> Iterator[AdvancedGroup]:
    first = PolicyRequest(threshold=Threshold(mode="certified"))
    for name, fields in _ADVANCED.items():
        drawn = inputs(PolicyRequest, fields)
        changed = (
            f"{each.input.label}: {_chosen(each, text)}"
            for each in drawn
            if (text := _typed(form, each)) != each.text_of(first)
        )
        yield AdvancedGroup(name, drawn, "; ".join(changed), any(map(form.faults.get, fields)))
    new = form.text("new_kind") or any(name.startswith("new_") for name in form.faults)
    names = ", ".join(rule.name for rule in _shown_rules(form))
    yield AdvancedGroup("Rules", (), names, bool(new))


def _typed(form: Filled, each: BoundInput) -> str | None:
    ticks = each.input.widget == "tick"
    return None if ticks and not form.ticked(each.name) else form.text(each.name)


def _chosen(each: BoundInput, text: str | None) -> str:
    """Return what a field holds, in the words of its page."""
    if text is None:
        return "no"
    return {value: label for value, label, *_ in each.input.choices}.get(text, text) or "none"


def _unknown_labels(call: Call, policy: Policy) -> list[UnknownLabel]:
    """Return the labels of rules that the active model never predicts; perhaps misspelt."""
    try:
        known = call.services.labels.search(call.caller, limit=MOST_LABEL_NOTES).labels
    except ModelUnavailable:
        return []
    declared = [rule.declared() for rule in policy.rules]
    named = [label for rule in declared for label in (rule.get("label"), *_many(rule))]
    return unknown_labels(dict.fromkeys(label for label in named if isinstance(label, str)), known)


def _many(rule: Mapping[str, object]) -> Sequence[object]:
    labels = rule.get("labels")
    return labels if isinstance(labels, Sequence) else ()


def _segments(call: Call) -> dict[str, object]:
    """Return the state of each segment for the template."""
    states, unlisted = call.services.segments.states(call.caller)
    return {
        "segments": states,
        "unlisted": unlisted,
        "number": _number,
        "documents_of": lambda value: documents.address(segment=value),
    }


def _state(call: Call) -> SectionState:
    policy = call.services.policy.get(call.caller)
    if not policy.auto_send:
        return SectionState("Sending is switched off.")
    return SectionState(
        f"Threshold: {threshold_in_words(policy)}.",
        wrong=not policy.has_threshold,
    )


PREVIEW = Action(f"{HERE}/preview", _preview)
SAVE = Action(
    HERE,
    _save,
    then=HERE,
    notices={"policy-saved": "The policy is saved and applies from now on."},
)
PAGES = (
    BoardPage(
        HERE,
        _current,
        (PREVIEW, SAVE),
        name="Policy",
        meaning="How right what is sent must be, and what certifies it.",
        needed=(Permission.INSPECT, Permission.REPORT),
        state=_state,
    ),
)


def name_of(services: Services, actor_id: str) -> str:
    """Return the name of a person or key by its id; the id itself once it is gone."""
    if actor_id == SYSTEM.id:
        return "the service itself"
    named = {key.id: key.name for key in services.keys.all(SYSTEM)}
    named |= {person.id: person.name for person in services.people.all(SYSTEM)}
    return named.get(actor_id, actor_id)


# From a policy to a form, and back.


def typed(policy: Policy, before: Filled | None = None) -> Filled:
    """Return the form that would make a policy.

    ``before``: The form that was sent; a threshold in it survives while the mode does not use it.
    """
    form = Filled.showing(
        PolicyBody.of(policy),
        version=policy.version,
        rule=[json.dumps(rule.declared(), ensure_ascii=False) for rule in policy.rules],
    )
    if policy.threshold_mode is not ThresholdMode.FIXED:
        form.show_again("threshold.value", [before.text("threshold.value") if before else ""])
    return form


def percent(share: float) -> str:
    """Write a share in percent, without the noise of binary fractions.

    >>> percent(0.07), percent(0.955)
    ('7', '95.5')
    """
    return f"{100 * share:.10g}"


def read_blind(policy: Policy) -> str:
    """Say what people read blind to prove the threshold."""
    audits, gate = policy.audits, policy.whole
    rate = audits.certification_rate if policy.sends else audits.ramp_up
    if not rate:
        return "nothing, so no threshold can be certified"
    if not audits.two_rates:
        return f"{percent(rate)} % of all documents"
    words = (
        f"{percent(rate)} % of what could be sent, {percent(audits.rest_rate or 0.0)} % of the rest"
    )
    if gate is None:
        return words
    if gate.state.audited_for is None:
        return f"{words}; of all alike until enough have come to tell them apart"
    start = gate.state.audited_from
    if start is None:
        return f"{words}; by their confidences all could be sent"
    start = start if gate.threshold is None else min(start, gate.threshold)
    return f"{words}, which has a confidence below {start:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def wanted(form: Filled) -> PolicyChange | None:
    """Return the change that a form asks for; None, with the faults noted, if it is wrong."""
    request = form.read(PolicyRequest, rules=_rules(form))
    if request is None:
        return None
    change = request.as_change()
    form.take(list(change.faults()), places(inputs(PolicyRequest)))
    return None if form.faults else change


def _rules(form: Filled) -> list[object]:
    """Return the rules that are kept, and the new one if one is written."""
    lines: list[object] = []
    for text in form.all("rule"):
        try:
            lines.append(json.loads(text))
        except (ValueError, RecursionError):
            form.blame("", "A rule could not be read; reload the page.")
    if not form.text("new_kind"):
        return lines
    new = _new_rule(form)
    if new is not None:
        faults = read_rules([new])[1]
        form.take(faults, {fault.pointer: _field_of(fault.pointer) for fault in faults})
        if not faults:
            lines.append(new)
    return lines


def _new_rule(form: Filled) -> dict[str, object] | None:
    kind, listed = form.text("new_kind"), lines(form.text("new_labels"))
    rule: dict[str, object] = {"kind": kind}
    if form.text("new_name"):
        rule["name"] = form.text("new_name")
    if kind in {"label", "requires"}:
        rule["label"] = form.text("new_label")
    if kind == "metadata":
        rule["field"] = form.text("new_field")
        rule["values"] = [_value(line) for line in listed]
    if kind in {"exactly_one", "requires"} or (kind == "at_most" and listed):
        rule["labels"] = listed
    if kind in {"at_most", "versions"}:
        try:
            rule["n"] = whole_number(form.text("new_n"), 0, 1000)
        except ValueError as error:
            form.blame("new_n", str(error))
            return None
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
        rule: object = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return rule if isinstance(rule, str | bool | int | float) else line


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
        except (ValueError, RecursionError):
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
        case ParentsRule():
            held = "A set with a label but without its parent in the catalogue"
        case VersionsRule(n=n):
            held = f"A document of which more than {n} other versions were posted before, unsent,"
        case _:
            held = f"A document that breaks {json.dumps(rule.declared(), ensure_ascii=False)}"
    return f"{held} goes to a person."


def _listed(parts: Sequence[object], word: str = "and") -> str:
    texts = [str(part) for part in parts]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def differences(before: Policy, after: Policy) -> Iterator[tuple[str, str, str]]:
    """Yield what a change changes: its name, what it was, what it becomes."""
    for (name, was), (_, becomes) in zip(_texts(before), _texts(after), strict=True):
        if was != becomes:
            yield name, was, becomes
    for rule in before.rules:
        if rule not in after.rules:
            yield "Rule", in_words(rule), "removed"
    for rule in after.rules:
        if rule not in before.rules:
            yield "Rule", "none", in_words(rule)
    if set(before.rules) == set(after.rules) and before.rules != after.rules:
        yield "Rules", "in this order", "in another order"


def _texts(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the fields of the form, and what a policy says in each."""
    yield "Threshold", threshold_in_words(policy)
    body = PolicyBody.of(policy)
    for each in inputs(PolicyBody):
        if not each.name.startswith("threshold."):
            yield each.input.label, _chosen(each, each.text_of(body))


def retested(services: Services, policy: Policy, caller: Caller) -> str | None:
    """Say why the threshold is higher than its certificate's; None if it is not."""
    gate = policy.whole
    if gate is None or gate.state.certificate_id is None or gate.threshold is None:
        return None
    proof = services.certification.get(caller, gate.state.certificate_id)
    own = proof.at_least(policy.confidence_floor)
    if own is None or gate.threshold <= own:
        return None
    return f"The certificate also proves {_number(own)}, but audits since then speak against it."


def threshold_in_words(policy: Policy) -> str:
    """Say what the threshold is and where it comes from."""
    gate = policy.whole
    if gate is None:
        proved = sum(gate.threshold is not None for gate in policy.gates)
        return f"by segment, {proved} of {len(policy.gates)} in force"
    if not policy.certified:
        return f"{_number(gate.threshold)}, fixed by hand, not certified"
    if gate.threshold is None:
        return "certified by audits, none yet"
    return f"{_number(gate.threshold)}, certified by audits"
