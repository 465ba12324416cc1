"""`wildcal suite`: everything that is done with suites, which come as its first words."""

from pathlib import Path

import click

from wildcal._old.cli.fit import fit_options, save_suite_fit
from wildcal._old.cli.groups import SuggestingGroup
from wildcal._old.cli.options import PATH
from wildcal._old.cli.report import suite_report
from wildcal._old.cli.suite import pack, show, write_rows
from wildcal._old.cli.suite_compare import compare_command
from wildcal._old.cli.suite_make import make
from wildcal._old.evaluation.protocol import Method


@click.group(cls=SuggestingGroup, no_args_is_help=True)
def suite() -> None:
    """Work with suites: one network's logits on many splits, clean and shifted.

    SUITE is a folder, a .npz, or the name of a suite that comes with wildcal.

    \b
    Example:
      wildcal suite show cifar10-resnet20
      wildcal suite make --tune val.npz --test test.npz --shifted fog=fog.npz -o mine
      wildcal suite compare mine --methods auto,ts
    """


@click.command("fit", no_args_is_help=True)
@click.argument("suite", type=PATH)
@fit_options
def suite_fit(
    suite: Path, method: Method, settings: tuple[str, ...], notes: dict[str, str], output: Path
) -> None:
    """Fit a calibrator on the tuning splits of SUITE and save it.

    These are its clean tuning rows, for methods that use them some out-of-distribution rows, for
    `window` the shifted tuning splits, and for `dac` the distances that `wildcal extract
    --features` stored. Methods such as ts-all and energy-p see more of the splits.

    \b
    Example:
      wildcal suite fit cifar10-resnet20 -o auto.json
      wildcal suite fit cifar10-resnet20 --method window -o window.json
      wildcal suite fit cifar10-resnet20 --method dac+ets -o dac.json
    """
    save_suite_fit(suite, method, settings, notes, output)


for command in (
    show, make, suite_fit, compare_command, suite_report, write_rows, pack
):  # fmt: skip
    suite.add_command(command)
