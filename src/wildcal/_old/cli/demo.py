"""`wildcal demo`: the paper's methods on the real networks whose logits come with the package."""

from pathlib import Path

import click
import numpy as np

from wildcal._old.cli.options import PATH, quiet_option
from wildcal._old.cli.output import say
from wildcal._old.core.arrays import Labels, Logits
from wildcal._old.io import write_result
from wildcal._old.io.files import replacing
from wildcal._old.io.suite import Suite

FIRST = "cifar10-resnet20"
"""The network that the walk through the commands uses."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the files.",
)
@click.option(
    "--bootstrap",
    default=200,
    show_default=True,
    type=click.IntRange(min=2),
    help="Replicates for the intervals of the averages.",
)
@quiet_option
@click.pass_context
def demo(context: click.Context, output: Path, bootstrap: int) -> None:
    """Fit every method of the paper on real networks' logits and test it under shift.

    First the CIFAR-10 networks that come with wildcal: 19 corruptions x 5 severities and images of
    other classes. Then, step by step, the commands for logits of your own.

    \b
    Example:
      wildcal demo -o demo-output
    """
    from wildcal._old.cli.suite_compare import compare_on_suites, print_suites
    from wildcal._old.evaluation.protocol import choose_methods
    from wildcal._old.report.page import make_page
    from wildcal._old.suites import load, names
    from wildcal.cli.main import cli

    load(FIRST)  # or what to install, before anything is made
    output.mkdir(parents=True, exist_ok=True)
    shipped = {name: load(name) for name in names("cifar10")}
    results = compare_on_suites(shipped, choose_methods(), n_boot=bootstrap, observe=True)
    print_suites(results)
    with replacing(output / "report.html") as temporary:
        page = make_page(results, FIRST, shipped[FIRST])
        temporary.write_text(page, "utf-8", newline="\n")
    with replacing(output / "results.csv") as temporary:
        temporary.write_text(results.to_csv(), "utf-8")
    say(f"Every number is in {output / 'results.csv'}; the report on {FIRST}, to be opened in a")
    say(f"browser, is {output / 'report.html'}.")

    files = demo_splits(shipped[FIRST])
    for name, (logits, y) in files.items():
        write_result(output / f"{name}.npz", {"logits": logits, "y": y})
    say(f"\nThe same with logits in files: wrote those of {FIRST} to {output}: {', '.join(files)}.")

    def at(name: str) -> str:
        return str(output / name)

    saved = ["--with", at("ts.json"), "--with", at("energy.json")]
    energy = ["--method", "energy", "--ood", at("svhn.npz"), "-o", at("energy.json")]
    for words in (
        ["fit", at("val.npz"), "--method", "ts", "-o", at("ts.json")],
        ["fit", at("val.npz"), *energy],
        ["show", at("energy.json")],
        ["predict", at("energy.json"), at("shifted.npz"), "--proba", "--overwrite", "-o"]
        + [at("proba.npz")],  # noqa: RUF005
        ["evaluate", at("clean.npz"), *saved],
        ["evaluate", at("shifted.npz"), "--ood", at("textures.npz"), *saved],
    ):
        say(f"\n$ wildcal {' '.join(words)}")
        cli.main(words, standalone_mode=False, parent=context.parent)


def demo_splits(suite: Suite) -> dict[str, tuple[Logits, Labels]]:
    """Return rows of a suite as a user has them: to tune, to test, shifted, of other classes.

    The shifted rows are the corruptions at severity 3, each of other images: rows are then
    independent, as intervals take them to be. Of SVHN, 100 rows tune, as in the paper.
    """
    shifted = suite.tests("covariate", severity=3)
    names = {"val": "validation", "svhn": "svhn-tune", "clean": "test", "textures": "textures-test"}
    found = {name: (suite.split(s).logits, suite.split(s).y) for name, s in names.items()}
    found["svhn"] = (found["svhn"][0][:100], found["svhn"][1][:100])
    found["shifted"] = (
        np.concatenate([s.logits[i :: len(shifted)] for i, s in enumerate(shifted)]),
        np.concatenate([s.y[i :: len(shifted)] for i, s in enumerate(shifted)]),
    )
    return found
