"""Optimal transport between rows and classes, exactly: one dual variable for each class.

The rows of a matrix of values are handed out to its columns so that every column gets a given
share, and the mean value of what each row got is as large as can be. A first guess of the dual
prices leaves few rows in the wrong place; these are moved along shortest paths from class to class
(the primal-dual method, whose graph has as many nodes as there are classes). Nothing of the size
rows x rows is built, and the gap between primal and dual is measured before an answer is given.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from wildcal._old.accuracy.prices import first_prices
from wildcal._old.core.arrays import FloatArray, Labels
from wildcal._old.core.errors import WildcalError

LARGEST_GAP: Final = 1e-9
"""Between the primal and the dual value, which prove each other."""
# Shares of a row: what is lost or left over below this is rounding.
_CRUMB: Final = 1e-10
# Two values nearer than this are a tie.
_TIE: Final = 1e-13
# Rows whose best two classes are this near are looked at first; the others seldom move.
_FIRST_MARGIN: Final = 0.05
_LAST_MARGIN: Final = 1e6


@dataclass(frozen=True, slots=True)
class Transport:
    """The best plan, and the prices that prove it."""

    value: float
    """Mean over rows of what each row got."""
    per_row: FloatArray
    """What each row got, shape (rows,); its mean is `value`."""
    price: FloatArray
    """Of each column: no row would rather have another column at these prices. 0 where unused."""
    gap: float
    """Dual minus primal value, at most `LARGEST_GAP`."""


def transport(value: FloatArray, share: FloatArray) -> Transport:
    """Return the plan that maximizes the mean value when column k must get a `share[k]` of rows.

    max Σ P_ik v_ik over P >= 0 with row sums 1/m and column sums s_k. Its dual has one price for
    each class, min over u of mean_i max_k (v_ik - u_k) + Σ s_k u_k.

    Parameters
    ----------
    value
        Finite numbers of shape (m, K), such as probabilities.
    share
        Not negative, shape (K,), with sum 1. m · share need not be whole: rows are then divided.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> round(transport(proba, np.array([0.5, 0.5])).value, 12)  # (0.9 + 0.2) / 2
    0.55
    """
    if not np.isfinite(value).all():
        raise ValueError("value must be finite, but holds NaN or an infinity.")
    if share.shape != value.shape[1:] or not (share >= 0).all() or abs(share.sum() - 1) > 1e-6:
        raise ValueError(
            f"share must be {value.shape[1]} numbers, not negative, with sum 1, got shape"
            f" {share.shape} and sum {share.sum():.6g}."
        )
    used = np.flatnonzero(share > 0)
    weight = share[used] / share[used].sum()
    rows, columns = len(value), len(used)
    if columns <= rows:
        plan = _solve(value[:, used], np.ones(rows), weight * rows)
        got, inner = plan.got, plan.price
    else:
        # The side with fewer nodes has the prices: here the rows ask for classes.
        plan = _solve(value[:, used].T, weight * rows, np.ones(rows))
        got = plan.by_column
        inner = (value[:, used] - plan.price[:, None]).max(axis=0)
    total = float(np.sum(got)) / rows
    price = np.zeros(value.shape[1])
    price[used] = inner
    dual = float((value[:, used] - inner).max(axis=1).mean() + weight @ inner)
    gap = dual - total
    if not abs(gap) <= LARGEST_GAP:  # NaN too
        raise WildcalError(
            f"optimal transport of {rows} rows to {columns} classes ended {gap:.2g} from its dual."
        )
    return Transport(total, got, price, gap)


@dataclass(frozen=True, slots=True)
class _Plan:
    got: FloatArray
    by_column: FloatArray
    price: FloatArray


def _solve(value: FloatArray, supply: FloatArray, demand: FloatArray) -> _Plan:
    """Return the best plan from n sources to J <= n sinks, as what each end of it got."""
    price = first_prices(value, supply, demand)
    margin = _FIRST_MARGIN
    while True:
        net = value - price
        best = net.argmax(axis=1)
        at_best = np.take_along_axis(net, best[:, None], axis=1)
        near = np.flatnonzero((net >= at_best - margin).sum(axis=1) > 1)
        far = np.ones(len(value), bool)
        far[near] = False
        load = _sums(best[far], supply[far], len(demand))
        flow, price = _balance(value[near].T, supply[near], demand - load, price)
        own = value[np.arange(len(value)), best] - price[best]
        slack = own - (value - price).max(axis=1)
        # A row that was left out may want to move after all: look at more of them.
        enough = bool((slack[far] >= -_TIE).all()) and _is_met(flow, demand - load)
        if enough or margin > _LAST_MARGIN:
            break
        margin *= 8
    got = np.zeros(len(value))
    got[far] = supply[far] * value[far, best[far]]
    got[near] = (flow.T * value[near]).sum(axis=1)
    by_column = _sums(best[far], got[far], len(demand))
    by_column += (flow * value[near].T).sum(axis=1)
    return _Plan(got, by_column, price)


def _sums(group: Labels, weight: FloatArray, n_groups: int) -> FloatArray:
    return np.bincount(group, weight, n_groups).astype(np.float64)  # whole numbers if empty


def _is_met(flow: FloatArray, demand: FloatArray) -> bool:
    return bool(np.abs(flow.sum(axis=1) - demand).max(initial=0.0) < 1e-6)


def _balance(
    value: FloatArray, supply: FloatArray, demand: FloatArray, price: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the flow of shape (J, n) that meets the demands as far as it can, and its prices.

    Each source starts where it gets most, which is optimal for the loads that result. Every round
    finds the cheapest way from each sink that has too much to all the others (a graph of J nodes:
    the cost from a to b is the least that a source at a loses at b), raises prices by these costs,
    and moves what can now be moved for free. So the flow stays optimal for its loads.
    """
    n_sinks, n = value.shape
    price = price.copy()
    flow = np.zeros((n_sinks, n))
    flow[(value - price[:, None]).argmax(axis=0), np.arange(n)] = supply
    cost = np.full((n_sinks, n_sinks), np.inf)
    changed = set(range(n_sinks))
    while True:
        surplus = flow.sum(axis=1) - demand
        if not (surplus > _CRUMB).any() or not (surplus < -_CRUMB).any():
            return flow, price
        for sink in changed:
            cost[sink] = _cost_of_leaving(value, flow, price, sink)
        distance, parent, order = _shortest_paths(cost, surplus > _CRUMB)
        if not len(order):
            return flow, price
        distance[~np.isfinite(distance)] = distance[order[-1]]
        cost += distance[:, None] - distance[None, :]
        np.maximum(cost, 0.0, out=cost)
        price -= distance
        changed = set()
        for sink in order:
            if surplus[sink] < -_CRUMB:
                changed |= _move_along(value, flow, price, surplus, parent, sink)
        if not changed:
            return flow, price


