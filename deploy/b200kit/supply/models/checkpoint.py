"""Whether a model's files are what its config.json and its index say. Pure.

What is looked at are names, sizes and the headers of the safetensors files; the bytes of the
tensors are the manifest's to prove. Every problem is one line that begins with the file's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.readings import short
from b200kit.node.weights.manifest import OURS, PARTIAL
from b200kit.sizing import memory, model_config, quantisation
from b200kit.sizing.dimensions import Dimensions, ModelError

LENGTH = 8
# The format allows 100 MB. A tensor takes some 150 bytes, so that these are 200,000 of one file.
_MOST_HEADER = 32 << 20
# Lists and objects besides the three of a tensor: those in texts of its metadata.
_MOST_OTHERS = 1 << 16
_MOST_DIMENSIONS, _MOST_NUMBER = 16, 1 << 62
_BITS: Mapping[str, int] = {
    "F4": 4,
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


class HeaderError(ValueError):
    """A file that is no sound safetensors; the text says why, without the file's name."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file."""

    shape: tuple[int, ...]
    bytes: int


def header_length(first: bytes, size: int) -> int:
    """How many bytes the header of a safetensors file has, by the first eight of its *size*.

    After it the tensors, one after the other, without gaps
    (https://github.com/huggingface/safetensors, "Format").
    """
    count = int.from_bytes(first[:LENGTH], "little")
    if len(first) < LENGTH or not 0 < count <= min(_MOST_HEADER, size - LENGTH):
        raise HeaderError("it does not begin with a safetensors header")
    return count


