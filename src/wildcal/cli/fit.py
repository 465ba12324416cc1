"""`wildcal fit`: fit a calibrator on held-out samples."""

import ast
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import check_output, progress_bar, say
from wildcal.cli.show import fit_line
from wildcal.cli.types import COUNT, PATH
from wildcal.core.exceptions import InputError
from wildcal.io.samples import SampleSet
from wildcal.io.schema import Columns


@click.command(no_args_is_help=True)
@click.argument("source", type=PATH, nargs=-1)
@click.option("--method", default="auto", help="See `wildcal methods`.")
@common.pairs_option("--param", "NAME=VALUE", "Option of the method")
@click.option("--ood", type=PATH, help="Samples of none of the classes, for energy methods.")
@click.option("--source-domain", metavar="NAME", help="The in-distribution domain.")
@click.option("--suite", metavar="SUITE", help="Fit on the calibration splits of a suite.")
@click.option("--sample", type=COUNT, help="Samples to draw.  [200,000, or 1,000 for each class]")
@click.option("--labels-file", type=PATH, help="Labels, if they are in another file.")
@common.knn_option
@common.columns_options
@common.metadata_option
@common.output_option
def fit(
    source: tuple[Path, ...],
    method: str,
    param: dict[str, str],
    ood: Path | None,
    source_domain: str | None,
    suite: str | None,
    columns: Columns,
    metadata: dict[str, str],
    output: Path,
    **options: Any,
) -> None:
    """Fit a calibrator on held-out samples and save it.

    SOURCE is a file of scores and labels (.csv .jsonl .parquet .arrow .feather .npz .npy
    .safetensors .pt), several of them, a folder, a pattern or - for standard input. Samples must
    not be those that the classifier was trained on. Columns named logit_CLASS or proba_CLASS, and
    label or y, need no declaration. A declaration is saved with the calibrator.

    \b
    Example:
      wildcal fit val.csv -o calibrator.json
      wildcal fit 'val/*.parquet' --score-columns cat,dog,fish --label-column species -o auto.json
      wildcal fit val.csv --input proba --score-columns 'p_*' --label-column answer -o auto.json
      wildcal fit val.npz --method energy --ood ood.npz --param theta_bounds=paper -o energy.json
      wildcal fit --suite cifar10-resnet20 --method ts@source,shifted -o ts.json
    """
    from wildcal.core.registry import get_calibrator
    from wildcal.evaluation.methods import MethodSpec
    from wildcal.io.artifact import save

    if bool(source) == (suite is not None):
        raise click.UsageError("give SOURCE or --suite.")
    if suite is not None and (columns != Columns() or any(options.values())):
        raise click.UsageError("a suite has all its samples: give no other files and no columns.")
    check_output(output, suffixes=(".json",))
    spec = None if suite is None else MethodSpec.parse(method)
    calibrator = get_calibrator(method) if spec is None else spec.calibrator
    calibrator.set_params(**{name: parsed(value) for name, value in param.items()})
    if suite is None or spec is None:
        samples = _read_sample(source, columns, **options)
    else:
        samples = _read_suite(common.open_suite(suite), spec)
    if ood is not None:
        if not calibrator.uses_ood:
            raise InputError(f"ood must be left out: {method} does not use OOD samples.", "ood")
        samples = common.with_ood(samples, ood, columns)
    with progress_bar(f"Fitting {calibrator.title}"):
        calibrator.fit(
            samples.X,
            samples.y,
            input=samples.input,
            sample_weight=samples.sample_weight,
            domain=samples.domain,
            source_domain=source_domain,
            knn_distances=samples.knn_distances if calibrator.requires else None,
        )
    calibrator.class_names_ = samples.class_names
    done = "Replaced" if output.exists() else "Wrote"
    save(calibrator, output, metadata=metadata, columns=columns.to_dict())
    say(fit_line(calibrator))
    if calibrator.fit_info_.message:
        say(calibrator.fit_info_.message)
    say(f"{done} {output}.")


def parsed(text: str) -> Any:
    """Return an option of a method: a number, True, None, a list, or the text itself."""
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


def _read_sample(
    source: tuple[Path, ...], columns: Columns, *, sample: int | None, **files: Path | None
) -> SampleSet:
    """Return the samples of files, at most as many as a fit uses."""
    has_other_files = any(path is not None for path in files.values())
    if sample is not None and has_other_files:
        raise click.UsageError("--sample must be left out with --labels-file or --knn-file.")
    max_samples: Any = None if has_other_files else sample or "fit"
    samples = common.read_labeled(source, columns, max_samples=max_samples, **files)
    if samples.n_total is not None:
        say(
            f"Drew {len(samples):,} of {samples.n_total:,} samples uniformly; --sample N draws"
            " another number."
        )
    return samples


def _read_suite(suite: Any, spec: Any) -> SampleSet:
    """Return the calibration samples of a suite that a method uses."""
    from wildcal.evaluation.splits import read_calibration

    requires = bool(spec.calibrator.requires)
    arguments = read_calibration(suite).fit_arguments(spec.data, knn_distances=requires)
    return SampleSet(class_names=suite.class_names, **arguments)
