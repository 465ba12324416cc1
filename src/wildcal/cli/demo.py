"""`wildcal demo`: fit, apply, evaluate and compare on a seeded synthetic suite."""

from pathlib import Path

import click

from wildcal.cli.options import PATH
from wildcal.cli.output import say
from wildcal.io import write_result


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the files.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the synthetic suite.")
@click.pass_context
def demo(context: click.Context, output: Path, seed: int) -> None:
    """Fit, apply, evaluate and compare on synthetic logits: clean, shifted, out-of-distribution.

    \b
    Example:
      wildcal demo -o demo-output
    """
    from wildcal.cli.main import cli
    from wildcal.testing import make_suite

    output.mkdir(parents=True, exist_ok=True)
    suite = make_suite(seed)
    known = suite.tuning.y >= 0
    files = {
        "val": (suite.tuning.logits[known], suite.tuning.y[known]),
        "tuning_ood": (suite.tuning.logits[~known], suite.tuning.y[~known]),
        "clean": suite.clean,
        "shifted": suite.shifted,
        "test_ood": suite.ood,
    }
    for name, (logits, y) in files.items():
        write_result(output / f"{name}.npz", {"logits": logits, "y": y})
    say(f"Wrote synthetic logits of {logits.shape[1]} classes to {output}: {', '.join(files)}.")

    def at(name: str) -> str:
        return str(output / name)

    saved = ["--with", at("ts.json"), "--with", at("energy.json")]
    for words in (
        ["fit", "--method", "ts", "--logits", at("val.npz"), "-o", at("ts.json")],
        [
            "fit",
            "--method",
            "energy",
            "--logits",
            at("val.npz"),
            "--ood",
            at("tuning_ood.npz"),
            "-o",
            at("energy.json"),
        ],
        ["inspect", at("energy.json")],
        ["apply", at("energy.json"), at("shifted.npz"), "-o", at("proba.npz")],
        ["evaluate", at("clean.npz"), *saved],
        ["evaluate", at("shifted.npz"), "--ood", at("test_ood.npz"), *saved],
        ["compare", at("val.npz"), at("shifted.npz"), "--ood", at("tuning_ood.npz")],
    ):
        say(f"\n$ wildcal {' '.join(words)}")
        cli.main(words, standalone_mode=False, parent=context.parent)
