"""A text is tried without a trace."""

import httpx

from setwise.service.domain.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.browsing import Browser
from tests.edge import Service


def tried(browser: Browser, text: str) -> httpx.Response:
    return browser.submit("/try", {"csrf": browser.token("/try"), "text": text})


def test_a_text_is_tried_without_a_trace(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    assert '<a href="/try">' in browser.get("/").text
    shown = tried(browser, "0.9").text
    assert "Sent automatically: its confidence, 0.9, reaches the threshold of 0.8." in shown
    assert "Label sets" in shown
    assert "is below the threshold" in tried(browser, "0.7").text
    assert service.get("/v1/predictions", by="admin").json()["items"] == []


def test_a_text_that_cannot_be_tried_is_refused_and_stays(
    service: Service, browser: Browser
) -> None:
    assert "is empty" in tried(browser, " ").text
    service.predictors.predictor = None
    refused = tried(browser, "<fever>")
    assert refused.status_code == 422
    assert "&lt;fever&gt;</textarea>" in refused.text
    assert "No model is active" in refused.text


def test_who_tries_a_text_is_given_no_audit_that_is_open(service: Service) -> None:
    policy = PolicyChange(
        0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=AuditPlan(certification_rate=1.0)
    )
    service.services.policy.change(SYSTEM, policy, None)
    service.predict("0.5")
    lea = service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    tried(browser, "0.5")
    caller = Caller(lea, "lea", Role.LEAD)
    assert service.services.reviews.claim(caller) is None
    service.predict("0.6")
    claimed = service.services.reviews.claim(caller)
    assert claimed is not None
    assert tried(browser, "0.6").status_code == 422
