"""Ask a language model several times, and send its label sets to Setwise.

    setwise model add --external --labels labels.txt --activate
    SETWISE_KEY=… LLM_URL=… LLM_KEY=… python examples/llm_answers.py labels.txt new.jsonl

The model's API is OpenAI's chat completions, with JSON answers. How often each set occurs tells
Setwise how sure the model is. An answer that names another label than those in labels.txt is left
out: without that label it would be another set, perhaps the empty one, which the model did not say.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

TIMES = 5  # answers per document
ASKED = 'Which of these labels apply? Answer {{"labels": [...]}}. Labels: {labels}\n\n{text}'


def label_sets(llm: httpx.Client, text: str, labels: Sequence[str]) -> list[list[str]]:
    """Return the label sets that the language model answers."""
    message = {"role": "user", "content": ASKED.format(labels=", ".join(labels), text=text)}
    wanted = {"model": os.environ.get("LLM_MODEL", "default"), "messages": [message], "n": TIMES}
    options = {"temperature": 1.0, "response_format": {"type": "json_object"}}
    response = llm.post("/v1/chat/completions", json=wanted | options)
    response.raise_for_status()
    found = []
    for choice in response.json()["choices"]:
        try:
            named = list(dict.fromkeys(json.loads(choice["message"]["content"])["labels"]))
        except (ValueError, KeyError, TypeError):
            continue  # the answer is not the JSON that was asked for
        if all(label in labels for label in named):
            found.append(named)
    return found


def send(setwise: httpx.Client, document: dict[str, Any], sets: list[list[str]]) -> dict[str, Any]:
    """Send a document with the label sets; return Setwise's prediction."""
    candidates = [{"labels": labels} for labels in sets]
    body = {"document": {"id": document["id"], "text": document["text"], "candidates": candidates}}
    key = {"Idempotency-Key": f"llm-{document['id']}"}
    response = setwise.post("/v1/predictions", json=body, headers=key)
    response.raise_for_status()
    prediction: dict[str, Any] = response.json()
    return prediction


def main(setwise: httpx.Client, llm: httpx.Client, vocabulary: Path, new: Path) -> None:
    """Ask about each new document, send the answers, and print the decisions."""
    labels = [line.strip() for line in vocabulary.read_text().splitlines() if line.strip()]
    for line in new.read_text().splitlines():
        document = json.loads(line)
        sets = label_sets(llm, document["text"], labels)
        if not sets:
            print(document["id"], "the language model gave no answer that can be read")
            continue
        made = send(setwise, document, sets)
        print(document["id"], made["decision"], made["labels"], made["confidence"])


if __name__ == "__main__":
    url = os.environ.get("SETWISE_URL", "http://127.0.0.1:8000")
    keys = [{"Authorization": f"Bearer {os.environ[name]}"} for name in ("SETWISE_KEY", "LLM_KEY")]
    with (
        httpx.Client(base_url=url, headers=keys[0], timeout=60) as service,
        httpx.Client(base_url=os.environ["LLM_URL"], headers=keys[1], timeout=60) as model,
    ):
        main(service, model, Path(sys.argv[1]), Path(sys.argv[2]))
