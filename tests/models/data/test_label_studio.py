"""Label Studio: annotations become data sets, predictions become tasks."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.formats.label_studio import labeling_config, predicted_tasks, task_lines
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.lines import DataError, DataWarning


def task(*annotations, **data):
    return {"id": 7, "data": {"text": "a", **data}, "annotations": list(annotations)}


def annotation(*choices, control="labels", **more):
    return {"result": [{"from_name": control, "value": {"choices": list(choices)}}], **more}


def labels_of(folder, *tasks, **layout):
    (folder / "a.json").write_text(json.dumps(tasks))
    dataset = read_dataset(folder / "a.json", layout=FileLayout(format="label-studio", **layout))
    found = [
        np.array(dataset.label_names)[row.astype(bool)].tolist() for row in dataset.Y.toarray()
    ]
    return dataset, found


def test_what_most_people_chose_counts_unless_a_truth_is_marked(tmp_path):
    two = [annotation("x", updated_at="1", completed_by=1), annotation("y", updated_at="2")]
    truth_ = annotation("z", ground_truth=True, completed_by={"email": "ann@example.org"})
    dataset, found = labels_of(
        tmp_path,
        task(*two, id="latest"),
        task(*two, annotation("x"), id="most"),
        task(*two, annotation("x"), truth_, id="truth"),
        task(annotation("x", was_cancelled=True), annotation(completed_by=3), id="none"),
    )
    assert dataset.ids == ("latest", "most", "truth", "none")
    assert found == [["y"], ["x"], ["z"], []]
    assert dataset.annotators == (None, None, "ann@example.org", "3")


def test_a_task_that_holds_no_document_is_named(tmp_path):
    for tasks, fault in (
        ([task(), {"id": 1}], "entry 2: this is no task of Label Studio"),
        ([{"data": {"body": "a"}}], r"entry 1: the data holds no text 'text'; .* body"),
    ):
        with pytest.raises(DataError, match=rf"a\.json, {fault}"):
            labels_of(tmp_path, *tasks)
    for wrong in ([3], 3, [{"result": [3]}], [{"result": [{"value": 3}]}]):
        with pytest.raises(DataError, match=r"entry 1: the annotations are not Label Studio's"):
            labels_of(tmp_path, {"data": {"text": "a"}, "annotations": wrong})
    for value, fault in (
        ({"choices": "fever"}, "the choices are a string; write them as a list"),
        ({"choices": [3]}, "a choice is a number; give names as strings"),
        ({"taxonomy": [[]]}, "a choice is a list; give names as strings"),
    ):
        wrong = {"result": [{"from_name": "labels", "value": value}]}
        with pytest.raises(DataError, match=rf"entry 1: {fault}"):
            labels_of(tmp_path, task(wrong))
    both = annotation("x")
    both["result"] += annotation("u", control="urgency")["result"]
    with pytest.raises(DataError, match="choices of several controls: labels, urgency"):
        labels_of(tmp_path, task(both))
    assert labels_of(tmp_path, task(both), labels_column="urgency")[1] == [["u"]]


def test_a_taxonomy_is_read_and_other_controls_are_named(tmp_path):
    def result(kind, value):
        return {"result": [{"from_name": "tree", "type": kind, "value": value}]}

    paths = {"taxonomy": [["Findings", "fever"], ["Findings", "cough"], ["rash"]]}
    assert labels_of(tmp_path, task(result("taxonomy", paths)))[1] == [["cough", "fever", "rash"]]
    spans = task(result("labels", {"start": 0, "labels": ["fever"]}))
    with pytest.raises(
        DataError, match=r"results are of 'tree' \(labels\), not of choices; name a"
    ):
        labels_of(tmp_path, spans)
    with pytest.raises(DataError, match="no task has a choice in 'codes'"):
        labels_of(tmp_path, task(result("taxonomy", paths)), labels_column="codes")


def test_each_answer_is_a_line_of_its_own_where_several_count(tmp_path):
    first = annotation("x", completed_by=1, updated_at="1")
    again = annotation("y", completed_by=1, updated_at="2")
    other = annotation("x", completed_by=2)
    truth_ = annotation("z", completed_by=2, ground_truth=True)
    (tmp_path / "a.json").write_text(json.dumps([task(first, again, other, truth_)]))
    layout = FileLayout(format="label-studio")
    assert read_dataset(tmp_path / "a.json", layout=layout, several=True).n == 3
    lines = [
        json.loads(line)
        for _, line in task_lines(tmp_path / "a.json", layout, labelled=True, several=True)
    ]
    assert {line["id"] for line in lines} == {"7"}
    assert {line["annotator"]: line["labels"] for line in lines} == {
        "1": ["y"],
        "2": ["x"],
        "gold": ["z"],
    }


def predictions_in(path):
    """Predictions as ``predict`` and as the service's export write them."""
    first = {"id": "a", "labels": ["x", "y & z"], "confidence": 0.9, "model_version": "3f9c"}
    second = first | {"labels": [], "id": "p2", "document_id": "b", "text": "b?"}
    second |= {"decision": "review", "marginals": [{"label": "w", "probability": 0.1}]}
    path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    return path


@pytest.fixture
def sdk():
    """Label Studio's own classes, which pydantic warns of."""
    with warnings.catch_warnings(action="ignore"):
        from label_studio_sdk import label_interface, objects  # noqa: PLC0415

        yield SimpleNamespace(
            LabelInterface=label_interface.LabelInterface, PredictionValue=objects.PredictionValue
        )