def _cost_of_leaving(
    value: FloatArray, flow: FloatArray, price: FloatArray, sink: int
) -> FloatArray:
    """Return the least that a source now at a sink would lose at each of the sinks."""
    here = np.flatnonzero(flow[sink])
    if not len(here):
        return np.full(len(value), np.inf)
    net = value[:, here] - price[:, None]
    return np.asarray(np.maximum((net[sink] - net).min(axis=1), 0.0))


def _shortest_paths(cost: FloatArray, start: np.ndarray) -> tuple[FloatArray, Labels, list[int]]:
    """Return distances from the nearest start, the node before each, and the nodes by distance."""
    distance = np.where(start, 0.0, np.inf)
    parent = np.full(len(cost), -1)
    todo, order = distance.copy(), []
    for _ in range(len(cost)):
        node = int(todo.argmin())
        if todo[node] == np.inf:
            break
        todo[node] = np.inf
        order.append(node)
        through = cost[node] + distance[node]
        (nearer,) = (through < distance).nonzero()  # `flatnonzero` takes twice as long for so few
        if len(nearer):
            distance[nearer] = todo[nearer] = through[nearer]
            parent[nearer] = node
    return distance, parent, order


def _move_along(
    value: FloatArray,
    flow: FloatArray,
    price: FloatArray,
    surplus: FloatArray,
    parent: Labels,
    end: int,
) -> set[int]:
    """Move what can be moved for free along the path to a sink; return the sinks it touched."""
    path, node = [end], end
    while parent[node] >= 0:
        node = int(parent[node])
        path.append(node)
    path.reverse()
    amount = min(surplus[node], -surplus[end])
    free = []
    for a, b in pairwise(path):
        if amount <= _CRUMB:
            return set()
        here = np.flatnonzero(flow[a])
        loss = (value[a, here] - price[a]) - (value[b, here] - price[b])
        here = here[loss <= _TIE]
        free.append(here)
        amount = min(amount, flow[a, here].sum())
    if amount <= _CRUMB:
        return set()
    for (a, b), here in zip(pairwise(path), free, strict=True):
        mass = flow[a, here]
        part = np.clip(amount - (np.cumsum(mass) - mass), 0.0, mass)
        whole = (part > 0) & (mass - part < _CRUMB)
        part[whole] = mass[whole]
        flow[a, here] -= part
        flow[b, here] += part
    surplus[node] -= amount
    surplus[end] += amount
    return set(path)
