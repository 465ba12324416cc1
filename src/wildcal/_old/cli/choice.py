"""Methods as commands take them: a list of names with commas."""

import click

from wildcal._old.cli.words import as_flags
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.evaluation.methods import parse, split_list
from wildcal._old.evaluation.protocol import Method, choose_methods


def choose_on_files(methods: str) -> dict[str, Calibrator]:
    """Return unfitted calibrators that need no suite, for a list of names, 'paper' or 'all'."""
    chosen = {method.name: method for method in choose(methods)}
    on_suites = [
        name
        for name, method in chosen.items()
        if str(method) != str(Method(name, method.calibrator))
        or "distances" in method.calibrator.reads
    ]
    if on_suites:
        raise click.UsageError(
            f"{', '.join(on_suites)}: compared on suites only, with `wildcal suite compare`."
        )
    return {name: method.calibrator for name, method in chosen.items()}


def choose(methods: str) -> list[Method]:
    """Return the methods of a list, 'paper' and 'all' spelled out, identity always among them."""
    names = list(split_list(methods))
    if not names:
        raise click.UsageError("no method was given; `wildcal methods` lists them.")
    for name in names:
        try:
            parse(name)
        except ValueError as error:
            raise click.UsageError(as_flags(str(error))) from error
    return choose_methods(list(dict.fromkeys(["identity", *names])))