def test_documents_whose_text_is_gone_are_left_out(tmp_path):
    row = {"id": "p", "document_id": "d", "labels": ["x"], "confidence": 0.5, "model_version": "m"}
    rows = [{**row, "text": None}, {**row, "text": "fever"}, {**row, "labels": None, "text": "x"}]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in rows))
    with pytest.warns(DataWarning, match="1 document left out: the text is gone"):
        tasks = [made for made, _ in predicted_tasks(file, {})]
    assert [made["data"]["text"] for made in tasks] == ["fever", "x"]
    assert [len(made["predictions"]) for made in tasks] == [1, 0]
    file.write_text(json.dumps(rows[0]))
    with pytest.raises(DataError, match="no document has a text"):
        list(predicted_tasks(file, {}))


def test_tasks_with_predictions_are_what_label_studio_takes(tmp_path, sdk):
    path = predictions_in(tmp_path / "predictions.jsonl")
    found = list(predicted_tasks(path, {"a": "a?"}))
    names = set().union(*(labels for _, labels in found))
    assert names == {"w", "x", "y & z"}
    interface = sdk.LabelInterface(labeling_config(sorted(names)))
    for each, _ in found:
        for prediction in each["predictions"]:
            sdk.PredictionValue(**prediction)
            assert interface.validate_prediction(prediction)
    assert [one["data"] for one, _ in found] == [
        {"id": "a", "text": "a?"},
        {"id": "b", "text": "b?", "prediction_id": "p2"},
    ]
    assert [one["predictions"][0]["score"] for one, _ in found] == [0.9, 0.9]
    assert len(list(predicted_tasks(path, {}, review=True))) == 1
    with pytest.raises(DataError, match="line 1: no text of the document 'a'; export with"):
        list(predicted_tasks(path, {}))
    path.write_text(json.dumps({"id": "a", "labels": 3, "confidence": 1, "model_version": "m"}))
    with pytest.raises(DataError, match="line 1: 'labels' is no list of names"):
        list(predicted_tasks(path, {"a": "a?"}))


def test_what_people_accept_comes_back_as_it_went_out(tmp_path):
    tasks = [one for one, _ in predicted_tasks(predictions_in(tmp_path / "p.jsonl"), {"a": "a?"})]
    for one in tasks:
        one["annotations"] = [{"completed_by": 1, "result": one["predictions"][0]["result"]}]
    dataset, found = labels_of(tmp_path, *tasks)
    assert dataset.ids == ("a", "b")
    assert found == [["x", "y & z"], []]


def test_predictions_of_tasks_are_answers_of_another_model(tmp_path):
    given = task(annotation("x"), id="a")
    given["predictions"] = [annotation("x", score=0.8), annotation("x", "y")]
    (tmp_path / "a.json").write_text(json.dumps([given]))
    layout = FileLayout(format="label-studio")
    answers = read_dataset(tmp_path / "a.json", layout=layout, external=True).answers
    assert answers.n_answers.tolist() == [2]
    assert answers.set_scores.tolist() == pytest.approx([0.8, np.nan], nan_ok=True)
    (tmp_path / "a.json").write_text(json.dumps([given | {"predictions": [17]}]))
    with pytest.raises(DataError, match="entry 1: the task holds only the ids of its predictions"):
        read_dataset(tmp_path / "a.json", layout=layout, external=True)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/a.txt",
        " HTTPS://Example.org/a.txt\n",
        "s3://notes/a",
        "file:///notes/a.txt",
        "azure-blob://notes/a.txt",
        "data:text/plain;base64,RmV2ZXI=",
        "/data/upload/1/a.txt",
        "/data/local-files/?d=notes/a.txt",
    ],
)
def test_addresses_are_not_learnt_as_texts(tmp_path, address):
    with pytest.raises(DataError, match="'text' holds addresses of texts, not texts; name the key"):
        labels_of(tmp_path, task(annotation("x"), text=address))
    with pytest.warns(DataWarning, match="'text' holds an address, not a text, in 1 task of 2;"):
        _, found = labels_of(
            tmp_path,
            task(annotation("x"), id=1, text=address),
            task(annotation("y"), id=2, text="Fever"),
        )
    assert found == [["x"], ["y"]]


@pytest.mark.parametrize(
    ("mark", "of_task"),
    [
        ({"last_action": "rejected"}, False),
        ({"status": "skipped"}, False),
        ({"accepted": False}, False),
        ({"draft": True}, False),
        ({"was_cancelled": True}, True),
        ({"is_skipped": True}, True),
    ],
    ids=str,
)
def test_annotations_that_their_tool_marks_as_no_answer_do_not_count(tmp_path, mark, of_task):
    odd = task(annotation("WRONG", **({} if of_task else mark)), id=1)
    odd |= mark if of_task else {}
    with pytest.warns(DataWarning, match="1 task left out"):
        _, found = labels_of(tmp_path, odd, task(annotation("y"), id=2))
    assert found == [["y"]]


def test_marks_that_are_not_set_withdraw_nothing(tmp_path):
    marks = {"was_cancelled": "false", "last_action": "submitted", "accepted": None}
    assert labels_of(tmp_path, task(annotation("x", **marks)))[1] == [["x"]]


def test_texts_with_an_address_are_texts(tmp_path):
    text = "https://example.org says: fever"
    assert labels_of(tmp_path, task(annotation("x"), text=text))[1] == [["x"]]
