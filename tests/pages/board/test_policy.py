"""The policy in a form: what is wrong stands at its field, what is previewed is what is saved."""

import html
import re
from types import SimpleNamespace

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode, first_policy
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.routing.segments import ALL, GateState, SegmentBy
from setwise.service.pages.board.policy import HERE, retested, typed, wanted
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.edge import Service
from tests.samples import ADMIN, certification

RULES = [
    {"kind": "label", "label": "a, <b>"},
    {"kind": "metadata", "name": "night", "field": "ward", "values": [3, True, "x"]},
    {"kind": "at_most", "n": 2, "labels": ["a", "b", "c"]},
    {"kind": "requires", "label": "a", "labels": ["b"]},
    {"kind": "exactly_one", "labels": ["a", "b"]},
]
CHANGE = PolicyChange(
    target_accuracy=0.955,
    risk=0.07,
    auto_send=False,
    threshold_mode=ThresholdMode.FIXED,
    threshold=0.8125,
    confidence_floor=0.3,
    audits=AuditPlan(0.07, 0.03, AuditMode.SEND, 0.2, 0.1),
    rules=RULES,
)


@pytest.fixture
def admin(service: Service) -> Browser:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    return browser


def fields(page: str, form: int = -1) -> dict[str, list[str]]:
    """What a browser would send of the last form of a page that goes to the policy."""
    forms = re.findall(r'<form[^>]*action="/board/policy[^"]*".*?</form>', page, re.DOTALL)
    sent: dict[str, list[str]] = {}
    for tag in re.findall(r"<(?:input|textarea|select)\b[^>]*>", forms[form]):
        name = re.search(r'name="([^"]*)"', tag)
        value = re.search(r'value="([^"]*)"', tag)
        box = 'type="checkbox"' in tag or 'type="radio"' in tag
        if name and (not box or " checked" in tag):
            sent.setdefault(name[1], []).append(html.unescape(value[1] if value else ""))
    return sent


@pytest.mark.parametrize("role", [Role.LEAD, Role.AUDITOR])
def test_who_may_not_change_the_policy_reads_all_of_it(service: Service, role: Role) -> None:
    service.services.policy.change(SYSTEM, CHANGE, None)
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    page = browser.get(HERE).text
    assert "Only administrators change it." in page
    assert 'href="/cockpit/details#what-if"' in page
    for setting in ("Overlap, in % of reviews</dt><dd>20", "A set with more than 2 of a, b and c"):
        assert setting in page
    assert 'action="/board/policy' not in page
    for path in (HERE, f"{HERE}/preview"):
        form = {"csrf": browser.token("/board"), "target_accuracy": "91"}
        assert browser.submit(path, form).status_code == 403


def unfolded(page: str) -> list[tuple[str, bool]]:
    """Each disclosure under *Advanced*, and whether it is open."""
    form = page.partition('action="/board/policy/preview"')[2]
    matches = re.findall(r'<details class="more[^"]*"( open)?>\s*<summary>(.*?)</summary>', form)
    return [(re.sub("<[^>]*>", "", summary), bool(is_open)) for is_open, summary in matches]


def test_what_an_expert_sets_is_folded_until_it_differs_or_is_wrong(
    service: Service, admin: Browser
) -> None:
    groups = ["Risk, and when to stop", "More audits", "Models", "Segments", "Rules"]
    folded = [("Advanced", False), *((name, False) for name in groups), ("Add a rule", False)]
    assert unfolded(admin.get(HERE).text) == folded
    sent = fields(admin.get(HERE).text) | {"risk": ["12o"]}
    refused = dict(unfolded(admin.submit(f"{HERE}/preview", sent).text))
    assert refused["Advanced"]
    assert next(is_open for name, is_open in refused.items() if name.startswith(groups[0]))
    service.services.policy.change(SYSTEM, CHANGE, None)
    shown = unfolded(admin.get(HERE).text)
    assert shown[0] == ("Advanced", True)
    risk = "Risk of a certificate, in %: 7; Minimum confidence, from 0 to 1: 0.3"
    assert (f"{groups[0]} {risk}; Send automatically: no", False) in shown
    assert ("Rules label a, &lt;b&gt;, night, at most, a requires, exactly one", False) in shown


