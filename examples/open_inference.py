"""Score documents at an Open Inference Protocol endpoint, and send the scores to Setwise.

    setwise model add --external --labels labels.txt --activate
    SETWISE_KEY=… python examples/open_inference.py http://kserve topics labels.txt new.jsonl

KServe, Triton, MLServer and OpenVINO speak version 2 of the protocol. The model ``topics`` takes
texts and returns a probability of each label, in the order of labels.txt.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from setwise.integrations.open_inference import OpenInferenceModel

AT_ONCE = 256  # documents per request


def send(
    setwise: httpx.Client, model: OpenInferenceModel, documents: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Score documents and send them; return a prediction, or a problem, for each."""
    scores = model.named_scores([one["text"] for one in documents])
    answered = [
        {"id": one["id"], "text": one["text"], "scores": own}
        for one, own in zip(documents, scores, strict=True)
    ]
    response = setwise.post("/v1/predictions/batch", json={"documents": answered})
    response.raise_for_status()
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def main(setwise: httpx.Client, url: str, name: str, vocabulary: Path, new: Path) -> None:
    """Score the new documents, send them, and print the decisions."""
    labels = [line.strip() for line in vocabulary.read_text().splitlines() if line.strip()]
    documents = [json.loads(line) for line in new.read_text().splitlines()]
    with OpenInferenceModel(url, name, labels) as model:
        for start in range(0, len(documents), AT_ONCE):
            for item in send(setwise, model, documents[start : start + AT_ONCE]):
                result = item.get("decision", item.get("detail"))
                print(item.get("document_id"), result, item.get("labels"))


if __name__ == "__main__":
    address = os.environ.get("SETWISE_URL", "http://127.0.0.1:8000")
    headers = {"Authorization": f"Bearer {os.environ['SETWISE_KEY']}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        main(client, sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
