"""Shared fixtures: the reference vectors, the seed, and the rule for optional packages."""

import importlib.util
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run: a failure is then a change in the code, not in the dice.
# HYPOTHESIS_PROFILE=search looks for new ones.
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
            if os.environ.get("WILDCAL_REQUIRE_EXTRAS"):
                pytest.fail(f"{package} must be installed in this run")
            pytest.skip(f"{package} is not installed")

    return check
