"""A clinic's way through the whole API, whose requests and responses are the API's examples.

``python -m tests.api.examples_journey`` records them again.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.predictions import Document, Prediction, Submission
from setwise.service.domain.webhooks import ReceiverResponse
from setwise.service.services.predictions import all_predicted
from tests.api.example_recorder import FILE, Recorder, written
from tests.api.example_service import LEARNT, MODELS, clinical_service
from tests.api.test_files import run_jobs
from tests.kit.loop import settle_all, unlike

ADMIN = "/v1/admin"
ADA, ANN, ROSA, BILLING = "Ada Young", "Ann Lee", "Rosa Reyes", "billing"
COUGH = "Fever and productive cough for five days."
WHEEZE = "Wheeze at night, worse in spring."

CODERS, IN_CODERS = {"name": "Coders", "noise": {"mode": "estimated"}}, {"group": "coders"}
RULES = [
    {"kind": "label", "name": "neonates", "label": "P07.3"},
    {"kind": "metadata", "name": "hospice", "field": "site", "values": ["hospice"]},
    {"kind": "at_most", "name": "long sets", "n": 8},
    {"kind": "requires", "name": "long-term insulin", "label": "Z79.4", "labels": ["E11.9"]},
    {"kind": "exactly_one", "name": "one diagnosis", "labels": ["J18.9", "J45.9"]},
]


class Journey(Recorder):
    """The steps of the journey, in its order."""

    next_note = 1000

    def prepare(self) -> None:
        """Give people and programs their keys, and Ann a group."""
        self.join(ADA, Role.ADMIN)
        self.ann = self.join(ANN, Role.REVIEWER)
        self.rosa = self.join(ROSA, Role.LEAD)
        self.billing = self.join(BILLING, Role.CLIENT)
        doctors = {"name": "Doctors"}
        for path, body in (
            ("groups/default", doctors),
            ("groups/coders", CODERS),
            (f"annotators/{self.ann.id}", IN_CODERS),
        ):
            self.service.send("PUT", f"{ADMIN}/{path}", by=ADA, json=body)

    def invite_people(self) -> None:
        """Make accounts for people who sign in."""
        people, one = f"{ADMIN}/people", f"{ADMIN}/people/{{person_id}}"
        cem = {"login": "cem", "name": "Cem Kaya", "role": "reviewer"}
        password = {"password": "a sentence that only Cem knows"}
        self.cem = self.call(f"POST {people}", ADA, cem | password)["id"]
        dora = {"login": "dora", "name": "Dora Diaz", "role": "reviewer"}
        body = {"person_id": self.call(f"POST {people}", ADA, dora)["id"]}
        self.call(f"POST {one}/invite", ADA, {"days": 7}, **body)
        self.call(f"PATCH {one}", ADA, {"role": "lead"}, **body)
        self.call(f"GET {people}", ADA)

    def register_models(self) -> None:
        """Register two models, and have the first one serve."""
        one = f"{ADMIN}/models/{{model_id}}"
        self.model, self.candidate = (
            self.call(f"POST {ADMIN}/models", ADA, version.encode()) for version in MODELS
        )
        for model in (self.candidate, self.model):
            self.call(f"POST {one}/verify", ADA, model_id=model["id"])
            self.call(f"POST {one}/activate", ADA, model_id=model["id"])
        self.call(f"GET {ADMIN}/models", ADA)

    def add_webhooks(self) -> None:
        """Add a webhook for billing, which it takes back, and one for the operator."""
        hooks, one = f"{ADMIN}/webhooks", f"{ADMIN}/webhooks/{{webhook_id}}"
        billing = {
            "url": "https://billing.example/hooks/setwise",
            "description": "billing",
            "events": ["prediction.auto_sent", "review.completed"],
        }
        name = {"webhook_id": self.call(f"POST {hooks}", ADA, billing)["id"]}
        self.call(f"GET {hooks}", ADA)
        self.call(f"GET {one}", ADA, **name)
        self.call(f"POST {one}/rotate-secret", ADA, **name)
        off = {"url": "https://billing.example/hooks/setwise", "enabled": False}
        self.call(f"PUT {one}", ADA, off, if_match=2, **name)
        self.call(f"DELETE {one}", ADA, **name)
        pager = {"url": "https://pager.example/setwise", "events": ["policy.tripped"]}
        self.hook = {"webhook_id": self.call(f"POST {hooks}", ADA, pager)["id"]}

    def write_policies(self) -> None:
        """Try segments under fixed thresholds; then ask for a certificate."""
        body = {
            "target_accuracy": 0.9,
            "risk": 0.1,
            "threshold": {"mode": "certified"},
            "audit": {"certification_rate": 0.5, "ramp_up_rate": 0.6, "training_rate": 0.02},
            "overlap_rate": 0.05,
            "gold_reread_rate": 1.0,
            "rules": RULES,
        }
        segmented = {
            "threshold": {"mode": "fixed", "value": 0.9},
            "segment_by": "site",
            "segments": [
                {"value": "north", "audit": {"certification_rate": 0.1, "training_rate": 0.02}},
                {"value": "south", "threshold": {"mode": "fixed", "value": 0.95}},
            ],
            "reason": "Each site uses its own templates.",
        }
        version = self.call(f"GET {ADMIN}/policy", ROSA)["version"]
        change = f"PUT {ADMIN}/policy"
        for policy in (body, segmented):
            version = self.call(change, ADA, policy, if_match=version, another=True)["version"]
        self.predict()
        self.call(f"GET {ADMIN}/policy/segments", ROSA)
        self.compare_models()
        self.call(change, ADA, body, if_match=version)

    def predict(self) -> None:
        """Send documents of each form."""
        post, get = "POST /v1/predictions", "GET /v1/predictions/{prediction_id}"
        note = {
            "document": {"id": "note-17", "text": COUGH},
            "metadata": {"site": "north"},
            "priority": 1,
            "due_at": "2026-11-28T12:00:00Z",
        }
        self.sent = {"prediction_id": self.call(post, BILLING, note)["id"]}
        for document in (
            {"id": "note-18", "text": WHEEZE},
            {"id": "row-4", "features": {"bp": 128.5, "age": 71}},
            {"id": "note-19", "text": WHEEZE, "scores": {"J45.9": 0.81, "J18.9": 0.07}},
            {"candidates": [{"labels": ["J45.9"], "score": -0.2}, {"labels": []}]},
            {"id": "note-20", "text": WHEEZE, "labels": ["J45.9"]},
        ):
            held = document.get("id") == "note-18"
            self.call(post, BILLING, {"document": document}, another=held)
        batch = [
            {"id": "note-21", "text": COUGH, "metadata": {"site": "north"}, "priority": 2},
            {"id": "note-22", "text": " "},
        ]
        self.call(f"{post}/batch", BILLING, {"documents": batch})
        self.call("GET /v1/predictions", "auditor", query="?decision=auto")
        self.call(get, BILLING, **self.sent)
        self.call(f"{get}/decision", ROSA, **self.sent)

    def compare_models(self) -> None:
        """Have the other model score the same documents, and live ones in the shadow."""
        one, name = f"{ADMIN}/models/{{model_id}}", {"model_id": self.candidate["id"]}
        self.call(f"POST {one}/shadow", ADA, **name)
        self.call(f"POST {one}/compare", ADA, {"documents": 1000}, **name)
        run_jobs(self.service)
        self.call(f"GET {one}/comparison", "auditor", **name)
        self.call(f"DELETE {one}/shadow", ADA, **name)

    def review(self) -> None:
        """Let Ann skip a document, Rosa, who leads, decide it, and Ann decide others."""
        one, claim = "/v1/reviews/{task_id}", "POST /v1/reviews/claim"
        task = {"task_id": self.call(claim, ANN)["id"]}
        self.call("GET /v1/reviews", ANN)
        self.call(f"GET {one}", ANN, **task)
        self.call(f"POST {one}/heartbeat", ANN, **task)
        self.call(f"POST {one}/release", ANN, **task)
        task = self.call(claim, ANN)
        reason = {"reason": "page two is missing"}
        self.call(f"POST {one}/skip", ANN, reason, task_id=task["id"])
        self.call("GET /v1/documents", ROSA, query=f"?id={task['prediction_id']}")
        for by, answer in (
            (ROSA, {"labels": ["J45.9"], "comment": "no fever"}),
            (ANN, {"labels": ["J45.9", "J12.82"], "new_labels": ["J12.82"]}),
            (ANN, {"labels": ["J45.9"], "label_missing": True}),
        ):
            task = self.call(claim, by)
            self.service.clock.advance(seconds=40)
            version = task["version"]
            self.call(f"POST {one}/complete", by, answer, if_match=version, task_id=task["id"])
        self.answered = {"prediction_id": task["prediction_id"]}

    def decide_on_labels(self) -> None:
        """Propose labels, then accept, rename, merge, retire and remove them."""
        one, propose = f"{ADMIN}/labels/{{name}}", "POST /v1/labels"
        self.call(propose, ANN, {"label": "U07.1", "name": "COVID-19, virus identified"})
        for name in ("asthma attack", "COVID pneumonia", "see letter", "Mr. Miller's cough"):
            self.call(propose, ANN, {"label": name} | self.answered)
        for name, change in (
            ("U07.1", {"state": "accepted"}),
            ("asthma attack", {"state": "accepted", "label": "J45.901"}),
            ("COVID pneumonia", {"state": "merged", "merged_into": "J12.82"}),
            ("see letter", {"state": "retired"}),
        ):
            version = self.call(f"GET {one}", ROSA, name=name)["version"]
            self.call(f"PUT {one}", ROSA, change, if_match=version, name=name, another=True)
        self.call(f"DELETE {one}", ROSA, if_match=1, name="Mr. Miller's cough")
        self.call("GET /v1/labels", ANN, query="?query=J")

    def correct(self) -> None:
        """Report outcomes, comment on documents, and have some decided again."""
        document, one = "/v1/documents/{prediction_id}", "/v1/predictions/{prediction_id}/outcome"
        body, answered_body = self.sent, self.answered
        for label in ("J18.9", "J18,9"):
            outcome = {"labels": [label], "source": "billing"}
            self.call(f"POST {one}", BILLING, outcome, another=True, **body)
        self.call(f"GET {one}s", BILLING, **body)
        question = {"text": "Is the date right?", "kind": "flagged"}
        thread = self.call(f"POST {document}/comments", ROSA, question, **answered_body)["id"]
        self.call("GET /v1/documents/new-comments", ANN)
        answer = {"text": "It is.", "kind": "resolved", "thread": thread}
        self.call(f"POST {document}/comments", ANN, answer, **answered_body)
        self.call(f"GET {document}/comments", ANN, **answered_body)
        call = {"reason": "The patient called: it was the left knee."}
        self.call(f"POST {document}/reopen", ROSA, call, another=True, **body)
        page = {"reason": "I overlooked page two.", "labels": ["J18.9"]}
        self.call(f"POST {document}/reopen", ANN, page, **answered_body)
        ids = [body["prediction_id"], answered_body["prediction_id"]]
        for action in (
            {"action": "assign", "ids": ids, "assignee": self.cem},
            {"action": "reopen", "ids": ids, "reason": "The guideline has changed."},
        ):
            self.call("POST /v1/documents/actions", ROSA, action)
        self.call(f"GET {document}", ROSA, **body)
        self.call("GET /v1/documents/export", ROSA)
        self.call("GET /v1/reviews/recent", ANN)

    def poll_messages(self) -> None:
        """Read the outbox, as clients without a webhook do."""
        messages = self.call("GET /v1/outbox", BILLING)["items"]
        for message in messages:
            self.keep_message(message)
        ids = [message["id"] for message in messages[:2]]
        self.call("POST /v1/outbox/acknowledge", BILLING, {"ids": ids})

    def certify(self) -> None:
        """Prove a threshold by audits, which brings it into force."""
        base = f"{ADMIN}/certifications"
        self.send(180)
        self.call(f"GET {base}/outlook", ROSA, query="?rate=0.8")
        self.read_all(right=True)
        candidate = {"model_id": self.candidate["id"], "trained_on_audits": False}
        self.call(f"POST {base}", ADA, candidate)
        self.call(f"POST {base}", ADA)
        run_jobs(self.service)
        (newest, *_) = self.call(f"GET {base}", ROSA)["items"]
        self.call(f"GET {base}/{{certification_id}}", ROSA, certification_id=newest["id"])

    def compare_annotators(self) -> None:
        """Read what leads' second readings say of a group, and set the rates of another one."""
        group, one = f"{ADMIN}/groups/{{group_id}}", f"{ADMIN}/annotators/{{annotator_id}}"
        self.call(f"PUT {group}", ADA, CODERS, group_id="coders")
        self.call(f"PUT {one}", ADA, IN_CODERS, annotator_id=self.ann.id)
        rates = {"mode": "fixed", "alpha": 0.2, "beta": 0.05}
        shown = {"with_suggestion": {"alpha": 0.05, "beta": 0.3}}
        students = {"name": "Students", "noise": rates | shown}
        self.call(f"PUT {group}", ADA, students, group_id="students")
        self.call(f"GET {group}", ROSA, group_id="coders")
        self.call(f"GET {one}", ROSA, annotator_id=self.ann.id)
        self.call(f"GET {ADMIN}/groups", ROSA)
        self.call(f"GET {ADMIN}/annotators", ROSA)

    def recalibrate(self) -> None:
        """Learn a calibrator from reviews, activate it, and go back."""
        base = f"{ADMIN}/calibrations"
        self.call(f"POST {base}", ADA, {"noise": "none", "activate": "if-better"})
        known = {"noise": "known", "rates": {"alpha": 0.05, "beta": 0.3}}
        self.call(f"POST {base}", ADA, known)
        run_jobs(self.service)
        name = {"calibration_id": self.call(f"GET {base}", ROSA)["items"][0]["id"]}
        self.call(f"GET {base}/{{calibration_id}}", ROSA, **name)
        self.call(f"POST {base}/{{calibration_id}}/activate", ADA, **name)
        self.call(f"POST {base}/rollback", ADA, if_match=LEARNT, another=True)

    def report(self) -> None:
        """Read the figures, and preview other policies."""
        self.send(32)
        for name in ("summary", "learning", "reliability", "automation"):
            self.call(f"GET /v1/reports/{name}", ROSA)
        for wish in (
            {"target_accuracy": 0.95},
            {"threshold": {"mode": "fixed", "value": 0.9}},
            {"threshold": 0.9, "rules": RULES[:1]},
        ):
            self.call(f"POST {ADMIN}/policy/preview", ROSA, wish)

    def trip(self) -> None:
        """Let audits find wrong sets until the breaker trips, and vouch for a threshold."""
        self.read_all(right=False)
        breaker = f"{ADMIN}/breaker"
        self.call(f"GET {breaker}", ROSA)
        version = self.service.get(f"{ADMIN}/policy", by=ADA).json()["version"]
        fixed = {"threshold": {"mode": "fixed", "value": 0.9}, "reason": "The template is mended."}
        self.call(f"PUT {ADMIN}/policy", ADA, fixed, if_match=version)
        self.call(f"POST {breaker}/reset", ADA, {"uncertified": True})

    def replace_the_model(self) -> None:
        """Go back to the model before, and begin to train a new version."""
        self.call(f"POST {ADMIN}/models/rollback", ADA, if_match=self.model["version"])
        job = {"job_id": self.call(f"POST {ADMIN}/models/retrain", ADA, {"preset": "fast"})["id"]}
        for verb in ("cancel", "retry", "cancel"):
            self.call(f"POST /v1/jobs/{{job_id}}/{verb}", ADA, **job)

    def exchange_files(self) -> None:
        """Score a file, and fetch exports."""
        line = b'{"id": "note-23", "text": "Sore throat."}'
        job = {"job_id": self.call("POST /v1/jobs/scoring", BILLING, line)["id"]}
        month = {"created_from": "2026-11-01T00:00:00Z", "created_before": "2026-12-01T00:00:00Z"}
        export = {"what": "annotations", "format": "csv"} | month
        self.call("POST /v1/jobs/export", ROSA, export)
        run_jobs(self.service)
        self.call("GET /v1/jobs/{job_id}", BILLING, another=True, **job)
        self.call("GET /v1/jobs/{job_id}/result", BILLING, **job)
        self.call("GET /v1/jobs", BILLING)
        self.call("GET /v1/exports/{what}", BILLING, what="predictions")

    def deliver(self) -> None:
        """Have the pager's receiver fail for days, and send again what was lost."""
        hook, one = f"{ADMIN}/webhooks/{{webhook_id}}", f"{ADMIN}/deliveries/{{delivery_id}}"
        trial = self.call(f"POST {hook}/test", ADA, **self.hook)
        self.answer_deliveries()
        (newest, *_) = self.call(f"GET {ADMIN}/deliveries", "auditor")["items"]
        shown = self.call(f"GET {one}", "auditor", delivery_id=newest["id"])
        self.keep_message(shown["payload"])
        tried = self.call(f"GET {one}", "auditor", delivery_id=trial["id"])
        self.keep_message(tried["payload"])
        for _ in range(10):
            self.service.clock.advance(days=2)
            self.answer_deliveries()
        self.call(f"POST {hook}/replay", ADA, **self.hook)
        self.call(f"POST {one}/replay", ADA, delivery_id=newest["id"])

    def answer_deliveries(self) -> None:
        """Refuse whatever is due."""
        webhooks = replace(self.service.services.webhooks, draw=lambda: 0.0)
        webhooks.route()
        answer = ReceiverResponse(self.service.clock(), 0.25, status=503, excerpt="try later")
        parcels = webhooks.claim({}, otherwise=9)
        webhooks.record([(parcel.delivery, answer) for parcel in parcels])

    def close(self) -> None:
        """Issue, rotate and revoke a key, erase notes, and read the audit trail."""
        one = f"{ADMIN}/keys/{{key_id}}"
        intake = {"name": "intake", "role": "client", "scopes": ["predict"], "per_minute": 600}
        until = {"expires_at": "2027-11-21T09:00:00Z"}
        key = {"key_id": self.call(f"POST {ADMIN}/keys", ADA, intake | until)["details"]["id"]}
        self.call(f"POST {one}/rotate", ADA, **key)
        self.call(f"POST {one}/revoke", ADA, **key)
        self.call(f"GET {ADMIN}/keys", ADA)
        for name in ({"document_id": "note-17"}, self.answered):
            self.call(f"POST {ADMIN}/erasures", ADA, name)
        self.call(f"GET {ADMIN}/audit", ADA, query="?action=document.erased")
        for path in ("/healthz", "/readyz", "/readyz/predictions", "/metrics"):
            self.call(f"GET {path}", ADA)

    def send(self, number: int) -> None:
        """Predict notes of confidences from 0.8 to 0.99."""
        places = range(self.next_note, self.next_note + number)
        self.next_note += number
        notes = [
            Document(id=f"note-{place}", text=f"0.{80 + place % 20} {unlike('cough', place)}")
            for place in places
        ]
        predict = self.service.services.predictions.predict
        all_predicted(predict([Submission(self.billing, note) for note in notes]))

    def read_all(self, *, right: bool) -> None:
        """Have the queue emptied; if ``right``, only sets of a low confidence may be wrong."""
        draw = random.Random(17)

        def answer(prediction: Prediction) -> Sequence[str]:
            self.service.clock.advance(seconds=1)
            sure = prediction.scored.confidence >= 0.86 or draw.random() < 0.4
            return prediction.scored.labels if right and sure else ["E11.9"]

        for who in (self.ann, self.rosa):
            settle_all(self.service.services.reviews, who, answer)


def journey() -> Journey:
    """Go the whole way, and return what was recorded."""
    with clinical_service() as service:
        clinic = Journey(service)
        for step in (
            clinic.prepare,
            clinic.invite_people,
            clinic.register_models,
            clinic.add_webhooks,
            clinic.write_policies,
            clinic.review,
            clinic.decide_on_labels,
            clinic.correct,
            clinic.poll_messages,
            clinic.certify,
            clinic.compare_annotators,
            clinic.recalibrate,
            clinic.report,
            clinic.trip,
            clinic.replace_the_model,
            clinic.exchange_files,
            clinic.deliver,
            clinic.close,
        ):
            step()
            service.clock.advance(days=1)
    return clinic


if __name__ == "__main__":
    FILE.write_text(written(journey().examples), "utf-8")
