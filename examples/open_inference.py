"""Score texts at an Open Inference Protocol endpoint, and send the scores to Setwise.

    setwise model add --external --labels labels.txt --activate
    SETWISE_KEY=… python examples/open_inference.py http://kserve topics labels.txt new.jsonl

KServe, Triton, MLServer and OpenVINO speak version 2 of the protocol. Here the model ``topics``
takes texts and returns a probability of each label, in the order of labels.txt.
"""

import json
import os
import sys
from pathlib import Path

import httpx

AT_ONCE = 256  # documents per request


def scores(endpoint: httpx.Client, texts: list[str], labels: list[str]) -> list[dict[str, float]]:
    """Return each text's probabilities by label."""
    tensor = {"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": texts}
    answer = endpoint.post("/infer", json={"inputs": [tensor]}).raise_for_status().json()
    (output,) = answer["outputs"]
    if output["shape"] != [len(texts), len(labels)]:
        raise SystemExit(f"{len(labels)} labels, but the endpoint answers {output['shape']}")
    rows = [output["data"][n * len(labels) :][: len(labels)] for n in range(len(texts))]
    return [dict(zip(labels, row, strict=True)) for row in rows]


def main(setwise: httpx.Client, url: str, name: str, vocabulary: Path, new: Path) -> None:
    """Score the new documents, send them, and print the decisions."""
    labels = [line.strip() for line in vocabulary.read_text().splitlines() if line.strip()]
    documents = [json.loads(line) for line in new.read_text().splitlines()]
    with httpx.Client(base_url=f"{url}/v2/models/{name}", timeout=30) as endpoint:
        for start in range(0, len(documents), AT_ONCE):
            part = documents[start : start + AT_ONCE]
            found = scores(endpoint, [one["text"] for one in part], labels)
            body = [
                {"id": one["id"], "text": one["text"], "scores": own}
                for one, own in zip(part, found, strict=True)
            ]
            response = setwise.post("/v1/predictions/batch", json={"documents": body})
            for item in response.raise_for_status().json()["items"]:
                result = item.get("decision", item.get("detail"))
                print(item.get("document_id"), result, item.get("labels"))


if __name__ == "__main__":
    address = os.environ.get("SETWISE_URL", "http://127.0.0.1:8000")
    headers = {"Authorization": f"Bearer {os.environ['SETWISE_KEY']}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        main(client, sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
