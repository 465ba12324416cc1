"""A file whose hash is right and whose numbers cannot be."""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal import accuracy
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sealed import Kind


@pytest.mark.parametrize("field", ["error_slope_", "mix_slope_"])
def test_a_slope_beyond_all_reason_is_refused(field: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(200, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    path = tmp_path / "a.json"
    accuracy.save(accuracy.make_estimator("ac").fit(logits, y), path)
    document = json.loads(path.read_text())
    kept = {k: v for k, v in document.items() if k not in ("format", "format_version", "sha256")}
    kept["fitted"][field] = 1e308
    kind = Kind(document["format"], "", "", document["format_version"], largest=1 << 20)
    path.write_text(json.dumps(kind.seal(kept)))
    with pytest.raises(FileFormatError, match="at most"):
        accuracy.load(path)
