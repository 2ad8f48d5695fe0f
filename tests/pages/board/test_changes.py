"""Changes on the board: each asks first, and is in the audit trail."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from setwise.models.results import Estimate, ReliabilityCurve
from setwise.service import services
from setwise.service.domain.accounts.callers import SYSTEM, Permission, Role
from setwise.service.domain.jobs import JobState
from setwise.service.domain.recalibration.report import (
    CalibratorComparison,
    RouteChange,
    RouteChanges,
)
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages.board.audit_trail import DONE
from setwise.service.pages.board.jobs import KINDS
from setwise.service.runtime.schedule import tasks
from tests.browsing import Browser
from tests.kit.edge import PASSWORD, Service
from tests.samples import (
    ADMIN,
    ANN,
    CLIENT,
    LEAD,
    calibration,
    calibration_report,
    change,
    job,
    model,
)

NOWHERE = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def admin(service: Service) -> Browser:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    return browser


def send(browser: Browser, address: str, **fields: str) -> object:
    return browser.submit(address, {"csrf": browser.token("/account"), **fields})


def last_action(service: Service) -> tuple[str, str]:
    events = service.database.contents.events.values()
    newest = max(events, key=lambda event: event.id)
    return newest.action, newest.actor.name


# Keys


def test_a_key_has_what_the_form_says(service: Service, admin: Browser) -> None:
    response = send(
        admin, "/board/keys", name="billing", role="lead", scopes="report", expires_at="2099-12-31",
        per_minute="60",
    )  # fmt: skip
    assert response.status_code == 201
    (secret,) = re.findall(r"sw_lead_[\w-]+", response.text)
    service.services.keys.authenticate(secret)
    key = next(one for one in service.services.keys.all(SYSTEM) if one.name == "billing")
    assert key.scopes == {Permission.REPORT}
    assert key.expires_at.isoformat() == "2100-01-01T00:00:00+00:00"
    assert key.per_minute == 60
    assert last_action(service) == ("key.created", "Ann")
    assert secret not in admin.get("/board/keys").text


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": ""}, "name"),
        ({"role": "emperor"}, "role"),
        ({"role": "client", "scopes": "administer"}, "scopes"),
        ({"scopes": "fly"}, "scopes"),
        ({"expires_at": "2001-01-01"}, "expires_at"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"expires_at": "9999-12-31"}, "expires_at"),
        ({"per_minute": "-1"}, "per_minute"),
        ({"per_minute": "1.5"}, "per_minute"),
        ({"per_minute": "many"}, "per_minute"),
        ({"per_minute": "NaN"}, "per_minute"),
    ],
)
def test_a_key_that_cannot_be_is_refused_at_its_field(
    service: Service, admin: Browser, fields: dict[str, str], where: str
) -> None:
    before = len(service.services.keys.all(SYSTEM))
    response = send(admin, "/board/keys", **{"name": "<i>", "role": "client", **fields})
    assert response.status_code == 422
    assert f'id="{where}-fault"' in response.text
    assert "<i>" not in response.text
    assert len(service.services.keys.all(SYSTEM)) == before


def test_the_last_way_in_is_not_closed(service: Service, admin: Browser) -> None:
    keys = {key.name: key for key in service.services.keys.all(SYSTEM)}
    person = service.services.people.all(SYSTEM)[0]
    send(admin, f"/board/keys/{keys['admin'].id}/revoke")
    response = send(admin, f"/board/people/{person.id}/disable")
    assert response.status_code == 409
    assert "last admin" in response.text
    response = send(admin, f"/board/people/{person.id}", name="Ann", role="reviewer")
    assert response.status_code == 422
    assert 'id="role-fault"' in response.text


def test_a_former_key_is_listed_apart(service: Service, admin: Browser) -> None:
    key = next(one for one in service.services.keys.all(SYSTEM) if one.role is Role.CLIENT)
    assert "refused within seconds" in admin.get(f"/board/keys/{key.id}/revoke").text
    assert send(admin, f"/board/keys/{key.id}/revoke").status_code == 303
    assert last_action(service) == ("key.revoked", "Ann")
    assert "1 former key" in admin.get("/board/keys").text


# People


def test_an_account_is_made_changed_shut_and_opened(service: Service, admin: Browser) -> None:
    fields = {"login": "Bo", "name": "Bo B", "role": "reviewer", "password": " spaces count  "}
    assert send(admin, "/board/people", **fields).status_code == 303
    bo = next(one for one in service.services.people.all(SYSTEM) if one.login == "bo")
    service.services.sessions.sign_in("bo", " spaces count  ")
    here = f"/board/people/{bo.id}"
    assert send(admin, here, name="Bob", role="lead").status_code == 303
    assert send(admin, f"{here}/password", password="short").status_code == 422
    assert send(admin, f"{here}/password", password=PASSWORD).status_code == 303
    service.services.sessions.sign_in("bo", PASSWORD)
    assert "signed out everywhere" in admin.get(f"{here}/disable").text
    assert send(admin, f"{here}/disable").status_code == 303
    assert send(admin, f"{here}/enable").status_code == 303
    assert last_action(service) == ("person.enabled", "Ann")


def test_a_login_name_that_is_taken_is_told_at_its_field(service: Service, admin: Browser) -> None:
    fields = {"login": "ann", "name": "Other", "role": "reviewer", "password": PASSWORD}
    response = send(admin, "/board/people", **fields)
    assert response.status_code == 422
    assert 'id="login-fault"' in response.text
    assert PASSWORD not in response.text
    assert 'value="Other"' in response.text


@pytest.mark.parametrize(
    "address",
    [
        f"/board/{what}/{NOWHERE}{action}"
        for what, action in (
            ("people", ""),
            ("people", "/disable"),
            ("keys", "/revoke"),
            ("models", ""),
            ("models", "/activate"),
            ("calibrators", ""),
            ("groups", ""),
            ("jobs", ""),
            ("webhooks", ""),
            ("webhooks", "/delete"),
            ("deliveries", ""),
            ("certifications", ""),
        )
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(admin: Browser, address: str) -> None:
    missing = admin.get(address)
    assert missing.status_code == 404
    assert "Page not found" in missing.text


# Jobs


def test_a_job_is_cancelled_and_tried_again(service: Service, admin: Browser) -> None:
    queued_job = replace(job("export"), owner_id=CLIENT.id)
    with service.database() as transaction:
        transaction.jobs.enqueue(queued_job)
    here = f"/board/jobs/{queued_job.id}"
    assert "It has not started" in admin.get(f"{here}/cancel").text
    assert send(admin, f"{here}/cancel").status_code == 303
    again = send(admin, f"{here}/cancel")
    assert again.status_code == 409
    assert "has cancelled already" in again.text
    assert send(admin, f"{here}/retry").status_code == 303
    assert service.services.jobs.get(SYSTEM, queued_job.id).state is JobState.QUEUED
    assert "data-live" in admin.get(here).text
    assert last_action(service) == ("job.retried", "Ann")


def test_jobs_are_filtered_and_paged(service: Service, admin: Browser) -> None:
    with service.database() as transaction:
        for number in range(60):
            transaction.jobs.enqueue(job("export" if number % 2 else "scoring"))
    first = admin.get("/board/jobs").text
    assert first.count('<a href="/board/jobs/') == 50
    rest = admin.get("/board/jobs?after=" + first.partition("after=")[2].partition('"')[0]).text
    assert rest.count('<a href="/board/jobs/') == 10
    assert admin.get("/board/jobs?kind=export").text.count('<a href="/board/jobs/') == 30
    assert "No jobs match" in admin.get("/board/jobs?state=failed").text
    assert admin.get("/board/jobs?after=nonsense").status_code == 422


def test_what_the_service_does_by_itself_unfolds_unless_it_fails(
    service: Service, admin: Browser
) -> None:
    failing = replace(job("sweep_files"), error="disk full")
    with service.database() as transaction:
        for each in (job("export"), job("expire_leases"), job("rescore"), failing):
            transaction.jobs.enqueue(each)
    text, _, folded = admin.get("/board/jobs").text.partition("What Setwise does by itself")
    assert "<tbody>" in text
    requested = text.partition("<tbody>")[2]
    assert "Export" in requested
    assert "Remove old files" in requested
    for internal in ("Return expired leases", "Bring the order of reading up to date"):
        assert internal not in requested
        assert internal in folded


def test_every_kind_of_job_has_a_name(service: Service) -> None:
    assert tasks(service.services).keys() == KINDS.keys()


# Models


def test_a_model_that_does_not_serve_is_certified_from_its_page(
    service: Service, admin: Browser
) -> None:
    known = model("sha256:new")
    with service.database() as transaction:
        transaction.models.add(known)
    here = f"/board/models/{known.id}"
    assert "It was trained on none of the audits" in admin.get(here).text
    response = send(admin, f"{here}/certify")
    assert response.status_code == 422
    assert "does not say when it was made" in response.text
    asked = send(admin, f"{here}/certify", untrained="yes")
    assert asked.status_code == 303
    job = service.services.jobs.get(SYSTEM, asked.headers["location"].rpartition("/")[2])
    assert (job.kind, job.payload["trained_on_audits"]) == ("certification", False)


def test_a_new_version_is_trained_from_a_page_that_says_what_happens(
    service: Service, admin: Browser
) -> None:
    here = "/board/models/retrain"
    assert here in admin.get("/board/models").text
    assert "What serves does not change" in admin.get(here).text
    response = send(admin, here, training_data="../secret")
    assert response.status_code == 422
    assert "must name a file in the folder" in response.text
    asked = send(admin, here, preset="fast", noise="estimated")
    assert asked.status_code == 303
    job = service.services.jobs.get(SYSTEM, asked.headers["location"].rpartition("/")[2])
    assert (job.kind, job.payload["preset"]) == ("retraining", "fast")
    assert job.payload["noise"] == "estimated"


# Calibrators


CURVE = ReliabilityCurve(
    confidence=(0.2, 0.9),
    accuracy=(0.25, 0.85),
    low=(0.1, 0.8),
    high=(0.3, 0.95),
    level=0.9,
    p_value=0.4,
    miscalibration=0.01,
    discrimination=0.02,
    uncertainty=0.2,
    debiased_miscalibration=0.0,
)


@pytest.fixture
def learnt(service: Service) -> str:
    registered_model = model("sha256:model")
    report, brier = calibration_report(), Estimate(0.2, 0.1, 0.3)
    changes = RouteChanges(1, (RouteChange("<b>7</b>", 0.8, 0.95),))
    report = replace(
        report,
        before=replace(report.before, brier=brier),
        after=replace(report.after, brier=replace(brier, value=0.15), reliability=CURVE),
        comparison=CalibratorComparison.tested(240, 0.05, 0.001),
        routes=replace(report.routes, documents=100, to_auto=changes),
    )
    new_calibration = replace(calibration(registered_model), report=report)
    with service.database() as transaction:
        transaction.models.add(registered_model)
        transaction.models.activate(registered_model.id, service.clock(), CLIENT.id)
        transaction.calibrations.add(new_calibration)
    return f"/board/calibrators/{new_calibration.id}"


def test_a_calibrator_is_read_activated_and_taken_back(
    service: Service, admin: Browser, learnt: str
) -> None:
    text = admin.get(learnt).text
    assert "roved better: the Brier score falls by 0.0500 on 240 documents (p = 0.001)" in text
    assert 'class="better">0.1500 (0.1000 to 0.3000)</span>' in text
    assert 'class="worse"' not in text  # only the test decides
    assert "&lt;b&gt;7&lt;/b&gt;" in text
    assert "1 that were reviewed would be sent" in admin.get(f"{learnt}/activate").text
    assert send(admin, f"{learnt}/activate").status_code == 303
    assert last_action(service) == ("calibration.activated", "Ann")
    assert '<span class="badge good">active</span>' in admin.get("/board/calibrators").text
    here = "/board/calibrators/rollback"
    leaving = re.search(rf'href="{here}(.+?)"', admin.get("/board/calibrators").text)
    assert leaving is not None
    assert send(admin, f"{here}{leaving[1]}").status_code == 303
    again = send(admin, f"{here}{leaving[1]}")
    assert again.status_code == 409
    assert "nothing was rolled back" in again.text
    assert '<span class="badge good">active</span>' not in admin.get("/board/calibrators").text


def test_the_numbers_of_a_calibrators_diagram_are_taken_away(admin: Browser, learnt: str) -> None:
    assert f'href="{learnt}/reliability.csv"' in admin.get(learnt).text
    table = admin.get(f"{learnt}/reliability.csv")
    assert table.headers["content-disposition"].startswith("attachment")
    assert table.text.splitlines()[1] == "after,0.2,0.25,0.1,0.3"
    rows = admin.get(f"{learnt}/reliability.json").json()
    assert [row["accuracy"] for row in rows] == [*CURVE.accuracy]
    assert admin.get(f"{learnt}/reliability.pdf").status_code == 404


def test_learning_is_asked_for_in_a_form(service: Service, admin: Browser, learnt: str) -> None:
    def typed(alpha: str, beta: str) -> dict[str, str]:
        return {"rates.alpha": alpha, "rates.beta": beta}

    here = "/board/calibrators"
    half = send(admin, here, noise="known", activate="never", **typed("", "5"))
    assert 'id="rates.alpha-fault">It is missing; enter both or neither.' in half.text
    wrong = send(admin, here, noise="known", activate="never", **typed("60", "50"))
    assert wrong.status_code == 422
    assert 'id="rates.alpha-fault"' in wrong.text
    assert 'value="60"' in wrong.text
    assert send(admin, here, noise="loud", activate="never").status_code == 422
    response = send(admin, here, noise="known", activate="if-better", **typed("10", "0"))
    assert response.status_code == 303
    job = service.services.jobs.get(SYSTEM, response.headers["location"].rpartition("/")[2])
    assert job.payload["rates"] == [0.1, 0.0]


def test_without_a_model_nothing_is_learnt(admin: Browser) -> None:
    response = send(admin, "/board/calibrators", noise="none", activate="never")
    assert response.status_code == 422
    assert 'role="alert"' in response.text


# Groups


def test_a_group_is_made_given_rates_and_members(service: Service, admin: Browser) -> None:
    assert send(admin, "/board/groups", name="Coders", group="Not This").status_code == 422
    assert send(admin, "/board/groups", name="Coders", group="coders").status_code == 303
    assert "already" in send(admin, "/board/groups", name="More", group="coders").text
    here = "/board/groups/coders"
    rates = {"noise.mode": "fixed", "noise.alpha": "5", "noise.beta": "12.5"}
    seen = "noise.with_suggestion"
    rates |= {"source_seen": "fixed", f"{seen}.alpha": "2.5", f"{seen}.beta": "30"}
    wrong = send(admin, here, name="Coders", version="1", **(rates | {"noise.alpha": "99"}))
    assert wrong.status_code == 422
    assert 'id="noise.alpha-fault"' in wrong.text
    wrong = send(admin, here, name="Coders", version="1", **(rates | {f"{seen}.beta": ""}))
    assert 'id="noise.with_suggestion.beta-fault"' in wrong.text
    assert send(admin, here, name="Coders", version="1", **rates).status_code == 303
    late = send(admin, here, name="Coders", version="1", **rates)
    assert late.status_code == 412
    group = service.services.annotators.get_group(SYSTEM, "coders").group
    assert (group.fixed, group.fixed_with_suggestion) == ((0.05, 0.125), (0.025, 0.3))
    blind, in_view = "<td>5 %</td>\n<td>12.5 %</td>", "<td>2.5 %</td>\n<td>30 %</td>"
    assert all(pair in admin.get(here).text for pair in (blind, in_view))
    someone = next(one for one in service.services.annotators.page(SYSTEM))
    place = {"annotator": someone.id, "version": str(someone.version)}
    assert send(admin, "/board/groups/place", **place, group="coders").status_code == 303
    assert last_action(service) == ("annotator.placed", "Ann")
    assert send(admin, "/board/groups/place", **place, group="default").status_code == 409


# The breaker


def test_a_tripped_breaker_is_explained_and_let_go(service: Service, admin: Browser) -> None:
    audits = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    service.services.policy.change(ADMIN, change(threshold=0.8, audits=audits), None)
    assert send(admin, "/board/breaker/reset").status_code == 409
    for place in range(40):
        service.predict(f"0.9{place:02}")
    for who in (ANN, LEAD):
        while (task := service.services.queue.claim(who)) is not None:
            service.services.reviews.complete(who, task.id, ["c"], None, task.version)
    assert "the target is no longer met" in admin.get("/board/breaker").text
    assert "tripped" in admin.get("/board/policy").text
    assert "on your decision alone" in admin.get("/board/breaker/reset").text
    assert send(admin, "/board/breaker/reset").status_code == 303
    assert service.services.policy.get(SYSTEM).states[0].trip_id is None
    assert "by hand" in admin.get("/board/breaker").text


# The audit trail


def test_every_recorded_act_has_words() -> None:
    sources = Path(services.__file__).parent.rglob("*.py")
    acts = {act for each in sources for act in re.findall(r'"([a-z]+\.[a-z_]+)"', each.read_text())}
    assert acts - DONE.keys() == {"idempotency.damaged"}, "that is logged"


def test_the_trail_is_filtered_by_who_what_and_when(service: Service, admin: Browser) -> None:
    service.fix_threshold(0.5)
    ann = service.services.people.all(SYSTEM)[0].id
    text = admin.get("/board/audit?action=policy.").text
    assert '</strong> changed the policy: <a href="/board/audit?subject=' in text
    assert "</strong> signed in" not in text
    mine = admin.get(f"/board/audit?actor={ann}").text
    assert "<strong>Ann</strong> signed in</th>" in mine
    assert "</strong> changed the policy" not in mine
    assert "No events match" in admin.get("/board/audit?before=2001-01-01T00:00").text
    odd = admin.get("/board/audit?since=yesterday&subject=%3Cb%3E").text
    assert 'id="since-fault"' in odd
    assert "<b>" not in odd
