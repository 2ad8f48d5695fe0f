"""The page Start: a project begins without a model and without a command line."""

import gzip
import io
import json
from dataclasses import replace

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.files import Exported, ExportRequest
from setwise.service.domain.retraining import Gain, Learning, Measured, RareLabel
from setwise.service.pages.board.start import START, TEXTS
from setwise.service.pages.desk import UNTAUGHT
from setwise.service.services.retraining import Retraining
from tests.api.test_files import run_jobs
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.rights import pages


@pytest.fixture
def owner(service: Service) -> Browser:
    """Return an administrator's browser on a service without a model."""
    service.predictors.predictor = None
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    return browser


def add(browser: Browser, typed: str) -> httpx.Response:
    return browser.submit(f"{START}/labels", {"csrf": browser.token(START), "typed": typed})


def upload(service: Service, browser: Browser, name: str, content: bytes, **form: str) -> str:
    """Upload a file of texts; return what the page says that follows once its job has ended."""
    files = {"texts": (name, content, "application/octet-stream")}
    response = browser.send("POST", TEXTS, files=files, data={"csrf": browser.token(START), **form})
    if response.status_code >= 400:
        return response.text
    run_jobs(service)
    return browser.get(response.headers["location"]).text


def answer(service: Service, *labels: str) -> str:
    """Answer the next document; return its prediction's id."""
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    headers = {"If-Match": f'"{task["version"]}"'}
    path = f"/v1/reviews/{task['id']}/complete"
    response = service.post(path, by="reviewer", json={"labels": labels}, headers=headers)
    assert response.json()["agreed"] is None
    prediction_id: str = task["prediction_id"]
    return prediction_id


def waiting(service: Service) -> list[str | None]:
    """Return the texts that wait for a person, in their order."""
    request = ExportRequest(Exported.PREDICTIONS, content=True)
    rows = b"".join(service.services.files.export(SYSTEM, request)).splitlines()
    return [json.loads(row)["text"] for row in rows]


def test_a_newcomer_meets_what_to_do_before_figures(service: Service, owner: Browser) -> None:
    def places() -> tuple[int, int]:
        page = owner.get(START).text
        return page.index("Labels, one a line"), page.index("How far you are")

    to_do, figures = places()
    assert to_do < figures
    upload(service, owner, "texts.txt", b"one text\nanother one\n")
    to_do, figures = places()
    assert figures < to_do


def test_labels_are_typed_or_uploaded_and_people_can_give_them(
    service: Service, owner: Browser
) -> None:
    response = add(owner, "grain\nwheat")
    assert "The labels are added" in owner.get(response.headers["location"]).text
    file = {"file": ("labels.txt", b"\xef\xbb\xbfrye\r\n\r\n", "text/plain")}
    owner.send("POST", f"{START}/labels", files=file, data={"csrf": owner.token(START)})
    items = service.get("/v1/labels", by="reviewer").json()["items"]
    assert [label["label"] for label in items] == ["grain", "rye", "wheat"]


def test_a_faulty_list_is_shown_again_with_its_lines(service: Service, owner: Browser) -> None:
    response = add(owner, "grain\nGrain")
    assert response.status_code == 422
    assert "spelt almost like &#39;grain&#39; on line 1" in response.text
    assert service.get("/v1/labels", by="reviewer").json()["items"] == []


LINES = b'{"text": "wheat rose, again"}\n{"text": "rye fell"}'


def csv() -> bytes:
    return b'story,topic\n"wheat rose, again",grain\nrye fell,rye\n'


