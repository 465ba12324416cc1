"""Pack a suite into one .npz whose bytes depend on its content alone."""

import zipfile
from dataclasses import replace
from pathlib import Path

from wildcal.core.arrays import Logits
from wildcal.core.checks import check_choice
from wildcal.io.files import replacing
from wildcal.io.suite.arrays import content_hash, npy_header, stored_labels, stored_logits
from wildcal.io.suite.files import LARGEST_MEMBER, SuiteFiles
from wildcal.io.suite.manifest import DTYPES, MANIFEST, Manifest
from wildcal.io.suite.read import read_content

# The oldest time a zip archive can hold: a packed suite must not depend on the clock.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack_suite(
    files: SuiteFiles, manifest: Manifest, path: str | Path, dtype: str | None = None
) -> None:
    """Write the arrays and the manifest to one .npz, where wanted with logits of another dtype."""
    if dtype is not None:
        check_choice("dtype", dtype, DTYPES)
    if Path(path).suffix != ".npz":
        raise ValueError(f"cannot pack into {path}: its name must end in .npz.")
    entries = []
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for entry in manifest.splits:
            z, y = read_content(files, entry, manifest.n_classes)
            if dtype is not None and dtype != entry.dtype:
                z = _converted(z, entry.name, dtype)
            labels = stored_labels(y, len(z), manifest.n_classes, entry.shift)
            for name, array in ((entry.logits, z), (entry.labels, labels)):
                content = npy_header(array) + array.tobytes()
                if len(content) > LARGEST_MEMBER:
                    raise ValueError(f"{name} is too large to be packed; keep the folder.")
                _write_member(archive, name, content)
            entries.append(replace(entry, dtype=z.dtype.name, sha256=content_hash(z, labels)))
        # Last, because the hashes in it are known only now.
        _write_member(archive, MANIFEST, replace(manifest, splits=tuple(entries)).to_bytes())


def _converted(logits: Logits, name: str, dtype: str) -> Logits:
    try:
        return stored_logits(logits, logits.shape[1], dtype)
    except ValueError as error:
        raise ValueError(f"split {name}: {error}") from error


def _write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.create_system = 3  # the zip module would write which system it runs on
    info.external_attr = 0o644 << 16
    archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=9)
