"""`wildcal suite`: list, show, create and export suites."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import numpy as np

from wildcal import suites
from wildcal.cli import options as common
from wildcal.cli.output import check_output, print_result, progress_bar, say, text_table
from wildcal.cli.types import PATH
from wildcal.core.arrays import logsumexp, softmax
from wildcal.core.conversion import smallest_positive, to_logits
from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write
from wildcal.io.samples import read_samples
from wildcal.io.schema import Columns
from wildcal.io.suite import Suite
from wildcal.io.suite_manifest import DTYPES
from wildcal.io.suite_writer import SuiteWriter

_DESCRIBED: Final = ("input", "class_names", "model", "data", "knn", "seed", "versions", "complete")


@click.group()
def suite() -> None:
    """Work with suites: the logits of one model on many splits.

    \b
    Example:
      wildcal suite list
      wildcal suite show cifar10-resnet20
    """


@suite.command("list")
@common.json_option
def list_suites(as_json: bool) -> None:
    """List the installed suites.

    \b
    Example:
      wildcal suite list
    """
    rows = []
    for name in suites.list():
        each = suites.load(name)
        n_samples = sum(split.n_samples for split in each.splits)
        counts = {"classes": each.n_classes, "splits": len(each.splits), "samples": n_samples}
        rows.append({"name": name, **counts})
    cells = [(*list(row.values())[:-1], f"{row['samples']:,}") for row in rows]
    table = text_table(("suite", "classes", "splits", "samples"), cells)
    print_result(rows, [table] if rows else [], as_json)
    if not rows:
        say('No suite is installed. Install them with: pip install "wildcal[suites]"')


@suite.command(no_args_is_help=True)
@click.argument("name", metavar="SUITE")
@click.option("--splits", "each", is_flag=True, help="Do not pool corruptions by severity.")
@click.option("--verify", is_flag=True, help="Compare the checksums first.")
@common.json_option
def show(name: str, each: bool, verify: bool, as_json: bool) -> None:
    """Show the splits of a suite, with accuracy and confidence.

    \b
    Example:
      wildcal suite show cifar10-resnet20
      wildcal suite show cifar10-resnet20 --splits --json
    """
    opened = common.open_suite(name)
    n_samples = sum(split.n_samples for split in opened.splits)
    if verify:
        with progress_bar("Verifying", total=n_samples) as progress:
            opened.verify(progress.advance)
    groups: dict[str, list[Any]] = {}
    for split in opened.splits:
        pooled = split.severity is not None and not each
        key = f"{split.role}, severity {split.severity}" if pooled else split.name
        groups.setdefault(key, []).append(split)
    rows = []
    with progress_bar("Reading", total=len(groups)) as progress:
        for key, splits in groups.items():
            rows.append({"name": key, **_summary(splits)})
            progress.advance()
    about = {key: getattr(opened.manifest, key) for key in _DESCRIBED}
    lines = [
        f"{opened.path}: {opened.n_classes} classes, {len(opened.splits)} splits, {n_samples:,}"
        f" samples, {'complete' if opened.complete else 'UNFINISHED'}"
        f"{', every checksum matches' * verify}"
    ]
    described = ("model", "data", "knn", "versions")
    lines += [f"{key:9} {_one_line(about[key])}" for key in described if about[key]]
    cells = [
        (
            *(row[key] for key in ("name", "role", "domain", "splits")),
            f"{row['samples']:,}",
            "" if row["accuracy"] is None else f"{100 * row['accuracy']:.2f}",
            f"{100 * row['confidence']:.2f}",
            f"{row['energy']:.3f}",
        )
        for row in rows
    ]
    table = text_table(
        ("split", "role", "domain", "splits", "samples", "accuracy", "confidence", "energy"),
        cells,
        note="Uncalibrated: accuracy and mean confidence in %, mean free energy -logsumexp(z).",
        n_left=3,
    )
    document = {"path": str(opened.path), **about, "verified": verify, "summary": rows}
    print_result(document, [*lines, table], as_json)


@suite.command(no_args_is_help=True)
@click.option("--calibration", type=PATH, required=True, help="Samples to fit on.")
@click.option("--test", type=PATH, required=True, help="Test samples of the source domain.")
@common.test_files_options
@click.option("--model", metavar="NAME", help="Name of the model, for tables.")
@click.option("--data", metavar="NAME", help="Name of the data, for tables.")
@common.columns_options
@common.output_option
def create(calibration: Path, test: Path, output: Path, **options: Any) -> None:
    """Make a suite from files of samples. It is one file if -o ends in .npz, else a folder.

    Probabilities are kept as log-probabilities: methods that use the free energy are left out.

    \b
    Example:
      wildcal suite create --calibration val.csv --test test.csv --shifted night=night.csv -o cars
      wildcal suite create --calibration val.csv --test test.csv --shifted fog:3=fog.csv -o cars.npz
    """
    n = write_suite(output, calibration, test, **options)
    say(f"Wrote {n} splits to {output}.")


def write_suite(
    output: Path,
    calibration: Path,
    test: Path,
    *,
    shifted: Mapping[str, Path],
    ood: Mapping[str, Path],
    test_ood: Mapping[str, Path],
    columns: Columns,
    model: str | None = None,
    data: str | None = None,
) -> int:
    """Write a suite of files of samples, and return the number of its splits."""
    common.check_test_file(test, calibration)
    columns = replace(columns, group_column=None)
    common.refuse_weights(columns, "suites")
    if columns.domain_column is not None:
        raise InputError(
            "domain_column must be left out: each file of a suite is one domain.", "domain_column"
        )
    if output.exists() or not output.parent.is_dir():
        problem = "not exist" if output.exists() else "be in a folder that exists"
        raise InputError(f"output must {problem}, got {output}.", "output")
    # The file and the description of each split.
    plan: dict[str, tuple[Path, dict[str, Any]]] = {
        "calibration": (calibration, {"role": "calibration"}),
        "test": (test, {}),
    }
    for name, path in shifted.items():
        corruption, colon, severity = name.partition(":")
        domain = name.replace(":", "-")
        if domain in plan or (colon and severity not in ("1", "2", "3", "4", "5")):
            raise InputError(
                "shifted must have different names, with a severity of 1 to 5 after a colon, got"
                f" {name!r}.",
                "shifted",
            )
        change = {"corruption": corruption, "severity": int(severity)} if colon else {}
        plan[domain] = (path, {"domain": domain, **change})
    for role, files in (("calibration", ood), ("test", test_ood)):
        plan |= {f"{n}-{role}": (path, {"role": role, "domain": None}) for n, path in files.items()}
    named = (("model", model), ("data", data))
    about: dict[str, Any] = {key: {"name": name} for key, name in named if name}
    with TemporaryDirectory(dir=output.parent) as temporary:
        folder = Path(temporary) / output.stem
        samples = read_samples(calibration, columns=columns)
        if samples.input == "confidence":
            raise InputError(
                "input must be logits, probabilities or a score in a suite, got 'confidence'. Try"
                " `wildcal evaluate` or `wildcal compare`.",
                "input",
            )
        kind = columns.input or samples.input
        columns = replace(columns, input=kind, class_names=samples.class_names)
        eps = smallest_positive(samples.X) if samples.input == "proba" else 1e-30
        n_classes = 2 if samples.X.ndim == 1 else samples.X.shape[1]
        names = samples.class_names or tuple(map(str, range(n_classes)))
        kind = "log_proba" if samples.input in ("proba", "log_proba") else "logits"
        writer = SuiteWriter(folder, class_names=names, input=kind, **about)
        with progress_bar("Writing", total=len(plan)) as progress:
            for split, (path, description) in plan.items():
                labels = description.get("domain", "source") is not None
                samples = read_samples(path, columns=columns, labels=labels)
                y = samples.require_labels() if labels else None
                writer.add(split, to_logits(np, samples.X, samples.input, eps), y, **description)
                progress.advance()
        writer.finish()
        if output.suffix == ".npz":
            Suite.open(folder).pack(output)
        else:
            folder.rename(output)
    return len(plan)


@suite.command(no_args_is_help=True)
@click.argument("name", metavar="SUITE")
@click.argument("split", required=False)
@click.option("--dtype", type=click.Choice(DTYPES), help="Precision of logits in a whole suite.")
@click.option("--step", type=float, help="Round the logits of a whole suite to multiples.")
@common.overwrite_option
@common.output_option
def export(name: str, split: str | None, overwrite: bool, output: Path, **rounding: Any) -> None:
    """Write one SPLIT as a file of samples, or the suite as one .npz.

    \b
    Example:
      wildcal suite export cifar10-resnet20 fog-5 -o fog.npz
      wildcal suite export extracted/ -o suite.npz --dtype float16 --step 0.125
    """
    if split is not None and any(rounding.values()):
        raise click.UsageError("--dtype and --step are for whole suites.")
    check_output(output, overwrite=overwrite, suffixes=(".npz",))
    opened = common.open_suite(name)
    if split is None:
        if not opened.complete:
            raise InputError(f"suite must be complete, got {name}. Extract it again.", "suite")
        with progress_bar("Packing"):
            opened.pack(output, **rounding)
        size = output.stat().st_size / 1e3
        say(f"Wrote {len(opened.splits)} splits to {output} ({size:,.0f} kB).")
        return
    found = opened.split(split)
    found.verify()
    arrays = {opened.input: found.logits, "y": found.y, "knn_distances": found.knn_distances}
    if found.is_ood:
        del arrays["y"]
    arrays = {key: array for key, array in arrays.items() if array is not None}
    with atomic_write(output, "wb") as file:
        np.savez(file, **arrays)
    say(f"Wrote {', '.join(arrays)} of {found.n_samples:,} samples to {output}.")


def _summary(splits: list[Any]) -> dict[str, Any]:
    """Return the numbers of a group of splits; samples count alike."""
    columns = []
    for split in splits:
        z = split.logits.astype(np.float64)
        correct, top = z.argmax(axis=1) == split.y, softmax(np, z).max(axis=1)
        columns.append(np.stack([correct, top, -logsumexp(np, z)[:, 0]]))
    pooled = np.concatenate(columns, axis=1)
    accuracy, confidence, energy = pooled.mean(axis=1).tolist()
    first = splits[0]
    domain = "ood" if first.is_ood else first.domain if len(splits) == 1 else "shifted"
    return {
        "role": first.role,
        "domain": domain,
        "splits": len(splits),
        "samples": pooled.shape[1],
        "accuracy": None if first.is_ood else accuracy,
        "confidence": confidence,
        "energy": energy,
    }


def _one_line(values: Mapping[str, Any]) -> str:
    """Return the texts and numbers of a description; --json has the rest."""
    shown = {key: value for key, value in values.items() if isinstance(value, str | int | float)}
    return ", ".join(f"{key} {value}" for key, value in shown.items())