def test_a_link_fills_the_form_and_changes_nothing(service: Service, admin: Browser) -> None:
    page = admin.get(f"{HERE}?threshold.value=0.55&target_accuracy=91&risk=50").text
    assert "Nothing has changed yet." in page
    sent_fields = fields(page)
    names = ("threshold.mode", "threshold.value", "target_accuracy", "risk")
    assert [sent_fields[name] for name in names] == [["fixed"], ["0.55"], ["91"], ["10"]]
    assert service.services.policy.get(SYSTEM).fixed_threshold is None
    assert "Nothing has changed yet." not in admin.get(HERE).text


@pytest.mark.parametrize(
    ("right", "checked", "says"), [(9, 9, "not proved"), (60, 60, "reached"), (0, 9, "missed")]
)
def test_a_preview_compares_what_is_sent_with_the_target(
    service: Service, admin: Browser, right: int, checked: int, says: str
) -> None:
    for place in range(checked):
        body = service.predict(f"0.9{place:02}").json()
        labels = ["a", "b"] if place < right else ["z"]
        path = f"/v1/predictions/{body['id']}/outcome"
        service.post(path, by="client", json={"labels": labels, "source": "s"})
    typed = {"target_accuracy": ["80"], "threshold.mode": ["fixed"], "threshold.value": ["0.8"]}
    text = admin.submit(f"{HERE}/preview", fields(admin.get(HERE).text) | typed).text
    target = '<th scope="row">Target</th><td>95 %: not proved</td><td class="then">80 %: '
    assert f"{target}{says}</td>" in text


def test_a_rule_on_a_misspelt_label_names_the_nearest(service: Service, admin: Browser) -> None:
    assert service.predictors.predictor is not None
    service.predictors.predictor.labels = ("cough", "fever")
    rule = {"new_kind": ["label"], "new_label": ["feevr"]}
    preview = admin.submit(f"{HERE}/preview", fields(admin.get(HERE).text) | rule).text
    assert "no label “feevr”, which a rule names. Is “fever” meant?" in preview
    sound = fields(admin.get(HERE).text) | rule | {"new_label": ["fever"]}
    assert "which a rule names" not in admin.submit(f"{HERE}/preview", sound).text


def test_a_policy_survives_its_form(service: Service, admin: Browser) -> None:
    policy = service.services.policy.change(SYSTEM, CHANGE, None)
    sent_fields = fields(admin.get(HERE).text)
    change = wanted(typed(policy))
    assert change == CHANGE.__class__(**{**vars(CHANGE), "rules": [*change.rules]})
    assert change.as_policy("x", policy.created_at, "y").rules == policy.rules
    answer = admin.submit(f"{HERE}/preview", sent_fields)
    assert answer.status_code == 200
    assert "this is the current policy" in answer.text


def test_segments_are_typed_and_shown(service: Service, admin: Browser) -> None:
    body = {"document": {"text": "0.9"}, "metadata": {"site": "north"}}
    service.post("/v1/predictions", by="client", json=body)
    sent = fields(admin.get(HERE).text) | {
        "segment_by": ["site"],
        "most_segments": ["3"],
    }
    text = admin.submit(f"{HERE}/preview", sent).text
    assert '<th scope="row">Segments by</th><td>none</td><td><strong>site</strong></td>' in text
    assert '<th scope="row">Segments, at most</th><td>10</td><td><strong>3</strong></td>' in text
    assert admin.submit(HERE, fields(text, 0)).status_code == 303
    assert service.services.policy.get(SYSTEM).segment_by == SegmentBy("site", most=3)
    page = admin.get(HERE).text
    assert "Segments by site" in page
    assert '<a href="/documents?segment=north">north</a>' in page
    assert fields(page)["segment_by"] == ["site"]
    breaker = admin.get("/board/breaker?segment=other").text
    assert "/board/breaker?segment=north" in breaker
    assert service.get("/v1/admin/breaker", by="lead").json()["segments"] == ["north", "other"]
    items = service.get("/v1/admin/policy/segments", by="lead").json()["items"]
    assert [one["value"] for one in items] == ["north", "other"]


