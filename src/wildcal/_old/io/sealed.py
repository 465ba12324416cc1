"""JSON documents that say what they are, in which version, and carry a SHA-256 of all that."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from wildcal._old.core.errors import FileFormatError
from wildcal.version import __version__

Json: TypeAlias = Any
Document: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document."""

    name: str
    """What stands in its field `format`."""
    noun: str
    """What a message calls it."""
    remedy: str
    """How to make a new one, as the end of a sentence that starts with "Make one with"."""
    version: int
    largest: int
    """Bytes; a file beyond is not read."""

    def seal(self, content: Document) -> Document:
        """Return the document with its format, version and hash."""
        document = {"format": self.name, "format_version": self.version, **content}
        return {**document, "sha256": digest(document)}

    def read(self, path: Path) -> Document:
        """Return the document in a file, without its hash; any damage gives a FileFormatError."""
        return self.opened(self._parse(path), path)

    def opened(self, document: Document, where: Path | str) -> Document:
        """Return a document without its hash, which must be right; `where` is for messages."""
        document = dict(document)
        if document.get("format") != self.name:
            raise self._not_one(where)
        version = document.get("format_version")
        if type(version) is not int or version != self.version:
            raise FileFormatError(
                f"{where} has format version {version!r:.40}; this wildcal {__version__} reads"
                f" version {self.version}. Try a newer wildcal, or make a new one with"
                f" {self.remedy}."
            )
        if document.pop("sha256", None) != digest(document):
            raise FileFormatError(
                f"{where} was changed after it was saved (its SHA-256 does not match)."
                f" Restore the file, or make a new one with {self.remedy}."
            )
        return document

    def _parse(self, path: Path) -> Document:
        try:
            if path.stat().st_size > self.largest:
                raise self._not_one(path)
            document = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise FileFormatError(f"{path} does not exist.") from None
        except IsADirectoryError:
            raise FileFormatError(f"{path} is a folder, not a {self.noun}.") from None
        except FileFormatError:
            raise
        except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or a number too long
            raise FileFormatError(
                f"{path} is not a whole JSON file ({type(error).__name__}); was it cut short?"
            ) from error
        if not isinstance(document, dict):
            raise self._not_one(path)
        return document

    def _not_one(self, where: Path | str) -> FileFormatError:
        return FileFormatError(f"{where} is not a {self.name}. Make one with {self.remedy}.")


def digest(document: Document) -> str:
    """Return the SHA-256 of a document, however it is laid out."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
