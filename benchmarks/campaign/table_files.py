"""Tables of every format, with bytes broken: rows that can be used, or a clear refusal."""

import functools
import gzip
import io
import json
from collections.abc import Callable

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError, Target
from benchmarks.campaign.calibrator_files import labeled
from benchmarks.campaign.mutants import broken_bytes

from wildcal.io import InputRows, read_rows

Rng = np.random.Generator


def _npz() -> bytes:
    logits, y, _ = labeled(30)
    file = io.BytesIO()
    np.savez_compressed(file, logits=logits.astype(np.float32), y=y)
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, labeled(30)[0])
    return file.getvalue()


def _csv(separator: str = ",") -> bytes:
    logits, y, _ = labeled(30)
    lines = [separator.join([*"abcd", "label"])]
    lines += [
        separator.join(f"{v:.4f}" for v in row) + f"{separator}{k}"
        for row, k in zip(logits, y, strict=True)
    ]
    return "\n".join(lines).encode()


def _jsonl() -> bytes:
    logits, y, _ = labeled(30)
    return "\n".join(
        json.dumps({"logits": r.tolist(), "label": int(k)}) for r, k in zip(logits, y, strict=True)
    ).encode()


def _safetensors() -> bytes:
    from safetensors.numpy import save

    logits, y, _ = labeled(30)
    return save({"logits": logits.astype(np.float32), "y": y})


def _torch() -> bytes:
    import torch

    logits, y, _ = labeled(30)
    file = io.BytesIO()
    torch.save({"logits": torch.tensor(logits), "y": torch.tensor(y)}, file)
    return file.getvalue()


def _table():
    import pyarrow as pa

    logits, y, _ = labeled(30)
    return pa.table({**{c: logits[:, k] for k, c in enumerate("abcd")}, "label": y})


def _parquet() -> bytes:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(_table(), file)
    return file.getvalue()


def _feather() -> bytes:
    import pyarrow.feather as pf

    file = io.BytesIO()
    pf.write_feather(_table(), file)
    return file.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "npz": _npz,
    "npy": _npy,
    "csv": _csv,
    "tsv": lambda: _csv("\t"),
    "csv.gz": lambda: gzip.compress(_csv()),
    "jsonl": _jsonl,
    "parquet": _parquet,
    "feather": _feather,
    "safetensors": _safetensors,
    "pt": _torch,
}


@functools.cache
def _whole(ending: str) -> bytes | None:
    try:
        return FORMATS[ending]()
    except ImportError:
        return None


def _broken(ending: str, rng: Rng) -> None:
    whole = _whole(ending)
    if whole is None:
        return
    rows = read_rows(
        io.BytesIO(broken_bytes(whole, rng)), file_format=ending, judge=bool(rng.integers(2))
    )
    _check(rows)


def _check(rows: InputRows) -> None:
    if rows.logits.ndim != 2 or np.isnan(rows.logits).any():
        raise FindingError("rows that no calibrator may see")


def _read(ending: str, data: bytes) -> None:
    for judge in (False, True):
        _check(read_rows(io.BytesIO(data), file_format=ending, judge=judge))


def _attack(ending: str) -> Attack:
    return Attack(
        f"files/table-{ending}",
        functools.partial(_broken, ending),
        (ValueError, ImportError),
        target=Target(FORMATS[ending], functools.partial(_read, ending)),
    )


ATTACKS = [_attack(ending) for ending in FORMATS]
