"""What was told last, whoever said it."""

from setwise.service.domain.outcomes import outcome_faults, sent_labels
from setwise.service.domain.predictions import Decision, Reason
from tests.samples import annotation, outcome, prediction, task

SENT = prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD)
TASK = task()
HELD = TASK.prediction


def test_a_set_that_left_by_itself_was_told() -> None:
    assert sent_labels(SENT, [], []) == ("a", "b")


def test_a_set_that_waits_was_told_to_nobody_whatever_others_report() -> None:
    assert sent_labels(HELD, [], [outcome(HELD, "c")]) is None


def test_a_review_is_told_and_later_outcomes_replace_it() -> None:
    finished_annotation = annotation(TASK, "c", minutes=30)
    assert sent_labels(HELD, [finished_annotation], []) == ("c",)
    assert sent_labels(HELD, [finished_annotation], [outcome(HELD, "d")]) == ("d",)


def test_an_outcome_before_the_review_was_not_told() -> None:
    assert sent_labels(HELD, [annotation(TASK, "c", minutes=90)], [outcome(HELD, "d")]) == ("c",)


def test_every_fault_is_named_with_its_place() -> None:
    faults = list(outcome_faults(["a", "", "a", "b\x00", "x" * 501], " "))
    assert [fault.pointer for fault in faults] == [
        "/source",
        "/labels/1",
        "/labels/2",
        "/labels/3",
        "/labels/4",
    ]
    assert [fault.pointer for fault in outcome_faults([str(n) for n in range(10_001)], "s")] == [
        "/labels"
    ]
