"""A first guess of the prices of an optimal transport, near enough that few rows are misplaced."""

from typing import Final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.one_thread import one_thread

# Up to so many sinks a Newton step, whose matrix is J x J, is cheaper than an auction.
_FEW: Final = 32
# Widths of the soft maximum. Rows with two probabilities near zero decide by tiny differences.
_WIDE: Final = (0.1, 0.02)
_MIDDLE: Final = 0.01
_NARROW: Final = (2e-3, 5e-4, 1e-4, 2e-5, 4e-6)
_REACH: Final = 5.0
_NEWTON_STEPS: Final = 8
_CLOSE: Final = 3e-3
"""Share of all that may still be misplaced when a level ends."""
_RAISES: Final = (3e-3, 3e-4, 3e-5, 3e-6)
_HOMELESS: Final = 0.01
"""An auction ends when this share of all has no place: the last few rows would bid for long."""
_MOST_ROUNDS: Final = 2000
_CRUMB: Final = 1e-9
"""Of a row: less is rounding, and does not bid."""


def first_prices(value: FloatArray, supply: FloatArray, demand: FloatArray) -> FloatArray:
    """Return prices of shape (J,) at which sinks are asked for about as much as they demand."""
    if value.shape[1] <= _FEW:
        return _smooth(value, supply, demand)
    price = np.zeros(value.shape[1])
    for raise_by in _RAISES:
        price = _auction(value, supply, demand, price, raise_by)
    return price


@one_thread()
def _smooth(value: FloatArray, supply: FloatArray, demand: FloatArray) -> FloatArray:
    """Return the prices that minimize the dual with a soft maximum, ever less soft, by Newton."""
    price = np.zeros(value.shape[1])
    step = max(1, len(value) // (50 * value.shape[1]))  # the first levels need few rows
    some = supply[::step] * (supply.sum() / supply[::step].sum())
    for width in _WIDE:
        price = _newton(value[::step], some, demand, price, width)
    price = _newton(value, supply, demand, price, _MIDDLE)
    # From here on only rows between two classes matter.
    net = value - price
    near = (net >= net.max(axis=1, keepdims=True) - _REACH * _MIDDLE).sum(axis=1) > 1
    load = np.bincount(net[~near].argmax(axis=1), supply[~near], len(demand))
    for width in _NARROW:
        price = _newton(value[near], supply[near], demand - load, price, width)
    return price


def _newton(
    value: FloatArray, supply: FloatArray, demand: FloatArray, price: FloatArray, width: float
) -> FloatArray:
    if not len(value):
        return price
    total = supply.sum()
    loss, part = _soft_dual(value, supply, demand, price, width)
    for _ in range(_NEWTON_STEPS):
        load = supply @ part
        gradient = demand - load
        if np.abs(gradient).sum() < _CLOSE * total:
            break
        curvature = (np.diag(load) - part.T @ (part * supply[:, None])) / width
        curvature[np.diag_indices(len(price))] += 1e-6 * total / width  # a constant moves nothing
        step = np.linalg.solve(curvature, -gradient)
        scale = min(1.0, 20 * width / max(np.abs(step).max(), 1e-300))
        while True:
            tried = price + scale * step
            new_loss, new_part = _soft_dual(value, supply, demand, tried, width)
            if new_loss <= loss + 1e-4 * scale * (gradient @ step):
                break
            scale *= 0.4
            if scale < 1e-3:
                return price
        price, loss, part = tried, new_loss, new_part
    return price


def _soft_dual(
    value: FloatArray, supply: FloatArray, demand: FloatArray, price: FloatArray, width: float
) -> tuple[float, FloatArray]:
    net = (value - price) / width
    top = net.max(axis=1)
    net -= top[:, None]
    np.exp(net, out=net)
    total = net.sum(axis=1)
    net /= total[:, None]
    return float(width * (supply @ (np.log(total) + top)) + demand @ price), net


def _auction(
    value: FloatArray,
    supply: FloatArray,
    demand: FloatArray,
    price: FloatArray,
    raise_by: float,
) -> FloatArray:
    """Return the prices after sources without a place have bid for their best sink, in rounds.

    A bid is the price at which the second best would do as well, and a little more; a sink keeps
    the highest bids, and its price is the lowest it keeps (Bertsekas' auction, all bids at once).
    Of a source that is more than a sink still wants, the rest bids on: sinks that kept whole
    sources would together take more than there is, at prices that are far too low.
    """
    price, homeless = price.copy(), supply.copy()
    # What sinks keep: parts of sources, and what was bid for them.
    source, sink = np.zeros(0, np.int64), np.zeros(0, np.int64)
    mass, bid = np.zeros(0), np.zeros(0)
    for _ in range(_MOST_ROUNDS):
        if homeless.sum() <= _HOMELESS * supply.sum():
            break
        bidding = np.flatnonzero(homeless)
        net = value[bidding] - price
        best, each = net.argmax(axis=1), np.arange(len(bidding))
        first = net[each, best]
        net[each, best] = -np.inf
        offer = price[best] + (first - net.max(axis=1)) + raise_by
        asked = np.zeros(len(demand), bool)
        asked[best] = True
        again = asked[sink]
        parts = [
            np.concatenate([old[again], new])
            for old, new in (
                (source, bidding), (sink, best), (mass, homeless[bidding]), (bid, offer)
            )
        ]  # fmt: skip
        order = np.lexsort((-parts[3], parts[1]))
        whose, at, size, bids = (part[order] for part in parts)
        start = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
        before = np.cumsum(size) - size
        before -= np.repeat(before[start], np.diff(np.r_[start, len(at)]))
        kept = np.clip(demand[at] - before, 0.0, size)
        last = (kept > 0) & (before + size >= demand[at] * (1 - 1e-12))
        price[at[last]] = bids[last]
        homeless = np.bincount(whose, size - kept, len(supply)).astype(np.float64)
        homeless[homeless < _CRUMB] = 0.0
        stays, some = ~again, kept > _CRUMB
        source, sink, mass, bid = (
            np.concatenate([old[stays], new[some]])
            for old, new in ((source, whose), (sink, at), (mass, kept), (bid, bids))
        )
    return price
