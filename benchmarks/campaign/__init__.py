"""Attacks on wildcal that anyone can rerun: ``python -m benchmarks.campaign --minutes 2``."""
