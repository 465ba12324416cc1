"""Shared fixtures: the reference vectors, the seed, and the rule for optional packages."""

import importlib.util
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from _pytest.doctest import DoctestModule

from wildcal.core.exceptions import MissingExtraError

ROOT = Path(__file__).parents[1]
# In a run that requires them a missing optional package is a failure, elsewhere a skipped test.
REQUIRED = bool(os.environ.get("WILDCAL_REQUIRE_EXTRAS"))

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# As root a browser has no sandbox; and it must not look for updates while it is watched.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class OptionalModule(pytest.Module):
    """A file of tests that is skipped where it imports a package that is not installed."""

    def collect(self):
        try:
            return list(super().collect())
        except self.CollectError as error:
            if REQUIRED or not _imports_what_is_missing(error.__cause__):
                raise
            missing = error.__cause__.name
            reason = f"{missing} is not installed" if missing else str(error.__cause__)
            pytest.skip(reason, allow_module_level=True)


def _imports_what_is_missing(error):
    """Whether a test, and not the package itself, imported something that is not there."""
    if isinstance(error, MissingExtraError) or not isinstance(error, ModuleNotFoundError):
        return isinstance(error, MissingExtraError)
    frames, at = [], error.__traceback__
    while at:
        frames.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    return not any(frame.startswith(str(ROOT / "src")) for frame in frames)


def pytest_configure(config):
    """Leave out the examples of files that cannot be imported here, as their tests are."""
    if not REQUIRED:
        config.option.doctest_ignore_import_errors = True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for no examples in files of tests: an import that fails there would hide their tests."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


def pytest_pycollect_makemodule(module_path, parent):
    """Read every file of tests as one that may be skipped."""
    return OptionalModule.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that met the message which names a missing extra."""
    try:
        return (yield)
    except MissingExtraError as error:
        if REQUIRED:
            raise
        pytest.skip(str(error))


# The same examples in every run: a failure is then a change in the code, not in the dice.
# HYPOTHESIS_PROFILE=search looks for new ones.
if REQUIRED or importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("steady", derandomize=True, deadline=None)
    settings.register_profile("search", max_examples=1000, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A run in the background ignores Ctrl-C, and so would the commands whose answer to it is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Scripts that record other programs' results; they need those programs, the tests do not.
collect_ignore_glob = ["reference/recorded/make_*.py"]

VECTORS = Path(__file__).parent / "reference" / "vectors"


@pytest.fixture(scope="session")
def vectors():
    """Read a file of vectors/ by its stem; its README says where the numbers come from."""

    def read(stem):
        return json.loads((VECTORS / f"{stem}.json").read_text())

    return read


@pytest.fixture(scope="session")
def reference_data(vectors):
    """The tuning, test and OOD rows of the vectors, by data set name."""

    def split(name):
        data = vectors("data")["datasets"][name]
        arrays = {key: np.array(data[key]) for key in data if key not in ("K", "seeds")}
        ood = arrays["ood_logits"]
        arrays["with_ood"] = (
            np.vstack([arrays["val_logits"], ood]),
            np.r_[arrays["val_labels"], np.full(len(ood), -1)],
        )
        arrays["without_ood"] = (arrays["val_logits"], arrays["val_labels"])
        return arrays

    return split


@pytest.fixture
def needs():
    """Skip a test whose optional package is missing, or fail it where all must be there."""

    def check(package):
        if importlib.util.find_spec(package) is None:
            if REQUIRED:
                pytest.fail(f"{package} must be installed in this run")
            pytest.skip(f"{package} is not installed")

    return check


@pytest.fixture(scope="module")
def browser():
    """Chromium, by Playwright; skipped where there is none, unless this run requires it.

    One for each file: while it is open, Playwright keeps an event loop running in this thread, and
    `asyncio.run` in another file would be refused.
    """
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("WILDCAL_REQUIRE_BROWSER"):
            pytest.fail("Chromium must be installed in this run")
        pytest.skip("there is no Chromium on this machine")
    if not os.environ.get("WILDCAL_REQUIRE_EXTRAS"):
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()
