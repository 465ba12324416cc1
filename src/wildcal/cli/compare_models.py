"""`wildcal compare-models`: compare models on the same samples."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal.cli import options as common
from wildcal.cli.output import print_result
from wildcal.cli.types import NAMES, PATH
from wildcal.core.exceptions import InputError
from wildcal.io.schema import Columns


@click.command(name="compare-models", no_args_is_help=True)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--margin", type=click.FloatRange(min=0), help="Largest equivalent difference.")
@click.option("--metrics", type=NAMES, help="Metrics.  [all]")
@common.columns_options
@common.evaluation_options
@common.result_options
def compare_models(
    source: tuple[Path, ...],
    columns: Columns,
    as_json: bool,
    csv_output: Path | None,
    **options: Any,
) -> None:
    """Compare models by their predictions of the same samples, in the same order.

    The first file is the reference. Differences have paired intervals. With --margin 0.01,
    differences of at most 0.01 (one point of accuracy) are equivalent.

    \b
    Example:
      wildcal compare-models old.parquet new.parquet
      wildcal compare-models old.csv new.csv --margin 0.01 --metrics accuracy,nll,ece
    """
    from wildcal.evaluation import compare_models as run
    from wildcal.evaluation.chunked import probabilities

    if len(source) == 1:
        raise click.UsageError("give at least two files.")
    models: dict[str, Any] = {}
    first: Any = None
    for path in source:
        samples = common.read_labeled(path, columns)
        columns = replace(columns, class_names=samples.class_names)
        proba = probabilities(samples)
        input = samples.input if proba.ndim == 1 else None
        first = samples if first is None else first
        for what, name in (("ids", "id"), ("weights", "sample_weight")):
            own, other = getattr(samples, name), getattr(first, name)
            if own is not None and other is not None and not np.array_equal(own, other):
                raise InputError(f"source must have the same {what} in the same order, got {path}.")
        name = path.stem if path.stem not in models else str(path)
        models[name] = (samples.y, proba)
    result = run(models, input=input, sample_weight=samples.sample_weight, **options)
    print_result(result.to_dict(), [result.table()], as_json, csv_output, result.records())
