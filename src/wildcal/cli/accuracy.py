"""`wildcal accuracy`: estimate the accuracy on samples without labels."""

import operator
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal.cli import options as common
from wildcal.cli.output import check_output, print_result, progress_bar, say, text_table
from wildcal.cli.types import COUNT, NAMES, PATH
from wildcal.io.artifact import save
from wildcal.io.samples import iter_samples, read_samples
from wildcal.io.schema import Columns


@click.group()
def accuracy() -> None:
    """Estimate the accuracy on samples without labels, with an interval.

    \b
    Example:
      wildcal accuracy fit val.csv -o estimator.json
      wildcal accuracy estimate estimator.json today.csv
    """


@accuracy.command(no_args_is_help=True)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--estimator", default="atc-ne", help="Name of an estimator.")
@click.option("--source-domain", metavar="NAME", help="The in-distribution domain.")
@common.columns_options
@common.metadata_option
@common.output_option
def fit(
    source: tuple[Path, ...],
    estimator: str,
    source_domain: str | None,
    columns: Columns,
    metadata: dict[str, str],
    output: Path,
) -> None:
    """Fit an accuracy estimator on held-out samples with labels.

    SOURCE is as for `wildcal fit`. With --domain-column, intervals have the error that is measured
    on the domains.

    \b
    Example:
      wildcal accuracy fit val.csv -o estimator.json
      wildcal accuracy fit sites.parquet --domain-column site --source-domain A -o estimator.json
    """
    from wildcal.accuracy import get_estimator

    check_output(output, suffixes=(".json",))
    common.refuse_weights(columns, "estimators")
    fitted = get_estimator(estimator)
    samples = common.read_labeled(source, columns)
    with progress_bar(f"Fitting {fitted.title}"):
        options: dict[str, Any] = {"input": samples.input, "source_domain": source_domain}
        fitted.fit(samples.X, samples.y, domain=samples.domain, **options)
    fitted.class_names_ = samples.class_names
    save(fitted, output, metadata=metadata, columns=columns.to_dict())
    say(f"Accuracy {100 * fitted.source_accuracy_:.1f} % on {fitted.n_source_:,} source samples.")
    if len(fitted.domain_errors_):
        error = np.abs(fitted.domain_errors_).mean()
        say(f"Mean error on {len(fitted.domain_errors_)} other domains: {100 * error:.1f} points.")
    say(f"Wrote {output}.")


@common.hide_label_options
@accuracy.command(no_args_is_help=True)
@click.argument("estimator", type=PATH)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--second-logits", type=PATH, help="The same samples of a second network, for gde.")
@click.option("--window", type=COUNT, help="Samples of one estimate.  [all]")
@common.columns_options
@common.result_options
def estimate(
    estimator: Path,
    source: tuple[Path, ...],
    second_logits: Path | None,
    window: int | None,
    columns: Columns,
    as_json: bool,
    csv_output: Path | None,
) -> None:
    """Estimate the accuracy on SOURCE with a saved ESTIMATOR. Labels are not read.

    \b
    Example:
      wildcal accuracy estimate estimator.json today.csv
      wildcal accuracy estimate estimator.json 'month/*.parquet' --window 1000 --csv days.csv
    """
    fitted, columns = common.load_with_columns(estimator, columns, "estimator")
    second = None
    if second_logits is not None:
        second = read_samples(second_logits, columns=columns, labels=False).X
    rows, start = [], 0
    with common.standard_input(source) as path, progress_bar("Estimating"):
        for found in _estimates(fitted, path, columns, window, second):
            last = start + found.n_samples - 1
            rows.append({"first": start, "last": last, **found.to_dict()})
            start = last + 1
    table = text_table(
        ("samples", "accuracy", "low", "high"),
        [(f"{row['first']}-{row['last']}", *_percent(row, "value", "low", "high")) for row in rows],
        note=f"In per cent, with 95 % intervals. {fitted.title.capitalize()}.",
    )
    line = f"Estimated accuracy: {found} ({found.n_samples:,} samples, {fitted.name})"
    print_result(rows, [table if len(rows) > 1 else line], as_json, csv_output, rows)


@accuracy.command(no_args_is_help=True)
@click.argument("suite")
@click.option("--estimators", type=NAMES, help="Which estimators.  [all]")
@click.option("--second-suite", help="A suite of a second network, for gde.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    type=click.Choice(["whole", "512", "128", "32", "dirichlet-1", "dirichlet-0.3"]),
    default=("whole", "128"),
    help="Samples of a window, or 256 with other class frequencies; repeatable.",
)
@common.result_options
def benchmark(
    suite: str, second_suite: str | None, as_json: bool, csv_output: Path | None, **options: Any
) -> None:
    """Compare estimators on SUITE. Each kind of shift is left out of the fit and estimated.

    It needs shifted calibration splits, which `wildcal extract` adds to a suite.

    \b
    Example:
      wildcal accuracy benchmark cifar10-resnet20 --estimators ac,atc-ne,cot
    """
    from wildcal.accuracy import benchmark_estimators, summarize

    second = None if second_suite is None else common.open_suite(second_suite)
    with progress_bar("Estimating") as bar:
        windows = benchmark_estimators(
            common.open_suite(suite),
            second_suite=second,
            progress=lambda _: bar.advance(),
            **options,
        )
    rows = summarize(windows)
    keys = ("mae", "worst", "bias", "coverage", "width")
    table = text_table(
        ("windows", "estimator", "mean error", "worst", "bias", "coverage", "width"),
        [(row["setting"], row["estimator"], *_percent(row, *keys)) for row in rows],
        n_left=2,
        note="In per cent, for windows whose kind of shift was not in the fit.",
    )
    print_result(rows, [table], as_json, csv_output, [window.to_dict() for window in windows])


def _percent(row: Mapping[str, Any], *keys: str) -> list[str]:
    """Return numbers of a row in per cent."""
    return [f"{100 * row[key]:.1f}" for key in keys]


def _estimates(
    fitted: Any, source: Any, columns: Columns, window: int | None, second: Any
) -> Iterator[Any]:
    """Yield the estimate of each window; one of all samples is made of sums where it can be."""
    samples = iter_samples(source, columns, labels=False, n_classes=fitted.n_classes_)
    parts = (part.X for part in samples)
    if window is None and second is None and fitted.summable:
        yield fitted.estimate(reduce(operator.add, map(fitted.statistics, parts)))
        return
    x = np.concatenate(list(parts))
    size = window or len(x)
    for start in range(0, len(x), size):
        other = None if second is None else second[start : start + size]
        yield fitted.estimate(x[start : start + size], second_logits=other)
