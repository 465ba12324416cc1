"""Fits and evaluations on a cluster of Dask: the same functions, the same bits, other machines.

A walk over rows is cut into groups of blocks by the numbers of the rows alone. The groups are done
where the shards can be read, and only their sums come back, combined in the order of the rows.
"""

from wildcal._old.engine.cluster import Cluster, active, connect, use

__all__ = ["Cluster", "active", "connect", "use"]