def test_a_change_is_previewed_and_then_put_into_force(service: Service, admin: Browser) -> None:
    for text in ("0.95", "0.6", "0.2"):
        service.predict(text)
    sent = fields(admin.get(HERE).text) | {"threshold.mode": ["fixed"], "threshold.value": ["0,5"]}
    shown = admin.submit(f"{HERE}/preview", sent).text
    assert "2 (66.7 %)" in shown
    assert "tried 0.5" in shown, "in the figure"
    assert service.services.policy.get(SYSTEM).fixed_threshold is None
    response = admin.submit(HERE, fields(shown, 0))
    assert (response.status_code, response.headers["location"]) == (
        303,
        f"{HERE}?done=policy-saved",
    )
    policy = service.services.policy.get(SYSTEM)
    assert (policy.fixed_threshold, policy.threshold_mode) == (0.5, ThresholdMode.FIXED)
    assert "not certified" in admin.get(HERE).text
    events = sorted(service.database.contents.events.values(), key=lambda event: event.id)
    assert (events[-1].action, events[-1].actor.name) == ("policy.changed", "Ann")


def test_what_is_wrong_stands_at_its_field_and_what_was_typed_stays(
    service: Service, admin: Browser
) -> None:
    before = service.services.policy.get(SYSTEM).version
    sent = fields(admin.get(HERE).text) | {
        "target_accuracy": ["12o"],
        "risk": ["100"],
        "threshold.mode": ["fixed"],
        "threshold.value": [""],
        "audit.training_rate": ["101"],
        "new_kind": ["requires"],
        "new_label": ["<b>bold</b>"],
        "new_labels": [""],
    }
    for path in (HERE, f"{HERE}/preview"):
        answer = admin.submit(path, sent)
        assert answer.status_code == 422
        for name in (
            "target_accuracy",
            "risk",
            "threshold.value",
            "audit.training_rate",
            "new_labels",
        ):
            assert f'id="{name}-fault"' in answer.text, name
        assert 'value="12o"' in answer.text
        assert "<b>bold</b>" not in answer.text
        assert "&lt;b&gt;bold&lt;/b&gt;" in answer.text
    assert service.services.policy.get(SYSTEM).version == before


def test_rates_that_together_exceed_everything_are_refused_at_their_field(admin: Browser) -> None:
    sent_fields = fields(admin.get(HERE).text)
    sent_fields |= {"audit.certification_rate": ["60"], "audit.training_rate": ["50"]}
    answer = admin.submit(f"{HERE}/preview", sent_fields)
    assert answer.status_code == 422
    assert 'id="audit.training_rate-fault"' in answer.text


def test_a_rate_while_nothing_is_sent_is_set_and_left_empty_again(
    service: Service, admin: Browser
) -> None:
    for given, stored in (("20", 0.2), ("", None)):
        sent = fields(admin.get(HERE).text) | {
            "audit.certification_rate": ["10"],
            "audit.ramp_up_rate": [given],
        }
        text = admin.submit(f"{HERE}/preview", sent).text
        assert admin.submit(HERE, fields(text, 0)).status_code == 303
        assert service.services.policy.get(SYSTEM).audits.ramp_up_rate == stored
    sent |= {"audit.ramp_up_rate": ["5"]}
    answer = admin.submit(f"{HERE}/preview", sent)
    assert answer.status_code == 422
    assert 'id="audit.ramp_up_rate-fault"' in answer.text


def test_a_threshold_that_was_raised_is_explained() -> None:
    proof = certification(0.8)
    found = SimpleNamespace(certification=SimpleNamespace(get=lambda *_: proof))
    policy, raised_policy = (
        first_policy(START).with_gate(GateState(ALL, threshold, proof.id))
        for threshold in (0.8, 0.85)
    )
    assert retested(found, policy, ADMIN) is None  # type: ignore[arg-type]
    says = retested(found, raised_policy, ADMIN)  # type: ignore[arg-type]
    assert says == "The certificate also proves 0.8, but audits since then speak against it."


