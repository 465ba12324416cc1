"""`wildcal inspect`: what a saved calibrator has learned, in words."""

import json
from pathlib import Path

import click

from wildcal._old.bridge import Bridged
from wildcal._old.cli.fit import summary_line
from wildcal._old.cli.options import PATH, json_option, quiet_option
from wildcal._old.cli.output import print_json, print_line
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.io import About, load_with_about
from wildcal._old.io.artifact import describe_file


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@json_option
@quiet_option
def inspect(calibrator: Path, as_json: bool) -> None:
    """Say what a saved CALIBRATOR does. The file's hash is verified first.

    \b
    Example:
      wildcal inspect energy.json
    """
    fitted, about = load_with_about(calibrator)
    if as_json:
        is_new = isinstance(fitted, Bridged)
        print_json(json.loads(calibrator.read_text()) if is_new else describe_file(fitted, about))
        return
    for line in [*in_words(fitted), *about_in_words(about)]:
        print_line(line)


def about_in_words(about: About) -> list[str]:
    """Return what a file says besides its calibrator, line by line."""
    lines = []
    if about.classes is not None:
        names = about.classes.names
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        lines.append(f"Classes: {', '.join(names[:8])}{more}.")
    if about.kind != "logits":
        floor = "" if about.floor is None else f", zeros read as {about.floor:.3g}"
        lines.append(f"Rows: {about.kind}{floor}.")
    return lines + [f"{name}: {words}" for name, words in about.notes.items()]


def in_words(fitted: Calibrator) -> list[str]:
    """Return the description of a fitted calibrator, line by line."""
    options = ", ".join(
        f"{name} = {value}" for name, value in fitted.get_params(deep=False).items()
    )
    keeps = (
        "never changes the predicted class"
        if fitted.preserves_accuracy
        else ("may change which class is most probable")
    )
    lines = [
        f"{fitted.title[0].upper()}{fitted.title[1:]} ({fitted.name})"
        + (f", {fitted.reference}." if fitted.reference else "."),
        summary_line(fitted),
        *([f"Options: {options}."] if options else []),
        *fitted.describe(),
        f"It {keeps}.",
    ]
    return lines + [f"Note: {note}" for note in fitted.fit_.notes]
