"""JSON as it is stored."""

import json

from pydantic_core import to_json


def stored_json(value: object) -> str:
    """Return ``value`` as JSON without white space.

    Raises
    ------
    ValueError
        For numbers that JSON lacks.
    """
    text = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in text or "Infinity" in text:  # a number that JSON lacks, or such a word
        json.dumps(value, allow_nan=False)
    return text
