"""Where a server keeps the window of a stream: names of files are hashes, whatever it is called."""

import hashlib
from pathlib import Path


def stream_files(folder: Path, model: str, name: str) -> tuple[Path, Path]:
    """Return the file that says what a stream is, and the one of its window."""
    key = hashlib.sha256(f"{model}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return folder / f"{key}.stream.json", folder / f"{key}.window.json"
