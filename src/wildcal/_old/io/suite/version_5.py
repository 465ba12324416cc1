"""Suites of format version 5, which the shipped suites have, described as version 4.

Version 5 is documented in docs/suites.md.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "wildcal suite"
VERSION = 5


def as_version_4(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a version 5 manifest as those of version 4; raise a ValueError."""
    version = document.get("format_version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"format_version must be {VERSION}, got {version!r:.60}.")
    try:
        return {
            "network": document["model"],
            "data": document["data"] | {"input": document["input"]},
            "seed": document["seed"],
            "versions": document["versions"],
            "n_classes": len(document["class_names"]),
            "class_names": document["class_names"],
            "complete": document["complete"],
            "splits": [_split(split) for split in document["splits"]],
            "neighbors": None if document["knn"] is None else _neighbors(document["knn"]),
            "perturbation": None,
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a field is missing or of another type ({error}).") from error


def _split(split: Mapping[str, Any]) -> dict[str, Any]:
    name, arrays = split["name"], split["arrays"]
    distances = "knn_distances" in arrays
    return {
        "name": re.sub(r"(^|-)calibration$", r"\1tune", name),
        "role": {"calibration": "tune", "test": "test"}[split["role"]],
        "shift": {"source": "none", None: "semantic"}.get(split["domain"], "covariate"),
        "corruption": split["corruption"],
        "severity": split["severity"],
        "rows": split["n_samples"],
        "dtype": arrays["logits"],
        "logits": f"{name}/logits.npy",
        "labels": f"{name}/y.npy",
        "sha256": split["sha256"],
        "distances": f"{name}/knn_distances.npy" if distances else None,
        "distances_dtype": arrays.get("knn_distances"),
        "distances_sha256": split["sha256"] if distances else None,
    }


def _neighbors(knn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layers": [{"name": one["name"], "width": one["n_features"]} for one in knn["layers"]],
        "ranks": [knn["n_neighbors"]],
        "distance": knn["metric"],
        "search": knn["index"],
        "train": knn["train"],
        "train_rows": knn["n_train"],
        "significant_bits": knn["significant_bits"],
    }


def split_hash(arrays: Mapping[str, NDArray[Any]]) -> str:
    r"""Return the SHA-256 of the arrays of one split, in hexadecimal.

    For each array, in the order of the names, it covers the line ``NAME DTYPE SHAPE\n``, such as
    ``logits float16 (5000, 10)``, and the values in C order, little-endian.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
