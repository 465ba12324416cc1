"""A suite: one network's logits on many splits, clean and shifted, to tune on and to test on.

On disk it is a folder with `manifest.json` and two `.npy` files for each split, or the same packed
into one `.npz`. The shipped suites are `.npz` files of format version 5. Opening compares every
claim of the manifest with the heads of the files, which is cheap; `verify` reads everything and
compares the content hashes.
"""

from wildcal._old.io.suite.suite import Suite, SuiteSplit
from wildcal._old.io.suite.writer import SuiteWriter

__all__ = ["Suite", "SuiteSplit", "SuiteWriter"]
