"""A text is tried without a trace."""

import re

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages.documents import trial
from tests.browsing import Browser
from tests.fakes import FakePredictor
from tests.kit.edge import Service


def tried(browser: Browser, text: str) -> httpx.Response:
    return browser.submit("/try", {"csrf": browser.token("/try"), "text": text})


def test_a_text_is_tried_without_a_trace(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    assert '<a href="/try">Try</a>' in browser.get("/").text
    text = tried(browser, "0.9").text
    assert "Sent automatically: its confidence, 0.9, reaches the threshold of 0.8." in text
    assert "Label sets" in text
    assert "is below the threshold" in tried(browser, "0.7").text
    assert service.get("/v1/predictions", by="admin").json()["items"] == []


def test_a_text_that_cannot_be_tried_is_refused_and_stays(
    service: Service, browser: Browser
) -> None:
    assert "is empty" in tried(browser, " ").text
    service.predictors.predictor = None
    response = tried(browser, "<fever>")
    assert response.status_code == 422
    assert "&lt;fever&gt;</textarea>" in response.text
    assert "No model is active" in response.text


def test_an_example_is_the_text_of_the_newest_document_that_has_one(
    service: Service, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "/try?example=yes"
    assert asked in browser.get("/try").text
    assert "there is no example" in browser.get(asked).text
    for text in ("0.3", "0.6"):
        service.predict(text)
    assert "0.6</textarea>" in browser.get(asked).text
    monkeypatch.setattr(trial, "LONGEST", 2)
    assert "0.</textarea>" in browser.get(asked).text, "of a long text the beginning"


def test_an_external_model_is_shown_with_what_its_confidences_are_worth(
    service: Service, browser: Browser
) -> None:
    assert "external model" not in browser.get("/try").text
    service.predictors.predictor = FakePredictor(external=True)
    assert "Too few documents have been checked to tell: it takes 50." in browser.get("/try").text
    for number in range(60):
        right = number % 6 > 0
        body = service.predict("0.9" if right else "0.3").json()
        outcome = {"labels": body["labels"] if right else ["d"], "source": "billing"}
        service.post(f"/v1/predictions/{body['id']}/outcome", by="client", json=outcome)
    text = browser.get("/try").text
    assert re.search(r"Ranks well \(AUROC 1\.000, [^)]+\), but its numbers are off", text)
    assert "From 60 of the last 5,000 documents." in text


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
    assert service.services.queue.claim(caller) is None
    service.predict("0.6")
    task = service.services.queue.claim(caller)
    assert task is not None
    assert tried(browser, "0.6").status_code == 422
