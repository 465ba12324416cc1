"""What a client did wrong, with the status that says so."""


class Refusal(Exception):
    """A request that is answered with an error; nothing was changed by it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad(message: str) -> Refusal:
    """Return the refusal of a request that is wrong in itself."""
    return Refusal(400, message)
