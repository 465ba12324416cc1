"""Bearer tokens: who may ask, told by a secret that is compared in constant time."""

import hmac
from pathlib import Path
from typing import Final

from wildcal._old.core.errors import FileFormatError

_SHORTEST: Final = 16
_MADE_BY: Final = "`python -c 'import secrets; print(secrets.token_urlsafe())'` makes one."


class Tokens:
    """The tokens that are accepted; none means that everybody is."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [token.encode() for token in tokens]

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """Return the tokens in a file, one a line; empty lines and those with # are left out."""
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            raise FileFormatError(
                f"there is no token file {path}; write one with a token a line. {_MADE_BY}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise FileFormatError(f"cannot read the token file {path}: {why}.") from error
        lines = [line.strip() for line in text.splitlines()]
        tokens = [line for line in lines if line and not line.startswith("#")]
        short = [token for token in tokens if len(token) < _SHORTEST or not token.isascii()]
        if not tokens or short:
            raise FileFormatError(
                f"{path} must hold a token a line, each of at least {_SHORTEST} ASCII characters."
                f" {_MADE_BY}"
            )
        return cls(tokens)

    def accept(self, authorization: bytes) -> bool:
        """Return whether a header `Authorization: Bearer TOKEN` holds one of them.

        Examples
        --------
        >>> Tokens(["a-long-enough-secret"]).accept(b"Bearer a-long-enough-secret")
        True
        >>> Tokens(["a-long-enough-secret"]).accept(b"Bearer a-long-enough-secreT")
        False
        """
        if not self._tokens:
            return True
        scheme, _, given = authorization.partition(b" ")
        # All of them are looked at, so that time tells nothing of which one was close.
        matches = [hmac.compare_digest(given.strip(), token) for token in self._tokens]
        return any(matches) and scheme.lower() == b"bearer"
