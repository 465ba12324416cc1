"""Predictions that others published, read from local copies of their repositories.

A folder holds the repositories as OWNER+NAME or NAME, either as a checkout or as a folder `repo`
that is a git directory without a checkout. One that is not there is left out with a message.
"""

import io
import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.leaderboard.predictions import Predictions, Source

from wildcal import logits_from_proba

MMLU_PRO: Final = "Linwei94/LLM-Calibration-Study"
QUESTIONS: Final = "bplaut/llm-calibration-and-correctness-prediction"
NETCAL: Final = "EFS-OpenSource/calibration-framework"
DENSENET: Final = "zongyuange/Workshop-repository"
EMPLOYMENT: Final = "NannyML/nannyml"
CALARENA: Final = "probkit/CalArena"

N_MMLU_PRO: Final = 12
MIN_QUESTIONS: Final = 1_000
SETS: Final = ("arc", "hellaswag", "mmlu", "truthfulqa", "winogrande")


class Repository:
    """The files of a local copy of a repository: a checkout or a git directory."""

    def __init__(self, path: Path) -> None:
        git = path / "repo"
        self.git = git if (git / "HEAD").exists() else None
        self.path = path

    def names(self, folder: str) -> list[str]:
        """Return the files below a folder."""
        if self.git is None:
            found = (self.path / folder).rglob("*")
            return sorted(str(p.relative_to(self.path)) for p in found if p.is_file())
        return self._git("ls-tree", "-r", "--name-only", "HEAD", folder).decode().splitlines()

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if self.git is None:
            return (self.path / name).read_bytes()
        return self._git("show", f"HEAD:{name}")

    def _git(self, *words: str) -> bytes:
        command = ["git", f"--git-dir={self.git}", *words]
        return subprocess.run(command, check=True, capture_output=True).stdout


@cache
def find(folder: Path | None, name: str) -> Repository | None:
    """Return the local copy of a repository, or None after a message."""
    owner, short = name.split("/")
    for path in (folder / f"{owner}+{short}", folder / short) if folder else ():
        if path.exists():
            return Repository(path)
    reason = f"no copy in {folder}" if folder else "--published is not given"
    print(f"left out: {name} ({reason})", file=sys.stderr)
    return None


def sources(folder: Path | None) -> Iterator[Source]:
    """Yield all published predictions that are in-distribution, or taken so."""
    if repository := find(folder, NETCAL):
        for name in repository.names("examples/classification/records"):
            data, model = Path(name).parent.name, Path(name).stem
            yield Source(data, model, "networks", lambda r=repository, n=name: _records(r, n))
    if repository := find(folder, DENSENET):
        yield Source("cifar10", "densenet40", "networks", lambda r=repository: densenet(r))
    if repository := find(folder, EMPLOYMENT):
        yield Source("employment", "MA 2015", "tables", lambda r=repository: _employment_2015(r))
    yield from language_sources(folder)


def language_sources(folder: Path | None) -> Iterator[Source]:
    """Yield confidence and correctness of language models, as two classes: wrong, right."""
    if repository := find(folder, QUESTIONS):
        for data in SETS:
            for model in _question_models(repository, data):
                yield Source(
                    data, model, "language models",
                    lambda r=repository, d=data, m=model: _questions(r, d, m),
                )  # fmt: skip
    yield from mmlu_pro_sources(folder)


def mmlu_pro_sources(folder: Path | None) -> Iterator[Source]:
    """Yield MMLU-Pro with its topics as domains, for models equally spaced in the alphabet."""
    if repository := find(folder, MMLU_PRO):
        names = [n for n in repository.names("results") if n.startswith("results/mmlu_pro_")]
        names = [n for n in names if _mmlu_pro(repository, n) is not None]
        for i in np.linspace(0, len(names) - 1, min(N_MMLU_PRO, len(names))).round().astype(int):
            model = names[i].removeprefix("results/mmlu_pro_").partition("_eval")[0]
            yield Source(
                "mmlu-pro", model, "language models",
                lambda r=repository, n=names[i]: _mmlu_pro(r, n),
            )  # fmt: skip


def employment_by_year(folder: Path | None) -> Iterator[Source]:
    """Yield the employment predictions with years as domains, 2015 first."""
    if repository := find(folder, EMPLOYMENT):
        yield Source("employment", "MA by year", "tables by time", lambda: _employment(repository))


def two_classes(confidence: Any, is_right: Any) -> tuple[Any, Any]:
    """Return logits of wrong and right, and labels 0 and 1."""
    p = np.clip(np.asarray(confidence, np.float64), 1e-6, 1 - 1e-6)
    return logits_from_proba(np.stack([1 - p, p], axis=1)), np.asarray(is_right, np.int64)