def parquet() -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as file  # noqa: PLC0415 -- optional

    written = io.BytesIO()
    file.write_table(pyarrow.table({"text": ["wheat rose, again", "rye fell"]}), written)
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.jsonl", b'{"text": "wheat rose, again"}\n{"text": "rye fell", "id": "n"}', {}),
        ("a.jsonl.gz", gzip.compress(LINES, mtime=0), {}),
        ("../../a.csv", csv(), {"column": "story"}),
        ("a.parquet", parquet(), {}),
        ("a.txt", b"wheat rose, again\n\n rye fell\n", {}),
        ("", b"", {"pasted": "wheat rose, again\nrye fell\n"}),
    ],
    ids=["lines", "gzip", "csv", "parquet", "plain", "pasted"],
)
def test_texts_of_any_readable_file_wait_for_a_person(
    service: Service, owner: Browser, name: str, content: bytes, form: dict[str, str]
) -> None:
    response = upload(service, owner, name, content, **form)
    assert "<dt>Documents</dt><dd>2</dd>" in response
    assert waiting(service) == ["wheat rose, again", "rye fell"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", csv(), "text"),
        ("a.xlsx", b"PK\x03\x04", "save it as CSV"),
        ("a.parquet", b"PAR1", "cannot be read"),
        ("a.jsonl", b"", "empty"),
        ("a.png", b"\x89PNG", "not UTF-8"),
    ],
    ids=["no-column", "spreadsheet", "cut-off", "empty", "picture"],
)
def test_a_file_that_cannot_be_read_adds_nothing_and_is_named(
    service: Service, owner: Browser, name: str, content: bytes, why: str
) -> None:
    response = upload(service, owner, name, content)
    assert why in response
    assert "/tmp" not in response, "a page never says where the server keeps a file"
    assert waiting(service) == []


def test_an_empty_text_is_refused_and_the_others_are_taken(
    service: Service, owner: Browser
) -> None:
    response = upload(service, owner, "a.jsonl", b'{"text": ""}\n{"text": "rye fell"}\n')
    assert "1 of 2 documents refused" in response
    assert waiting(service) == ["rye fell"]


def test_nobody_else_may_bring_texts_and_no_other_page(service: Service, owner: Browser) -> None:
    response = owner.send("POST", TEXTS, files={"texts": ("a.txt", b"rye")}, data={"csrf": "x"})
    assert response.status_code == 403
    service.person("lea", Role.LEAD)
    lead = Browser(service)
    lead.sign_in("lea")
    sent_response = lead.send(
        "POST", TEXTS, files={"texts": ("a.txt", b"rye")}, data={"csrf": lead.token("/account")}
    )
    assert sent_response.status_code == 403
    assert waiting(service) == []


def test_the_desk_offers_nothing_and_says_why(service: Service, owner: Browser) -> None:
    upload(service, owner, "a.txt", b"rye fell\n")
    token = {"X-CSRF-Token": owner.token("/account")}
    task = owner.send("POST", "/desk/next", token, json={}).json()
    assert (task["candidates"], task["why"], task["withheld"]) == (None, None, UNTAUGHT)
    owner.get("/desk")


def test_every_page_opens_with_documents_from_before_a_model(
    service: Service, owner: Browser
) -> None:
    add(owner, "grain\nwheat")
    upload(service, owner, "a.txt", b"rye fell\nwheat rose\n")
    one = answer(service, "grain")
    places = [page for page in pages() if "{" not in page and not page.endswith("/label")]
    for address in (
        *places,
        "/board/labels/label?label=grain",
        f"/documents/{one}",
        "/documents?order=least-confident",
        "/",
    ):
        assert owner.get(address).status_code in {200, 303}, address


def measured(answers: int, right: int) -> Measured:
    return Measured(answers, answers // 2, right, 0.7, 0.8, rank=0.9, frequent_rank=0.4)


def test_the_page_says_how_good_the_models_are_and_what_more_answers_bring(
    service: Service, owner: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(owner, "grain\nrye")
    assert "After 60 more answers a model is trained by itself." in owner.get(START).text
    upload(service, owner, "a.jsonl", LINES)
    answer(service, "grain")
    learning = Learning(
        answers=400,
        next_at=549,
        rare=(RareLabel("rye", 0), RareLabel("grain", 1)),
        curve=(measured(280, 100), measured(392, 150)),
        gain=Gain(200, 0.004, 0.021),
    )
    monkeypatch.setattr(Retraining, "learning", lambda *_: learning)
    text = owner.get(START).text
    assert "right in 150 of 196 documents drawn at random, 76.5 %" in text
    assert "The next 200 answers will probably bring 0.4 to 2.1 points." in text
    assert "2 labels with fewer than 10 examples" in text
    assert "rye (0), grain (1)" in text
    assert "A model of 392 answers is registered; nothing suggests on the desk yet." in text
    soon_done = replace(learning, gain=Gain(200, 0.0, 0.014))
    monkeypatch.setattr(Retraining, "learning", lambda *_: soon_done)
    assert "less than 1.5 points: you may stop." in owner.get(START).text


def test_the_page_names_suggestions_from_elsewhere_while_nothing_suggests(owner: Browser) -> None:
    assert "examples/llm_answers.py" in owner.get(START).text
