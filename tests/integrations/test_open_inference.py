"""A model behind the Open Inference Protocol becomes answers that Setwise ranks."""

import json

import httpx
import numpy as np
import pytest

from setwise.integrations.open_inference import EndpointError, OpenInferenceModel

LABELS = ("grain", "trade", "oil")


def endpoint(seen, **changes):
    """An endpoint whose scores are the numbers of "g", "t" and "o" in a text, divided by ten."""

    def answer(request):
        body = json.loads(request.content)
        seen.append((request.url.path, body))
        (given,) = body["inputs"]
        if given["datatype"] == "BYTES":
            rows = [[text.count(letter) / 10 for letter in "gto"] for text in given["data"]]
        else:
            rows = np.array(given["data"]).reshape(given["shape"]).tolist()
        output = {"name": "p", "datatype": "FP32", "shape": [len(rows), 3]}
        output["data"] = [score for row in rows for score in row]
        return httpx.Response(200, json={"model_name": "m", "outputs": [output | changes]})

    return answer


def model_of(answer, **options):
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return OpenInferenceModel("http://kserve/", "topics", LABELS, client=client, **options)


def test_texts_go_out_in_batches_and_come_back_as_answers():
    seen = []
    with model_of(endpoint(seen), batch_size=2, version="3", output_name="p") as model:
        answers = model.answers(["got", "oo", "tt"])
        assert model.named_scores(["got"], at_least=0.1) == [
            {"grain": 0.1, "trade": 0.1, "oil": 0.1}
        ]
        assert model.scores([]).shape == (0, 3)
    assert answers.scores.toarray() == pytest.approx(
        np.array([[0.1, 0.1, 0.1], [0, 0, 0.2], [0, 0.2, 0]])
    )
    path, body = seen[0]
    assert path == "/v2/models/topics/versions/3/infer"
    assert body == {
        "inputs": [{"name": "text", "shape": [2, 1], "datatype": "BYTES", "data": ["got", "oo"]}],
        "outputs": [{"name": "p"}],
    }
    assert len(seen) == 3


def test_vectors_go_out_as_numbers_and_logits_become_probabilities():
    seen = []
    X = np.array([[0.0, np.log(3), -np.log(3)]])
    scores = model_of(endpoint(seen), input_name="features", logits=True).scores(X)
    assert scores == pytest.approx(np.array([[0.5, 0.75, 0.25]]))
    (given,) = seen[0][1]["inputs"]
    assert (given["datatype"], given["shape"]) == ("FP32", [1, 3])


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (
            lambda _: httpx.Response(404, json={"error": "no such model"}),
            r"refuses \(404\): .*no such",
        ),
        (lambda _: httpx.Response(200, text="<html>"), r"answers no JSON \(200\)"),
        (endpoint([], shape=[3, 1]), r"'p' of shape \[3, 1\], but 1 documents and 3 labels need"),
        (endpoint([], data=["a", "b", "c"]), "answers no numbers as 'p'"),
        (lambda _: httpx.Response(200, json={"outputs": []}), "answers the outputs none; name"),
    ],
)
def test_what_the_protocol_does_not_know_is_refused(answer, fault):
    with pytest.raises(EndpointError, match=rf"http://kserve/v2/models/topics/infer .*{fault}"):
        model_of(answer).scores(["a"])


def test_an_endpoint_that_is_not_there_and_scores_that_are_none_are_named():
    def gone(request):
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(EndpointError, match=r"cannot be reached \(refused\)"):
        model_of(gone).scores(["a"])
    with pytest.raises(ValueError, match=r"document 1 for label 2 is 1\.2; give probabilities"):
        model_of(endpoint([], data=[0, 1.2, 0])).answers(["a"])
