"""Changes to the files of an artifact, as a careless or hostile hand could make them."""

import copy
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.numpy

from setwise.models.storage.artifacts import _versions
from setwise.models.storage.sealed_folder import MANIFEST, listing, sealed

VALUES = [
    None, True, False, 0, 1, -1, 2, 2**31, -(2**63), 10**30, 10**400, 0.5, -0.5, 1e-320, 1e308,
    "", "1", "\0", "x" * 300, "\ud800", [], {}, [1], [[]], {"a": 1},
]  # fmt: skip
RAW = ["NaN", "Infinity", "-Infinity", "1e999"]
"""What Python's JSON reads and JSON has not."""

ARRAY_CHANGES = [
    "missing", "longer", "shorter", "deeper", "cast", "empty", "shuffled", "odd type",
    "many dimensions",
]  # fmt: skip

ODD_DTYPES = ["BF16", "F8_E4M3", "F8_E5M2", "F16", "I8", "BOOL", "U64", "F4", "X9"]


def mutated(folder: Path, draw: random.Random) -> tuple[str, dict[str, bytes]]:
    """Return a description of one random change and all files but the manifest."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}
    name = draw.choice(sorted(files))
    change = _of_json if name.endswith(".json") else _of_arrays
    what, files[name] = change(files[name], draw)
    return f"{name}: {what}", files


def write(folder: Path, target: Path, files: dict[str, bytes]) -> None:
    """Write a whole artifact with a manifest that fits the files."""
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        path.unlink()
    for name, content in files.items():
        (target / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    manifest["files"] = listing(files)
    digests = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    manifest["version"], manifest["calibrator_version"] = _versions(digests)
    try:
        model = json.loads(files["model.json"])
        manifest |= {key: model[key] for key in ("label_names", "kind") if key in model}
        content = sealed(manifest)
    except (ValueError, TypeError):  # no JSON any more
        manifest["label_names"], manifest["kind"] = ["a"], "text"
        content = sealed(manifest)
    (target / MANIFEST).write_bytes(content)


def _places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _of_json(content: bytes, draw: random.Random) -> tuple[str, bytes]:
    document = json.loads(content)
    places = list(_places(document))
    if not places:
        return "filled", b'{"kind": 1}'
    # Deep documents, such as trees, must not hide the few settings at the top.
    depth = draw.choice(sorted({len(place) for place in places}))
    place = draw.choice([place for place in places if len(place) == depth])
    changed = copy.deepcopy(document)
    owner = changed
    for key in place[:-1]:
        owner = owner[key]
    kind = draw.choice(["value", "value", "value", "raw", "missing", "doubled"])
    if kind == "missing":
        del owner[place[-1]]
    elif kind == "doubled" and isinstance(owner, list):
        owner.append(owner[place[-1]])
    elif kind == "raw":
        owner[place[-1]] = "@@"
        raw = draw.choice(RAW)
        text = json.dumps(changed).replace('"@@"', raw)
        return f"{place} = {raw}", text.encode()
    else:
        value = draw.choice(VALUES)
        owner[place[-1]] = value
        return f"{place} = {value!r:.40}", json.dumps(changed).encode()
    return f"{place} {kind}", json.dumps(changed).encode()


def _of_arrays(content: bytes, draw: random.Random) -> tuple[str, bytes]:
    arrays = {name: array.copy() for name, array in safetensors.numpy.load(content).items()}
    name = draw.choice(sorted(arrays))
    array = arrays[name]
    kind = draw.choice(["value", "value", "value", draw.choice(ARRAY_CHANGES)])
    if kind in {"odd type", "many dimensions"}:
        return f"{name} {kind}", _odd_header(content, name, kind, draw)
    if kind == "missing":
        del arrays[name]
    elif kind == "value" and array.size:
        limits = (
            [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e30, -1e30, 3e38, 5e-324, 0.0, -1.0, 2.0]
            if array.dtype.kind == "f"
            else [-(2**63), 2**62, -(2**31), 2**31 - 1, -1, 0, 1, 7, 300]
        )
        value = draw.choice(limits)
        with np.errstate(all="ignore"):
            new = np.array(value, dtype=np.float64 if array.dtype.kind == "f" else np.int64)
            cast = new.astype(array.dtype)
        if draw.random() < 0.3:
            array[...] = cast
        else:
            array.flat[draw.randrange(array.size)] = cast
        return f"{name} holds {value}", safetensors.numpy.save(arrays)
    elif kind == "longer":
        arrays[name] = np.concatenate([array, array[-1:]])
    elif kind == "shorter":
        arrays[name] = array[:-1].copy()
    elif kind == "deeper":
        arrays[name] = array[None].copy()
    elif kind == "cast":
        arrays[name] = array.astype(draw.choice([np.int8, np.float16, np.float64, np.int64, bool]))
    elif kind == "empty":
        arrays[name] = array[:0].copy()
    elif kind == "shuffled":
        arrays[name] = array[draw.sample(range(len(array)), len(array))]
    return f"{name} {kind}", safetensors.numpy.save(arrays)


def _odd_header(content: bytes, name: str, kind: str, draw: random.Random) -> bytes:
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    if kind == "odd type":
        header[name]["dtype"] = draw.choice(ODD_DTYPES)
        start, end = header[name]["data_offsets"]
        width = {"F16": 2, "BF16": 2, "U64": 8}.get(header[name]["dtype"], 1)
        header[name]["shape"] = [(end - start) // width]
    else:
        header[name]["shape"] = [*[1] * draw.choice([33, 64, 65, 200]), *header[name]["shape"]]
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + content[8 + size :]
