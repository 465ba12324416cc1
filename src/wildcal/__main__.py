"""The `wildcal` command, and `python -m wildcal`: Ctrl-C is answered from the first import on."""

import os
import signal


def main() -> None:
    """Run the command line and exit."""
    # Read when NumPy comes: commands never use more threads of linear algebra than one (see
    # `core.one_thread`), and not starting the others saves a hundredth of a second, or more of it
    # where there are many cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    watched = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if watched:
        signal.signal(signal.SIGINT, _leave)
    from wildcal.cli.main import main as run

    if watched:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(number: int, _: object) -> None:
    """End at once: an exception inside an import could come out as any other one."""
    os.write(2, b"interrupted; no unfinished file was left.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
