"""`wildcal show`: describe a saved calibrator."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import print_result
from wildcal.cli.types import PATH
from wildcal.core.calibrator import Calibrator


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@common.json_option
def show(calibrator: Path, as_json: bool) -> None:
    """Describe a saved CALIBRATOR or accuracy estimator. The checksum is verified first.

    \b
    Example:
      wildcal show energy.json
    """
    from wildcal.io.artifact import load

    fitted, info = load(calibrator, return_info=True)
    document = json.loads(calibrator.read_text("utf-8"))
    print_result(document, _lines(fitted, info), as_json)


def fit_line(fitted: Any) -> str:
    """Return one sentence about a fit."""
    info = fitted.fit_info_
    samples = f"{info.n_samples - info.n_ood:,} samples"
    if info.n_ood:
        samples += f" and {info.n_ood:,} OOD samples"
    if info.n_domains > 1:
        samples += f" of {info.n_domains} domains"
    line = f"Fitted {fitted.title} on {samples}, {fitted.n_classes_} classes"
    if info.loss_before == info.loss_before:  # not NaN
        line += f": {info.loss} {info.loss_before:.5g} -> {info.loss_after:.5g}"
    return line + ("." if info.converged else ", NOT CONVERGED.")


def _lines(fitted: Any, info: Any) -> Iterator[str]:
    """Yield a description of a calibrator and of its file."""
    title = f"{fitted.title[0].upper()}{fitted.title[1:]} ({fitted.name})"
    yield f"{title}, {fitted.reference}." if fitted.reference else f"{title}."
    if isinstance(fitted, Calibrator):
        yield fit_line(fitted)
        if described := fitted.describe():
            yield f"Fitted numbers: {described.rstrip('.')}."
        if fitted.fit_info_.message:
            yield fitted.fit_info_.message
        verb = "never changes" if fitted.preserves_accuracy else "may change"
        yield f"It {verb} the predicted class."
        yield from (f"Warning: {text}" for text in fitted.fit_info_.warnings)
    else:
        accuracy = f"Accuracy {100 * fitted.source_accuracy_:.1f} %"
        yield f"{accuracy} on {fitted.n_source_:,} source samples."
    yield f"Input: {fitted.input_}."
    if names := fitted.class_names_:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield f"Classes: {', '.join(names[:8])}{more}."
    for name, value in {**info.columns, **info.metadata}.items():
        yield f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
    yield f"Written by wildcal {info.version}."
