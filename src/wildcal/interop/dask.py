"""Dask: run tasks on a cluster, and predict or evaluate data frames."""
