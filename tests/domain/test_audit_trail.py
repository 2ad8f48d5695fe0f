"""Lines of the audit trail."""

from setwise.service.domain.audit_trail import AuditEvent
from tests.fakes import START
from tests.samples import ANN


def test_an_event_names_who_did_what_to_which_thing() -> None:
    event = AuditEvent.by(
        ANN.calling_from(None, "r"), "review.claimed", "task-1", id="e-1", at=START, version=2
    )
    assert (event.actor.id, event.actor.name) == (ANN.id, "Ann")
    assert (event.action, event.subject, event.request_id) == ("review.claimed", "task-1", "r")
    assert event.detail == {"version": 2}