def header_tensors(header: bytes, size: int) -> dict[str, Tensor]:
    """The tensors by name; HeaderError where header and *size* of the file do not agree."""
    nested = header.count(b"[") + header.count(b"{")
    if nested > 3 * header.count(b'"dtype"') + _MOST_OTHERS:
        raise HeaderError("its header has more lists and objects than its tensors need")
    try:
        document = documents.parse(header, _MOST_HEADER)
        rows = {name: row for name, row in document.items() if name != "__metadata__"}
        spans = {name: _span(name, row) for name, row in rows.items()}
    except HeaderError:
        raise
    except documents.Malformed as error:
        raise HeaderError(f"its header is damaged: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise HeaderError("its header is damaged") from None
    at = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != at:
            raise HeaderError(f"{short(name)} begins at byte {begin} of the data, and {at} is next")
        at = end
    if LENGTH + len(header) + at != size:
        expected = LENGTH + len(header) + at
        raise HeaderError(f"it has {size} bytes, and its header describes {expected}")
    return {name: Tensor(tuple(rows[name]["shape"]), e - b) for name, (b, e) in spans.items()}


def _span(name: str, row: Mapping[str, Any]) -> tuple[int, int]:
    begin, end = row["data_offsets"]
    shape, dtype = row["shape"], row["dtype"]
    if dtype not in _BITS:
        raise HeaderError(f"{short(name)} is of a type nobody knows, {short(dtype)}")
    sizes = (begin, end, *shape)
    few = len(shape) <= _MOST_DIMENSIONS
    if not few or not all(type(n) is int and 0 <= n <= _MOST_NUMBER for n in sizes):
        raise HeaderError(f"{short(name)} has no sizes")
    if (end - begin) * 8 != math.prod(shape) * _BITS[dtype]:
        raise HeaderError(f"{short(name)} has {end - begin} bytes, not those of {shape} in {dtype}")
    return begin, end


Read = Callable[[str, int], bytes]
"""The first bytes of a file by its path; fewer where it ends before."""

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
_TENSORS = ".safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_PICKLE = "{0} is a pickle, which runs code when it is loaded: --without {0}, or --allow-pickle {0}"
# Protocols 2 to 5; 0 and 1, which begin with a name to import, a list or a dict; a zip of torch's,
# an array of numpy's, and what joblib packs.
_BEGINNING = re.compile(
    rb"\x80[\x02-\x05]|\(?c[A-Za-z_][A-Za-z0-9_.]*\n[A-Za-z_][A-Za-z0-9_.]*\n(?:[()\]}]|p[0-9]+\n|q[\x00-\x1f])"
    rb"|\([ld]p[0-9]+\n|[\]}]q[\x00-\x1f]|PK\x03\x04|\x93NUMPY"
    rb"|\x1f\x8b|BZh[1-9]|\xfd7zXZ|x[\x01\x9c\xda]"
)
_READ_BY_ENGINES = (_TENSORS, ".json", ".jinja", ".model", ".tiktoken", ".txt", ".py")
# For people, and for git and download tools; no engine reads them.
LEFT_OUT = (".*", "*/.*", "*.md", "*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.pdf")
# A tensor takes some 100 bytes of the index, so that these are 600,000.
_MOST_JSON = 64 << 20
_LAYER = re.compile(r"(.*\b(?:layers|h|blocks))\.([0-9]+)\.")
_EMBEDDING = re.compile(r"(?!.*(?:vis|audio)).*\b(?:embed_tokens|wte|word_embeddings)\.weight")
_OTHER_MODES = ("vision_config", "audio_config")
# What counting leaves out (norms, biases, scales) and what checkpoints have beside the model.
_LEAST, _MOST = 0.7, 1.5


@dataclass
class Report:
    """What is wrong, one line each, and what could not be compared."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_left_out(path: str, without: Collection[str]) -> bool:
    """Whether a file is not taken into a model; one whose path climbs is refused instead."""
    if ".." in path.split("/"):
        return False
    return any(fnmatch(path, pattern) for pattern in (*LEFT_OUT, *without))


def report(sizes: Mapping[str, int], read: Read, pickles: Collection[str] = ()) -> Report:
    """What of a model's files is not as it should be; *pickles* are allowed by name."""
    found = Report(problems=[line for path in sorted(sizes) for line in of_name(path, pickles)])
    found.problems += [
        _PICKLE.format(path) for path in sorted(sizes) if _is_pickle(path, read, pickles)
    ]
    if found.problems:
        return found
    config = _config(sizes, read, found)
    found.notes += _code(sizes, config or {})
    shards = dict(_headers(sizes, read, found))
    _compare_index(sizes, read, shards, found)
    if config is not None and not found.problems:
        _compare_config(config, {n: t for each in shards.values() for n, t in each.items()}, found)
    return found


def of_name(path: str, pickles: Collection[str]) -> Iterator[str]:
    """Why a file of such a name may not be in a model."""
    parts = path.split("/")
    if {"", ".", ".."} & {*parts} or "\\" in path or not path.isprintable():
        yield f"{path!r} is a path outside the model"
    elif path in OURS or path.endswith(PARTIAL):
        yield f"{path} is a name of the toolkit's own"
    elif path.endswith(_PICKLES):
        if path not in pickles:
            yield _PICKLE.format(path)
    elif not path.endswith(_READ_BY_ENGINES) and "." in parts[-1]:
        yield f"{path} is no file of a model: --without {path}"


def _is_pickle(path: str, read: Read, pickles: Collection[str]) -> bool:
    """Whether a file of another name begins as Python's pickles do, or as what is made of them.

    A safetensors file that began so would have a header of petabytes. What is parsed as something
    else is never loaded as a pickle.
    """
    if path in pickles or path.endswith((*_PICKLES, _TENSORS, ".json", ".jinja", ".py")):
        return False
    return _BEGINNING.match(read(path, 256)) is not None


def _code(sizes: Mapping[str, int], config: Mapping[str, Any]) -> Iterator[str]:
    """That code comes with the model, which runs only where the inventory says so."""
    files = sorted(path for path in sizes if path.endswith(".py"))
    names = [*files, *(["auto_map of " + CONFIG] if config.get("auto_map") else [])]
    if names:
        yield f"code comes with it: {', '.join(names)}; it runs with trust-remote-code alone"


def _json(path: str, sizes: Mapping[str, int], read: Read, found: Report) -> dict[str, Any] | None:
    if path not in sizes:
        found.problems.append(f"{path} is missing")
        return None
    raw = read(path, min(sizes[path], _MOST_JSON + 1))
    try:
        return documents.decode(documents.Object, raw, _MOST_JSON, path)
    except documents.Malformed as error:
        found.problems.append(str(error))
        return None


def _config(sizes: Mapping[str, int], read: Read, found: Report) -> Mapping[str, Any] | None:
    """config.json, with the quantisation that ModelOpt writes beside it where it has none."""
    config = _json(CONFIG, sizes, read, found)
    if config is None or quantisation.BESIDE not in sizes:
        return config
    return quantisation.joined(config, _json(quantisation.BESIDE, sizes, read, found))


def _headers(
    sizes: Mapping[str, int], read: Read, found: Report
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    for path in sorted(sizes):
        if path.endswith(_TENSORS):
            size = sizes[path]
            try:
                count = header_length(read(path, LENGTH), size)
                header = read(path, LENGTH + count)[LENGTH:]
                yield path, header_tensors(header, size)
            except HeaderError as error:
                found.problems.append(f"{path}: {error}")


def _compare_index(
    sizes: Mapping[str, int], read: Read, shards: Mapping[str, Mapping[str, Tensor]], found: Report
) -> None:
    """Every tensor is in the file that the index names, and every file is named."""
    files = [path for path in sizes if path.endswith(_TENSORS)]
    if INDEX not in sizes:
        if len(files) != 1:
            what = f"{len(files)} safetensors files" if files else "no safetensors file"
            found.problems.append(f"{INDEX} is missing, and there are {what}")
        return
    index = _json(INDEX, sizes, read, found)
    if index is None:
        return
    named = index.get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(f, str) for f in named.values()):
        found.problems.append(f"{INDEX} names no tensors")
        return
    found.problems += [
        f"{p} is missing: {INDEX} names it" for p in sorted({*named.values()} - {*files})
    ]
    stray = sorted({*files} - {*named.values()})
    found.problems += [f"{p} is not named by {INDEX}: --without {p}" for p in stray]
    for path, there in shards.items():
        listed = {name for name, shard in named.items() if shard == path}
        found.problems += [
            f"{path}: {name} of {INDEX} is not in it" for name in sorted(listed - {*there})
        ]
        if listed:
            found.problems += [
                f"{path}: {INDEX} does not name its {n}" for n in sorted({*there} - listed)
            ]


def _compare_config(config: Mapping[str, Any], there: Mapping[str, Tensor], found: Report) -> None:
    if not isinstance(config.get("architectures"), list) or not config["architectures"]:
        found.problems.append(f"{CONFIG} names no architecture")
        return
    try:
        shape = model_config.parse(config)
    except ModelError as error:
        found.notes.append(f"sizes were not compared with {CONFIG}: {error}")
        return
    found.problems += [f"{CONFIG}: {line}" for line in _unlike(shape, there, config)]


def _unlike(
    shape: Dimensions, there: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Iterator[str]:
    stacks: dict[str, int] = {}
    for name in there:
        if layer := _LAYER.match(name):
            stacks[layer[1]] = max(stacks.get(layer[1], 0), int(layer[2]) + 1)
    if not {*stacks.values()} & {shape.layers, shape.layers + shape.draft_layers}:
        counts = ", ".join(map(str, sorted({*stacks.values()}))) or "none"
        yield f"{shape.layers} layers, and the tensors are of {counts}"
    for name, tensor in there.items():
        if _EMBEDDING.fullmatch(name) and len(tensor.shape) == 2:
            rows, width = tensor.shape
            if rows < shape.vocabulary or width != shape.hidden:
                yield f"{shape.vocabulary} x {shape.hidden}, and {name} is {rows} x {width}"
    have, counted = sum(t.bytes for t in there.values()), memory.weights(shape).total
    most = float("inf") if any(mode in config for mode in _OTHER_MODES) else _MOST * counted
    if not _LEAST * counted <= have <= most:
        yield f"weights of {counted / 1e9:.3g} GB, and the tensors have {have / 1e9:.3g} GB"
