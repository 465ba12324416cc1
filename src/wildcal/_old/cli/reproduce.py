"""`wildcal reproduce`: the paper's tables and figures, made from suites."""

from pathlib import Path

import click

from wildcal._old.cli.opening import open_suite
from wildcal._old.cli.options import PATH, quiet_option, replicates
from wildcal._old.cli.output import progress_bar, say, warn
from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io.suite import Suite
from wildcal._old.report.artifacts import ARTIFACTS, choose_artifacts, plan
from wildcal._old.report.model import MissingInputs, TableArtifact
from wildcal._old.report.names import DATA_TITLES
from wildcal._old.report.paper import beside_paper
from wildcal._old.report.write import PICTURES, TEXTS, write_artifact
from wildcal._old.suites import HOW_TO_INSTALL, load, names


class _ManySuites(click.Command):
    """A command whose --suites takes all words up to the next option or artifact."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        taking = False
        for word in args:
            if taking and words[-1] != "--suites" and not word.startswith("-"):
                if word in ARTIFACTS or word == "all":
                    taking = False
                else:
                    words.append("--suites")
            elif word.startswith("-"):
                taking = word == "--suites"
            words.append(word)
        return super().parse_args(ctx, words)


def _forms(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    known = TEXTS if option.name == "texts" else PICTURES
    chosen = [word.strip() for word in value.split(",") if word.strip()]
    if chosen == ["none"]:
        return ()
    unknown = [word for word in chosen if word not in known]
    if unknown or not chosen:
        raise click.BadParameter(
            f"there is no form {', '.join(unknown) or '(none given)'};"
            f" choose from {', '.join(known)}, or none."
        )
    return tuple(dict.fromkeys(chosen))


@click.command(cls=_ManySuites, no_args_is_help=True)
@click.argument("artifacts", nargs=-1, metavar="[ARTIFACT]...")
@click.option(
    "--suites",
    multiple=True,
    type=PATH,
    metavar="PATH|NAME...",
    help="Folders, .npz files or names of suites that come with wildcal."
    "  [those of CIFAR and ImageNet]",
)
@click.option("-o", "--output", type=PATH, required=True, help="Folder for the files.")
@click.option(
    "--format",
    "texts",
    default="md,csv,latex",
    show_default=True,
    callback=_forms,
    help="Forms of a table; of figures, md writes the notes and csv the data.",
)
@click.option(
    "--figures",
    "pictures",
    default="png",
    show_default=True,
    callback=_forms,
    help="Forms of a figure: png, svg, pdf; or none.",
)
@click.option("--paper", is_flag=True, help="Put the paper's numbers beside ours.")
@replicates
@quiet_option
def reproduce(
    artifacts: tuple[str, ...],
    suites: tuple[Path, ...],
    output: Path,
    texts: tuple[str, ...],
    pictures: tuple[str, ...],
    paper: bool,
    bootstrap: int,
) -> None:
    """Make the paper's tables and figures from suites.

    ARTIFACT is table1 ... table9, fig1, fig3 ... fig9, or all, which is the default. Rows are the
    suites given. What cannot be made from them is named with what it needs; the rest is made.
    Methods are never tested on the out-of-distribution set they were tuned with.

    \b
    Example:
      wildcal reproduce table1 fig4 --suites cifar10-resnet20 my-suite -o paper --paper
      wildcal reproduce all -o paper --figures svg,pdf
    """
    try:
        chosen = choose_artifacts(artifacts)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if pictures and any(artifact.name.startswith("fig") for artifact in chosen):
        import wildcal._old.report.plots  # noqa: F401  # before the work, in case it is missing
    opened = _open(suites)
    if output.exists() and not output.is_dir():
        raise FileFormatError(f"cannot write to {output}: it is not a folder; give another -o.")
    output.mkdir(parents=True, exist_ok=True)
    with progress_bar("Reproducing") as bar:
        lines = _Lines()

        def show(doing: str, rows: int) -> None:
            bar.update(bar.task_ids[0], advance=rows, description=f"Reproducing {doing}")
            if bar.disable:
                lines.tell(doing, rows)

        study = plan(chosen, opened, n_boot=bootstrap, progress=show)
        lines.total = study.rows
        bar.update(bar.task_ids[0], total=study.rows)
        answers: list[MissingInputs] = []
        written: dict[str, list[Path]] = {}
        for artifact in chosen:
            made = artifact.make(study)
            if isinstance(made, MissingInputs):
                answers.append(made)
                continue
            if paper and isinstance(made, TableArtifact):
                made = beside_paper(made)
            written[artifact.name] = write_artifact(made, output, texts=texts, pictures=pictures)
    for name, files in written.items():
        click.echo(f"{name}: {', '.join(map(str, files)) or 'no form was asked for'}")
    for answer in answers:
        warn(f"not made: {answer}")
    for what, reason in study.left_out.items():
        warn(f"warning: {what} was left out: {reason}")
    for note in dict.fromkeys(note for answer in answers for note in answer.notes):
        warn(f"warning: {note}")
    if not written:
        raise FileFormatError("nothing could be made of these suites.")


class _Lines:
    """How far it is, in lines for a log that shows no bar: one for each long step of a suite."""

    def __init__(self) -> None:
        self.total = self._done = 0
        self._last = ""

    def tell(self, doing: str, rows: int) -> None:
        """Count rows that were measured, and say what is done once it takes long."""
        self._done += rows
        name, _, what = doing.rpartition(": ")
        step = f"{name}: {what.split()[0]}"
        if step != self._last and what.startswith(("fitting", "resampling")):
            self._last = step
            say(f"{step}; {self._done:,} of {self.total:,} rows measured.")


def _open(given: tuple[Path, ...]) -> dict[str, Suite]:
    """Return suites by name, by default those of the paper's data that come with wildcal.

    Bad ones are named.
    """
    paths = given or tuple(Path(name) for data in DATA_TITLES for name in names(data))
    if not paths:
        raise MissingExtraError(
            "no suites are installed; give your own, made by `wildcal extract`, or install those"
            f" that come with wildcal: {HOW_TO_INSTALL}"
        )
    opened: dict[str, Suite] = {}
    seen: set[Path] = set()
    for path in paths:
        try:
            suite = open_suite(path, partial=True) if given else load(str(path))
        except FileFormatError as error:
            warn(f"warning: left out: {error}")
            continue
        if suite.path.resolve() in seen:
            continue
        seen.add(suite.path.resolve())
        name = suite.path.resolve().name.removesuffix(".npz")
        opened[name if name not in opened else str(path)] = suite
    if not opened:
        raise FileFormatError(
            "none of the suites could be opened; `wildcal suite show` tells more."
        )
    return opened
