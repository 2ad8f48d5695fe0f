"""What administrators say of labels."""

import pytest

from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.labels.notes import (
    LONGEST_LABEL_NOTE,
    MOST_LABEL_NOTES,
    LabelNote,
    read_label_notes,
)


def test_a_label_file_is_read_whatever_its_order_and_mark() -> None:
    text = '\ufefflabel,guideline,parent\nJ18 ,"Only with\na finding",J\nJ,,\n'
    assert read_label_notes(text) == [
        LabelNote("J18", None, "Only with\na finding", "J"),
        LabelNote("J", None, None, None),
    ]
    assert read_label_notes(" \n") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("J18,Pneumonia", "first line must name label"),
        ("label,colour\nJ18,red", "first line must name label"),
        ("label,name\n,Pneumonia", "record 2 has no label"),
        ("label\nJ18\nJ18", "described twice"),
        ("label,parent\nJ18,J", "record 2 names a parent"),
        ("label,parent\na,b\nb,x", "record 3 names a parent"),
        ("label,parent\na,b\nb,a", "is below itself"),
        ("label,name\na,b\x00", "cannot be stored"),
        ("label,name\na\u202eb,c", "U+202E"),
        ("label,name\na,b\u202ec", "U+202E"),
        ("label\n..", "'..'"),
        ("label,name\na," + "b" * (LONGEST_LABEL_NOTE + 1), "too long"),
    ],
)
def test_a_label_file_that_cannot_be_meant_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_label_notes(text)
    assert reason in error.value.faults[0].detail


def test_a_hierarchy_of_any_depth_is_read_in_linear_time() -> None:
    lines = [f"l{number},l{number + 1}" for number in range(MOST_LABEL_NOTES - 1)]
    text = "\n".join(["label,parent", *lines, f"l{MOST_LABEL_NOTES - 1},"])
    assert len(read_label_notes(text)) == MOST_LABEL_NOTES
