"""Wrong files made from right ones: of JSON by its structure, of anything by its bytes."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wildcal.io.sealed import Kind

Json = Any
Place = tuple[str | int, ...]

_NUMBERS = (
    "0 -1 1 2 1e-320 1e-30 -1e-30 1e30 1e154 1e308 -1e308 0.5 1.9 NaN Infinity -Infinity"
    f" {10**400} {2**63} {-(2**63) - 1}"
)
ABSURD: list[Json] = [json.loads(number) for number in _NUMBERS.split()]
ABSURD += [True, None, "", "1", "nan", "ts", "\x00", "é" * 300, [], [[]], {}]
ABSURD += [{"dtype": "float64", "values": []}, {"dtype": "object", "values": [1]}]


def places(document: Json, here: Place = ()) -> Iterator[Place]:
    """Yield the way to every value of a document, containers too."""
    yield here
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in items:
        yield from places(value, (*here, key))


def mutant(document: Json, rng: np.random.Generator) -> Json:
    """Return a copy of which one to three values are absurd, gone, doubled or strangely scaled."""
    changed = copy.deepcopy(document)
    for _ in range(int(rng.integers(1, 4))):
        ways = list(places(changed))[1:]
        numbers = [way for way in ways if isinstance(_at(changed, way), int | float)]
        if numbers and rng.integers(3):  # a file of which a number is wrong goes furthest
            ways = numbers
        if not ways:
            break
        *way, last = ways[int(rng.integers(len(ways)))]
        _change(_at(changed, tuple(way)), last, rng)
    return changed


def _at(document: Json, way: Place) -> Any:
    for key in way:
        document = document[key]
    return document


def sealed_mutant(document: Json, rng: np.random.Generator) -> str:
    """Return a mutant whose hash is right, so that only its promises can refuse it."""
    return resealed(document, lambda content: mutant(content, rng))


def resealed(document: Json, change: Callable[[Json], Json] = lambda content: content) -> str:
    """Return a document with its content changed, and its hash made anew."""
    content = {k: v for k, v in document.items() if k not in ("format", "format_version", "sha256")}
    kind = Kind(document["format"], "", "", document["format_version"], largest=1 << 30)
    return json.dumps(kind.seal(change(content)))


def broken_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with bytes flipped, cut out, doubled or overwritten."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        length = int(min(len(changed) - at, 2 ** rng.integers(0, 10)))
        match int(rng.integers(5)):
            case 0:
                changed[at] ^= 1 << int(rng.integers(8))
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                changed[at : at + length] = rng.bytes(length)
            case 4:
                changed[at : at + length] = bytes([int(rng.choice([0, 127, 128, 255]))]) * length
    return bytes(changed)


def _change(owner: Any, key: Any, rng: np.random.Generator) -> None:
    value = owner[key]
    number = isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
    match int(rng.integers(6)):
        case 0 if not number:
            del owner[key]
        case 1 if isinstance(value, list) and value:
            owner[key] = value + value[: int(rng.integers(1, len(value) + 1))]
        case 2 | 3 if number:
            owner[key] = value * float(rng.choice([-1, 1e-9, 1e9, 1e200, -1e200]))
        case _:
            owner[key] = copy.deepcopy(ABSURD[int(rng.integers(len(ABSURD)))])