@pytest.mark.parametrize("rule", ["{", "[]", "7", '{"kind": "knit"}'])
def test_a_rule_that_no_page_wrote_is_refused(admin: Browser, rule: str) -> None:
    answer = admin.submit(f"{HERE}/preview", fields(admin.get(HERE).text) | {"rule": [rule]})
    assert answer.status_code == 422


def test_a_rule_is_added_and_another_one_dropped(service: Service, admin: Browser) -> None:
    service.services.policy.change(SYSTEM, CHANGE, None)
    sent_fields = fields(admin.get(HERE).text)
    sent_fields["rule"] = sent_fields["rule"][1:]
    sent_fields |= {
        "new_kind": ["metadata"],
        "new_field": ["source"],
        "new_labels": ["7\nmail\ntrue"],
    }
    text = admin.submit(f"{HERE}/preview", sent_fields).text
    assert admin.submit(HERE, fields(text, 0)).status_code == 303
    rules = service.services.policy.get(SYSTEM).rules
    assert [rule.name for rule in rules] == [
        "night", "at most", "a requires", "exactly one", "metadata source",
    ]  # fmt: skip
    assert rules[-1].values == (7, "mail", True)


def test_the_parents_of_labels_are_required_by_one_choice(service: Service, admin: Browser) -> None:
    service.services.labels.describe(SYSTEM, "label,parent\nc,\na,c")
    sent = fields(admin.get(HERE).text) | {"new_kind": ["parents"]}
    text = admin.submit(f"{HERE}/preview", sent).text
    assert "A set with a label but without its parent in the catalogue goes to a person." in text
    assert admin.submit(HERE, fields(text, 0)).status_code == 303
    (rule,) = service.services.policy.get(SYSTEM).rules
    assert rule.holds_back(frozenset("a"), {})
    assert (
        "this is the current policy"
        in admin.submit(f"{HERE}/preview", fields(admin.get(HERE).text)).text
    )


def test_a_change_that_was_overtaken_is_not_made_and_not_lost(
    service: Service, admin: Browser
) -> None:
    text = admin.submit(
        f"{HERE}/preview",
        fields(admin.get(HERE).text) | {"threshold.mode": ["fixed"], "threshold.value": ["0.5"]},
    ).text
    mine = fields(text, 0)
    service.services.policy.change(SYSTEM, CHANGE, None)
    late = admin.submit(HERE, mine)
    assert late.status_code == 412
    assert "The policy has been changed in the meantime" in late.text
    assert service.services.policy.get(SYSTEM).fixed_threshold == 0.8125
    again = fields(late.text, 0)
    assert again["threshold.value"] == ["0.5"]
    assert admin.submit(HERE, again).status_code == 303
    assert service.services.policy.get(SYSTEM).fixed_threshold == 0.5


def test_a_certified_policy_without_a_certificate_says_that_it_sends_nothing(
    service: Service, admin: Browser
) -> None:
    service.fix_threshold(0.5)
    service.predict("0.9")
    sent = fields(admin.get(HERE).text) | {"threshold.mode": ["certified"]}
    text = admin.submit(f"{HERE}/preview", sent).text
    assert "nothing would be sent until there is one" in text


def test_a_policy_that_checks_contradict_says_so_first_and_takes_a_reason(
    service: Service, admin: Browser
) -> None:
    for place in range(40):
        body = service.predict(f"0.9{place:02}").json()
        service.post(
            f"/v1/predictions/{body['id']}/outcome",
            by="client",
            json={"labels": ["z"], "source": "s"},
        )
    sent = fields(admin.get(HERE).text) | {"threshold.mode": ["fixed"], "threshold.value": ["0.8"]}
    text = admin.submit(f"{HERE}/preview", sent).text
    assert re.search(r"Effect of your changes</h2>\s*<p class=.alert.>This misses the target", text)
    response = admin.submit(HERE, fields(text, 0))
    assert response.status_code == 422
    assert "Give a reason, or change the threshold." in response.text
    kept = fields(response.text, 0) | {"reason": ["a drill"]}
    assert admin.submit(HERE, kept).status_code == 303
    assert service.services.policy.get(SYSTEM).fixed_threshold == 0.8
