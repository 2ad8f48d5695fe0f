"""Scores from a model behind the Open Inference Protocol, version 2.

KServe, Triton, MLServer, OpenVINO and Seldon speak it. The scores are what an external model of
Setwise learns from and ranks: `OpenInferenceModel.answers` for training and prediction in Python,
`OpenInferenceModel.named_scores` for the ``scores`` of a document in a file or a request.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.data.answers import ModelAnswers

_SHOWN = 200  # characters of a response that a message repeats


class EndpointError(RuntimeError):
    """The endpoint refuses a request or breaks the protocol."""


class OpenInferenceModel:
    """A model that scores labels behind an Open Inference Protocol endpoint.

    Parameters
    ----------
    url : str
        Address before ``/v2``.
    model : str
        The model's name at the endpoint.
    label_names : sequence of str
        The labels, in the order of the output's columns.
    version : str, optional
        The model's version; the endpoint chooses by default.
    input_name : str
        The input: texts as ``BYTES`` of shape ``[n, 1]``, or vectors as ``FP32`` of ``[n, d]``.
    output_name : str, optional
        The output of shape ``[n, n_labels]``; may be left out if there is one.
    logits : bool
        Whether outputs are logits of probabilities.
    batch_size : int
        Largest number of documents in one request.
    client : httpx.Client, optional
        Carries keys, certificates and time limits; one with a limit of 30 s by default.

    Examples
    --------
    >>> def endpoint(request):
    ...     output = {"name": "p", "shape": [1, 2], "datatype": "FP32", "data": [0.9, 0.25]}
    ...     return httpx.Response(200, json={"model_name": "topics", "outputs": [output]})
    >>> client = httpx.Client(transport=httpx.MockTransport(endpoint))
    >>> model = OpenInferenceModel("http://kserve", "topics", ["grain", "trade"], client=client)
    >>> model.named_scores(["Wheat exports rose."])
    [{'grain': 0.9, 'trade': 0.25}]
    """

    def __init__(
        self,
        url: str,
        model: str,
        label_names: Sequence[str],
        *,
        version: str | None = None,
        input_name: str = "text",
        output_name: str | None = None,
        logits: bool = False,
        batch_size: int = 64,
        client: httpx.Client | None = None,
    ) -> None:
        place = f"{url.rstrip('/')}/v2/models/{model}"
        self._address = f"{place}/infer" if version is None else f"{place}/versions/{version}/infer"
        self._label_names = tuple(label_names)
        self._input_name = input_name
        self._output_name = output_name
        self._logits = logits
        self._batch_size = batch_size
        self._client = client or httpx.Client(timeout=30.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def scores(self, documents: Sequence[str] | ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each label, shape (n, n_labels).

        Parameters
        ----------
        documents : sequence of str, or array-like of shape (n, d)
            Texts or vectors, as the model takes them.

        Raises
        ------
        EndpointError
            If the endpoint cannot be reached, refuses, or answers another shape.
        """
        rows = np.asarray(documents, dtype=object if _are_texts(documents) else np.float64)
        parts = [
            self._batch(rows[start : start + self._batch_size])
            for start in range(0, len(rows), self._batch_size)
        ]
        scores = np.concatenate([np.zeros((0, len(self._label_names))), *parts])
        return 1.0 / (1.0 + np.exp(-scores)) if self._logits else scores

    def named_scores(
        self, documents: Sequence[str] | ArrayLike, *, at_least: float = 0.0
    ) -> list[dict[str, float]]:
        """Return each document's probabilities by label, as ``scores`` of a request.

        Parameters
        ----------
        documents : sequence of str, or array-like of shape (n, d)
            As for `scores`.
        at_least : float
            Leaves out labels below it; Setwise counts them as below the smallest.
        """
        return [
            {
                label: probability
                for label, probability in zip(self._label_names, row, strict=True)
                if probability >= at_least
            }
            for row in self.scores(documents).tolist()
        ]

    def answers(self, documents: Sequence[str] | ArrayLike) -> ModelAnswers:
        """Return the scores as answers for an external model.

        Raises
        ------
        ValueError
            If a score is no probability.
        """
        return ModelAnswers.of_scores(self.scores(documents))

    def _batch(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        tensor: dict[str, object] = {
            "name": self._input_name,
            "shape": [len(rows), 1 if rows.ndim == 1 else rows.shape[1]],
            "datatype": "BYTES" if rows.dtype == object else "FP32",
            "data": rows.ravel().tolist(),
        }
        body: dict[str, object] = {"inputs": [tensor]}
        if self._output_name is not None:
            body["outputs"] = [{"name": self._output_name}]
        try:
            response = self._client.post(self._address, json=body)
        except httpx.HTTPError as error:
            raise EndpointError(f"{self._address} cannot be reached ({error})") from error
        try:
            answer = response.json()
        except ValueError as error:
            raise self._error(response, "answers no JSON") from error
        if not response.is_success or not isinstance(answer, Mapping):
            raise self._error(response, "refuses")
        return self._output(response, answer, len(rows))

    def _output(
        self, response: httpx.Response, answer: Mapping[str, Any], n: int
    ) -> NDArray[np.float64]:
        outputs = {output["name"]: output for output in answer.get("outputs", ())}
        name = self._output_name or (next(iter(outputs)) if len(outputs) == 1 else None)
        if name not in outputs:
            raise EndpointError(
                f"{self._address} answers the outputs {', '.join(outputs) or 'none'}; "
                "name the one with the scores as output_name"
            )
        output = outputs[name]
        shape = (n, len(self._label_names))
        try:
            scores = np.array(output["data"], dtype=np.float64).reshape(output["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(response, f"answers no numbers as {name!r}") from error
        if scores.shape != shape:
            raise EndpointError(
                f"{self._address} answers {name!r} of shape {list(scores.shape)}, but "
                f"{n} documents and {len(self._label_names)} labels need {list(shape)}"
            )
        return scores

    def _error(self, response: httpx.Response, what: str) -> EndpointError:
        body = response.text[:_SHOWN]
        return EndpointError(f"{self._address} {what} ({response.status_code}): {body}")


def _are_texts(documents: Sequence[str] | ArrayLike) -> bool:
    return isinstance(documents, Sequence) and any(isinstance(text, str) for text in documents)
