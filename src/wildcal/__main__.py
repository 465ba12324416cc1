"""The `wildcal` command and `python -m wildcal`."""

import os
import signal


def main() -> None:
    """Run the command line and exit."""
    # NumPy reads it when it is imported. Commands use one thread of linear algebra; starting the
    # others takes 10 ms, or more with many cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Python raises KeyboardInterrupt, which an import may turn into another exception.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, _leave)
    from wildcal.cli.main import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(number: int, _: object) -> None:
    """End the process at once."""
    os.write(2, b"interrupted; no unfinished file was left.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
