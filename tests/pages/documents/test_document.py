"""A document's page tells all that happened to it."""

import re

from setwise.service.domain.accounts.callers import Role
from tests.browsing import Browser
from tests.fakes import FakePredictor
from tests.kit.edge import Service


def reviewed(service: Service, labels: list[str]) -> str:
    """Let a reviewer answer a document, which an outcome then contradicts; return its address."""
    body = {"document": {"id": "note <17>", "text": "0.5"}}
    made = service.post("/v1/predictions", by="client", json=body).json()
    service.clock.advance(seconds=1)
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    answer = {"labels": labels, "comment": "see <page 2>"}
    version = {"If-Match": str(task["version"])}
    path = f"/v1/reviews/{task['id']}/complete"
    assert service.post(path, by="reviewer", json=answer, headers=version).status_code == 200
    service.clock.advance(seconds=1)
    outcome = {"labels": ["d"], "source": "billing"}
    service.post(f"/v1/predictions/{made['id']}/outcome", by="client", json=outcome)
    return f"/documents/{made['id']}"


def test_another_models_answer_is_shown_beside_the_text_or_without_one(
    service: Service, browser: Browser
) -> None:
    service.predictors.predictor = FakePredictor(external=True)
    answer = {
        "scores": {"<a>": 0.25, "b": 1},
        "candidates": [{"labels": ["a", "b"]}, {"labels": []}],
    }
    for document in ({"text": "so it <is> fine", **answer}, {"labels": ["c"]}):
        body = {"document": document}
        made = service.post("/v1/predictions", by="client", json=body).json()
        text = browser.get(f"/documents/{made['id']}").text
        told = service.get(f"/v1/documents/{made['id']}", by="lead").json()
        if "text" in document:
            assert "it &lt;is&gt;" in text
            assert '<mark class="for" dir="auto">so</mark> (strong)' in text
            assert '<mark class="against" dir="auto">fine</mark> (moderate)' in text
            assert "1.5" not in text
            before, folded, _ = text.partition("<summary>Words for and against each label")
            assert folded, "the words are folded"
            assert ">What happened</h2>" in before
            assert "&lt;a&gt; 0.25; b 1" in text
            assert told["scores"] == answer["scores"]
        else:
            assert "came without its text" in text
            assert told["labels"] == ["c"]
            assert "scores" not in told


def test_a_document_tells_who_said_what_about_it(service: Service, browser: Browser) -> None:
    address = reviewed(service, ["a"])
    text = browser.get("/documents?state=contradicted").text
    assert f'<a href="{address}">note &lt;17&gt;</a>' in text
    assert "1 document" in text
    shown = browser.get(address).text
    happened = shown[shown.index("What happened") :]
    events = re.findall(r'<th scope="row">(.*?)</th>', happened, re.DOTALL)
    assert [one.split("<")[0] for one in events[:5]] == [
        "Predicted", "Review opened", "Submitted", "Sent", "Outcome reported",
    ]  # fmt: skip
    assert "see &lt;page 2&gt;" in happened
    assert "reviewer" in happened


def test_a_lead_reopens_a_document_with_a_reason(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    address = f"/documents/{service.predict('0.9').json()['id']}"
    form = {"csrf": browser.token(address), "reason": " "}
    response = browser.submit(f"{address}/reopen", form)
    assert response.status_code == 422
    assert "Enter a value." in response.text
    done = browser.submit(f"{address}/reopen", {**form, "reason": "see <page 2>"})
    assert (done.status_code, done.headers["Location"]) == (303, address)
    text = browser.get(address).text
    assert "see &lt;page 2&gt;" in text
    assert f'action="{address}/reopen"' not in text, "a review is open"
    again = browser.submit(f"{address}/reopen", {**form, "reason": "twice"})
    assert "a reviewer decides again" in again.text
    service.person("ben", Role.REVIEWER)
    desk = Browser(service)
    desk.sign_in("ben")
    desk.submit("/desk/claim", {"csrf": desk.token("/desk")})
    assert "Reopened: see &lt;page 2&gt;" in desk.get("/desk").text
