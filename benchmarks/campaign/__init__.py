"""Attacks on wildcal that anyone can rerun: ``python -m benchmarks.campaign --minutes 2``."""

import os

# As the command does, and workers of Dask: more threads of linear algebra add in another order.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