def _records(repository: Repository, name: str) -> Predictions:
    with np.load(io.BytesIO(repository.read(name)), allow_pickle=False) as arrays:
        X, y = arrays["predictions"], arrays["ground_truth"].ravel()
    return _shuffled(Predictions(X, y, "proba"))


class _ArraysOnly(pickle.Unpickler):
    """Read lists and arrays of numbers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        reconstruct = np.empty(0).__reduce__()[0]
        allowed: dict[tuple[str, str], Any] = {
            ("numpy.core.multiarray", "_reconstruct"): reconstruct,
            ("numpy._core.multiarray", "_reconstruct"): reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} must not be in a file of arrays.")
        return allowed[module, name]


def densenet(repository: Repository) -> Predictions:
    """Return the 5,000 calibration and then the 10,000 test samples, which are two domains."""
    found = _ArraysOnly(io.BytesIO(repository.read("sample_logits.p"))).load()
    arrays = [
        np.asarray(a) for part in found for a in (part if isinstance(part, tuple) else [part])
    ]
    logits, labels = arrays[0::2], [a.ravel() for a in arrays[1::2]]
    order = np.argsort([len(y) for y in labels])  # the calibration set is the smaller one
    X, y = np.concatenate([logits[i] for i in order]), np.concatenate([labels[i] for i in order])
    domain = np.repeat([0, 1], [len(labels[i]) for i in order])
    return Predictions(X, y, domain=domain, domain_names=("calibration", "test"))


@cache
def _employment(repository: Repository) -> Predictions:
    import pandas as pd

    folder = "nannyml/datasets/data/employment_MA_"
    frames = {
        part: pd.read_parquet(io.BytesIO(repository.read(f"{folder}{part}.pq")))
        for part in ("reference", "analysis", "analysis_target")
    }
    later = frames["analysis"].merge(frames["analysis_target"], on="id", suffixes=("_x", ""))
    rows = pd.concat([frames["reference"], later])
    years = sorted(rows["year"].unique())
    X, y = two_classes(rows["predicted_probability"], rows["employed"])
    domain = np.searchsorted(years, rows["year"])
    return Predictions(X, y, domain=domain, domain_names=[str(year) for year in years])


def _employment_2015(repository: Repository) -> Predictions:
    every = _employment(repository)
    first = np.flatnonzero(every.domain == 0)
    order = np.random.default_rng(0).permutation(first)[:12_000]
    return Predictions(every.X[order], every.y[order])


@cache
def _question_models(repository: Repository, data: str) -> list[str]:
    names = [Path(n).name for n in repository.names("main_results")]
    ends = "_no_abst_norm_logits_first_prompt.txt"
    models = [n.removeprefix(f"{data}_").partition("-q")[0] for n in names
              if n.startswith(f"{data}_") and n.endswith(ends)]  # fmt: skip
    return sorted(set(models))


def _questions(repository: Repository, data: str, model: str) -> Predictions:
    starts, ends = f"main_results/{data}_{model}-q", "_no_abst_norm_logits_first_prompt.txt"
    confidence, is_right = [], []
    for name in repository.names("main_results"):
        if name.startswith(starts) and name.endswith(ends):
            for line in repository.read(name).decode().splitlines()[1:]:
                words = line.split()
                if len(words) == 2 and words[0] in ("Correct", "Wrong"):
                    confidence.append(float(words[1]))
                    is_right.append(words[0] == "Correct")
    return _shuffled(Predictions(*two_classes(confidence, is_right)))


@cache
def _mmlu_pro(repository: Repository, name: str) -> Predictions | None:
    """Return the likelihood of the answer as confidence; answers that were not found are wrong."""
    import pandas as pd

    rows = pd.read_csv(io.BytesIO(repository.read(name)))
    if "logit_perplexity_confidence" not in rows:
        return None
    confidence = pd.to_numeric(rows["logit_perplexity_confidence"], errors="coerce")
    if confidence.notna().sum() < MIN_QUESTIONS:
        return None
    rows = rows[confidence.notna()]
    is_right = rows["extracted_answer"] == rows["correct_answer"]
    X, y = two_classes(confidence[confidence.notna()], is_right)
    topics = sorted(rows["category"].unique(), key=lambda t: (-(rows["category"] == t).sum(), t))
    domain = rows["category"].map({topic: i for i, topic in enumerate(topics)})
    found = Predictions(X, y, domain=domain.to_numpy(), domain_names=topics)
    return _shuffled(found)


def _shuffled(predictions: Predictions) -> Predictions:
    order = np.random.default_rng(0).permutation(len(predictions.y))
    domain = None if predictions.domain is None else np.asarray(predictions.domain)[order]
    return Predictions(
        np.asarray(predictions.X)[order],
        np.asarray(predictions.y)[order],
        predictions.input,
        domain,
        predictions.domain_names,
    )
