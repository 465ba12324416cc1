"""A block of rows in cache, and all that is computed of it: the arithmetic on logits.

Work is done in place, on a few scratch buffers. A block holds its rows shifted by their maximum, so
no exponential can overflow: ``shifted = z - max(z) <= 0``. Element-wise work is done in the
precision of the input (float32 for half types); per-row results leave as float64. What is looked up
in tables is the exception: the `steady_*` methods work in float64 and round, because a step of a
table shows the last bit.

Reductions are ordered by row alone, so a row's result has the same bits whatever stands beside it.
"""

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.checks import reject_logit_row

# With few classes a row is too short for vector instructions, so such blocks lie classes-first
# and every operation runs along the rows. Measured crossover: between 48 and 100 classes.
CLASSES_FIRST_BELOW = 64
# A few rows cost calls, not entries: they stay as they are. Either way the bits are the same.
FEW_ENTRIES = 1 << 10
# A class ruled out by -inf counts as this far below the largest logit where -inf itself would give
# NaN: 0 * -1e4 is zero, 0 * -inf is not.
_MINUS_INFINITY = -1e4
# Rounds a float64 to 40 significant bits: t = SPLITTER * p, then t - (t - p) (Veltkamp, 1968).
SPLITTER = 2.0**13 + 1
# Entries rounded together: what is made of them stays in the nearest cache.
_PIECE = 1 << 14
# The buffers in float64, beside those in the precision of the input: the exponentials at beta = 1,
# which several methods ask for, those at another beta, one for the caller, and the steady softmax.
_WIDE_AT_ONE, _WIDE, _WIDE_SPARE, _WIDE_STEADY = -1, -2, -3, -4

Values = NDArray[np.floating[Any]]

# Products of longer rows would be split among the threads of linear algebra, which adds in another
# order then: OpenBLAS does so from 10,000 entries on.
_UNSPLIT = 1 << 13


def row_dots(a: Values, b: Values) -> Values:
    """Return the dot product of each row, whose bits depend on the row alone."""
    if a.shape[-1] <= _UNSPLIT:
        return np.asarray(np.vecdot(a, b))
    pieces = [slice(i, i + _UNSPLIT) for i in range(0, a.shape[-1], _UNSPLIT)]
    return np.asarray(sum(np.vecdot(a[..., piece], b[..., piece]) for piece in pieces))


class Scratch:
    """The buffers one thread reuses for all its blocks, made when they are first asked for."""

    def __init__(self, rows: int, n_classes: int, dtype: np.dtype[Any]) -> None:
        self.in_order = n_classes < CLASSES_FIRST_BELOW
        self.classes_first = self.in_order and rows * n_classes > FEW_ENTRIES
        self._shape = (n_classes, rows) if self.classes_first else (rows, n_classes)
        self._rows, self._dtype = rows, dtype
        self._buffers: dict[int, Values] = {}
        self._ones: dict[np.dtype[Any], Values] = {}

    def buffer(self, which: int, n: int) -> Values:
        """Return one buffer, cut to n rows of logits."""
        return self._cut(which, n, self._dtype)

    def wide(self, which: int, n: int) -> FloatArray:
        """Return one float64 buffer, cut to n rows of logits."""
        return self._cut(which, n, np.dtype(np.float64))

    def ones(self, dtype: np.dtype[Any]) -> Values:
        """Return K ones."""
        if dtype not in self._ones:
            self._ones[dtype] = np.ones(self._shape[0 if self.classes_first else 1], dtype)
        return self._ones[dtype]

    def _cut(self, which: int, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        full = self._buffers.get(which)
        if full is None:
            full = self._buffers[which] = np.empty(self._shape, dtype)
        if n == self._rows:
            return full
        if self.classes_first:
            return full.reshape(-1)[: len(full) * n].reshape(-1, n)
        return full[:n]


class Block:
    """Consecutive rows of logits in cache, shifted so that each row's largest entry is zero.

    The methods may be called in any order; only those named `*_terms` use the block up. Where one
    takes a beta for each row, an array of one number stands for the same beta in all of them.
    """

    def __init__(self, source: Source, start: int, stop: int, scratch: Scratch) -> None:
        self.rows = slice(start, stop)
        self.n = stop - start
        self.original = source[start:stop]
        self._scratch = scratch
        self._unshifted: Values | None = None
        self._pred: NDArray[np.intp] | None = None
        self._unit_sums: FloatArray | None = None
        self._wide_sums: FloatArray | None = None
        self._load(start)

    # A map of entries works on them as they lie here, classes first or rows first, and asks for:

    @property
    def classes_first(self) -> bool:
        """Whether entries have the shape (K, n), not (n, K)."""
        return self._scratch.classes_first

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.original.shape[1])

    def spare(self) -> FloatArray:
        """Return float64 entries to write to."""
        return self._scratch.wide(_WIDE_SPARE, self.n)

    def write(self, entries: Values, out: Values) -> None:
        """Write entries into a matrix of shape (n, K)."""
        source = entries.T if self._scratch.classes_first else entries
        np.copyto(out, source, casting="same_kind")

    def _load(self, start: int) -> None:
        rows, buffer = self.original, self._scratch.buffer(0, self.n)
        if self._scratch.classes_first:
            np.copyto(buffer, rows.T)
            self.top = buffer.max(axis=0)
            rows = buffer
        else:
            if rows.dtype != buffer.dtype or not rows.flags.c_contiguous:
                np.copyto(buffer, rows)
                rows = buffer
            # argmax is vectorized along a row where max is not, and NaN wins both.
            self._pred = rows.argmax(axis=1)
            self.top = self.entry(rows, self._pred)
        if not (isfinite(self.top[0]) and (self.n == 1 or np.isfinite(self.top).all())):
            bad = int(np.flatnonzero(~np.isfinite(self.top))[0])
            reject_logit_row(start + bad, self.original[bad])
        self._unshifted = rows

    def uniform(self) -> FloatArray:
        """Return 1 / K for each row, K the classes that are not ruled out by -inf."""
        if not np.isneginf(self.original.min()):
            return np.full(self.n, 1 / self.n_classes)
        possible = self.n_classes - np.isneginf(self.original).sum(axis=1)
        return np.asarray(1 / possible)

    def add_uniform(self, share: float, out: Values) -> None:
        """Add a share of the uniform distribution to probabilities of shape (n, K).

        A class ruled out by -inf gets none of it: no mixture may bring it back.
        """
        if np.isneginf(self.original.min()):
            mine = np.where(np.isneginf(self.original), 0.0, share * self.uniform()[:, None])
            out += mine.astype(out.dtype)
        else:
            out += share / out.shape[1]

    @property
    def _shifted(self) -> Values:
        """Return z - max z; made when first read, because the steady methods do without."""
        shifted = self._scratch.buffer(0, self.n)
        if self._unshifted is not None:
            np.subtract(self._unshifted, self.per_row(self.top), out=shifted)
            self._unshifted = None
        return shifted

    def per_row(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a number for each row in a form that entries can be divided by."""
        if values.size == 1:  # no dimension: one loop over all entries, not one for each row
            return values.reshape(())
        return values if self._scratch.classes_first else values[:, None]

    def sum(self, values: Values) -> FloatArray:
        """Return the sum of each row, whose bits depend on the row alone."""
        if not self._scratch.in_order:
            return np.asarray(row_dots(values, self._scratch.ones(values.dtype)), np.float64)
        if not self._scratch.classes_first:  # in the same order as below
            return np.add.accumulate(values, 1)[:, -1].astype(np.float64)
        if self.n == 1:  # here NumPy's reduction would add pairwise, not class by class
            return np.asarray(np.add.accumulate(values, 0)[-1], np.float64)
        return np.asarray(np.add.reduce(values, 0), np.float64)

    def _dot(self, a: Values, b: Values, spare: Values) -> FloatArray:
        if not self._scratch.in_order:
            return np.asarray(row_dots(a, b), np.float64)
        return self.sum(np.multiply(a, b, out=spare))

    def entry(self, values: Values, labels: NDArray[np.integer[Any]]) -> Values:
        """Return one entry of each row."""
        if self.n == 1:
            return np.asarray(values.reshape(-1).take(labels))
        rows = np.arange(self.n)
        # In a flat array `take` is twice as quick as an index for each dimension.
        if self._scratch.classes_first:
            return np.asarray(values.reshape(-1).take(labels * self.n + rows))
        return np.asarray(values[rows, labels])

    def _at_label(self, values: Values, labels: Labels) -> FloatArray:
        return np.asarray(self.entry(values, labels), np.float64)

    def _exponentials(self, beta: FloatArray, out: Values) -> Values:
        """Return exp(beta * shifted) in `out`."""
        scale = self.per_row(beta.astype(out.dtype))
        if self._unshifted is None:
            np.multiply(self._shifted, scale, out=out)
        else:  # nobody asked for the shifted rows yet: one buffer less to keep in cache
            np.subtract(self._unshifted, self.per_row(self.top), out=out)
            out *= scale
        return np.exp(out, out=out)

    def _terms(self, beta: FloatArray) -> tuple[Values, Values, FloatArray, FloatArray]:
        """Return t = beta * shifted, e = exp(t), Σ e and Σ e t; t takes the place of shifted."""
        spare = self._scratch.buffer(2, self.n)
        t = self._shifted
        t *= self.per_row(beta.astype(t.dtype))
        e = np.exp(t, out=self._scratch.buffer(1, self.n))
        mean = self._dot(e, t, spare)
        if np.isnan(mean).any():  # 0 * -inf somewhere: rare, so it is not looked for beforehand
            lowest = self.per_row((_MINUS_INFINITY * beta).astype(t.dtype))
            np.copyto(t, lowest, where=np.isneginf(t))
            mean = self._dot(e, t, spare)
        return t, e, self.sum(e), mean

    def log_loss(self, beta: FloatArray, labels: Labels) -> FloatArray:
        """Return -log p_y of each row, where y is -1 the mean of -log p over all classes."""
        u_y = self._aim(self._shifted, labels, np.full(self.n, _MINUS_INFINITY))
        sums = self.sum(self._exponentials(beta, self._scratch.buffer(1, self.n)))
        u_y = np.where(np.isneginf(u_y), _MINUS_INFINITY, u_y)
        return np.asarray(np.log(sums) - u_y * beta)

    def _aim(self, values: Values, labels: Labels, lowest: FloatArray) -> FloatArray:
        """Return each row's value at its label; where that is -1 the mean of max(value, lowest)."""
        aim = self._at_label(values, np.maximum(labels, 0))
        strange = np.flatnonzero(labels < 0)
        if len(strange):
            rows = values[:, strange] if self._scratch.classes_first else values[strange]
            finite = np.maximum(rows, self.per_row(lowest[strange].astype(rows.dtype)))
            aim[strange] = self.sum(finite) / self.original.shape[1]
        return aim

    def squared_loss(self, beta: FloatArray, labels: Labels) -> FloatArray:
        """Return ||p - onehot(y)||² of each row, where y is -1 ||p||²."""
        e = self._exponentials(beta, self._scratch.buffer(1, self.n))
        sums, squares = self.sum(e), self._dot(e, e, self._scratch.buffer(2, self.n))
        known = (labels >= 0).astype(np.float64)
        p_y = known * self._at_label(e, np.maximum(labels, 0)) / sums
        return np.asarray(squares / (sums * sums) - 2 * p_y + known)

    def pred(self) -> Labels:
        """Return the predicted class of each row: the first of its largest logits."""
        if self._pred is None:  # kept, because several methods ask
            # The first of K classes that is as large as the largest has the largest rank K - k.
            # Along the rows this takes a fifth of the time of argmax over a few classes.
            entries, top = self._unshifted, self.top
            if entries is None:
                entries, top = self._shifted, np.zeros_like(top)
            ranks = np.arange(self.n_classes, 0, -1, dtype=np.uint8)[:, None]
            first = np.multiply(entries == top, ranks, dtype=np.uint8).max(axis=0)
            self._pred = self.n_classes - first.astype(np.intp)
        return np.asarray(self._pred, np.int64)

    def energy(self) -> FloatArray:
        """Return the free energy F = -logsumexp(z) of each row."""
        return np.asarray(-(self.top.astype(np.float64) + np.log(self._sums_at_one())))

    def _sums_at_one(self) -> FloatArray:
        """Return Σ exp(shifted) of each row, which several methods ask for."""
        if self._unit_sums is None:
            e = np.exp(self._shifted, out=self._scratch.buffer(1, self.n))
            self._unit_sums = self.sum(e)
        return self._unit_sums

    def entropy(self) -> FloatArray:
        """Return the entropy of softmax(z) of each row, in nats.

        The largest class is left out of the sum of exponentials and comes back through log1p, so
        that the tiny entropy of a confident row keeps its digits in float32 too.
        """
        e = np.exp(self._shifted, out=self._scratch.buffer(1, self.n))
        rows, pred = np.arange(self.n), self.pred()
        e[(pred, rows) if self._scratch.classes_first else (rows, pred)] = 0
        rest = self.sum(e)
        # 0 * -inf would be NaN.
        w = np.maximum(self._shifted, _MINUS_INFINITY, out=self._scratch.buffer(2, self.n))
        return np.log1p(rest) - self.sum(np.multiply(w, e, out=w)) / (1 + rest)

    def largest(self, k: int) -> FloatArray:
        """Return the k largest logits of each row in float64, in descending order, shape (n, k)."""
        top = np.partition(self.original, self.original.shape[1] - k, axis=1)[:, -k:]
        return -np.sort(-top.astype(np.float64), axis=1)

    def margin(self) -> FloatArray:
        """Return the largest logit of each row minus the second; inf where that is -inf."""
        w = self._scratch.buffer(2, self.n)
        np.copyto(w, self._shifted)
        rows, pred = np.arange(self.n), self.pred()
        w[(pred, rows) if self._scratch.classes_first else (rows, pred)] = -np.inf
        second = w.max(axis=0) if self._scratch.classes_first else w[rows, w.argmax(axis=1)]
        return np.asarray(-second, np.float64)

    def confidence(self, beta: FloatArray) -> FloatArray:
        """Return the largest softmax probability of each row at inverse temperature beta."""
        if beta[0] == 1 and (beta == 1).all():
            return 1.0 / self._sums_at_one()
        return 1.0 / self.sum(self._exponentials(beta, self._scratch.buffer(1, self.n)))

    def softmax(self, beta: FloatArray, out: Values) -> None:
        """Write softmax(beta * z) into `out`, of shape (n, K)."""
        if self._scratch.classes_first:
            e = self._exponentials(beta, self._scratch.buffer(1, self.n))
            e *= (1.0 / self.sum(e)).astype(e.dtype)
            np.copyto(out, e.T)
        else:  # straight into the result: one buffer less to keep in cache
            self._exponentials(beta, out)
            out *= self.per_row((1.0 / self.sum(out)).astype(out.dtype))

    def steady_softmax(self, beta: float, out: FloatArray) -> None:
        """Write softmax(beta * z) into `out`, in bits that torch and ONNX Runtime arrive at too.

        Two programs never share the last bit of an exponential or of a sum. Here it is far behind
        the last one kept: float64 is rounded to 40 bits, and two programs still round apart at one
        entry in 1e4. Logits of any precision give float64: in float32 all confidences above
        1 - 3e-8 would be the same number, and a network that is far too sure has no others.
        """
        if self.classes_first:
            np.copyto(out, self.steady_entries(beta).T)
        else:  # straight into the result: one buffer less to keep in cache
            self._steady_into(beta, out)

    def steady_entries(self, beta: float) -> FloatArray:
        """Return the same in the block's own layout; the next block overwrites it."""
        return self._steady_into(beta, self._scratch.wide(_WIDE_STEADY, self.n))

    def _steady_into(self, beta: float, p: FloatArray) -> FloatArray:
        e, sums = self._wide_exponentials(beta)
        np.multiply(e, self.per_row(1.0 / sums), out=p)
        step = max(1, _PIECE // p.shape[1])
        for start in range(0, len(p), step):
            piece = p[start : start + step]
            piece[:] = steady(piece)
        return p

    def steady_at_label(self, beta: float, labels: Labels) -> FloatArray:
        """Return the steady softmax of one class of each row, the same bits as above."""
        e, sums = self._wide_exponentials(beta)
        return steady(self._at_label(e, labels) * (1.0 / sums))

    def steady_others(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the softmax mass of all classes but the predicted one, as steady as above.

        It has as many digits where it is tiny, so it is kept in float32 if the logits are that:
        two programs then round apart at one row in 1e8.
        Also their exponentials, (n, K) with zeros at the predicted class, which the next call
        overwrites, and the sums of those.
        """
        e, _ = self._wide_exponentials(1.0)
        self._wide_sums = None  # what follows uses the exponentials up
        rows, pred = np.arange(self.n), self.pred()
        e[(pred, rows) if self._scratch.classes_first else (rows, pred)] = 0
        sums = self.sum(e)
        mass = self._steady(sums / (sums + 1.0))  # 1 is exp(0) of the predicted class
        return mass, e.T if self._scratch.classes_first else e, sums

    def _steady(self, values: FloatArray) -> FloatArray:
        if self.top.dtype == np.float64:
            return steady(values)
        return values.astype(np.float32).astype(np.float64)

    def _wide_exponentials(self, beta: float) -> tuple[FloatArray, FloatArray]:
        """Return exp(beta * (z - max z)) and its sums, all of it in float64."""
        e = self._scratch.wide(_WIDE_AT_ONE if beta == 1 else _WIDE, self.n)
        if beta == 1 and self._wide_sums is not None:
            return e, self._wide_sums
        rows = self._unshifted
        if rows is None:
            rows = self.original.T if self._scratch.classes_first else self.original
        np.copyto(e, rows)  # half the time of a subtraction that widens
        e -= self.per_row(self.top.astype(np.float64))
        if beta != 1:
            e *= beta
        sums = self.sum(np.exp(e, out=e))
        if beta == 1:
            self._wide_sums = sums
        return e, sums

    def log_loss_terms(
        self, beta: FloatArray, labels: Labels
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return -log p_y, and beta, beta² times its derivatives by beta, per row.

        With t = beta z these are E[t] - t_y and Var[t]. A row with label -1 aims at the uniform
        distribution: the mean of t stands for t_y.
        """
        t, e, z, m = self._terms(beta)
        t_y = self._aim(t, labels, _MINUS_INFINITY * beta)
        m = m / z
        w = np.multiply(e, t, out=e)
        v = self._dot(w, t, self._scratch.buffer(2, self.n)) / z - m * m
        return np.log(z) - t_y, m - t_y, np.maximum(v, 0.0)

    def squared_loss_terms(
        self, beta: FloatArray, labels: Labels
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ||p - onehot(y)||² and beta, beta² times its derivatives by beta, per row.

        A row with label -1 has the all-zero target: its loss is ||p||², which differs from the
        distance to the uniform distribution by a constant (both have the same minimizer).
        """
        t, e, z, m = self._terms(beta)
        known = (labels >= 0).astype(np.float64)
        safe = np.maximum(labels, 0)  # -1 would silently read the last class
        spare = self._scratch.buffer(2, self.n)
        s2 = self._dot(e, e, spare)
        p_y, d_y = known * self._at_label(e, safe) / z, self._at_label(t, safe)
        w = np.multiply(e, t, out=spare)
        # No fourth buffer: t and e are each used up in turn.
        b1, v, b2 = self._dot(w, e, e), self._dot(w, t, t), self._dot(w, w, w)
        m, s2 = m / z, s2 / (z * z)
        b1, b2, v = b1 / (z * z), b2 / (z * z), v / z - m * m
        d_y = d_y - m
        a1 = b1 - m * s2
        a2 = b2 - 2 * m * b1 + m * m * s2
        loss = s2 - 2 * p_y + known
        slope = 2 * (a1 - p_y * d_y)
        # In this order p_y = 0 silences a d_y whose square would overflow.
        curvature = 2 * (2 * a2 - v * s2 - p_y * d_y * d_y + p_y * v)
        return loss, slope, curvature

    def overlap_terms(
        self, beta: FloatArray, labels: Labels
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return p·p, p·q, q·q, p_y and q_y per row, with p = softmax(beta z), q = softmax(z)."""
        q = np.exp(self._shifted, out=self._scratch.buffer(1, self.n))
        p, spare = self._exponentials(beta, self._scratch.buffer(2, self.n)), self._shifted
        zp, zq = self.sum(p), self.sum(q)
        return (
            self._dot(p, p, spare) / (zp * zp),
            self._dot(p, q, spare) / (zp * zq),
            self._dot(q, q, spare) / (zq * zq),
            self._at_label(p, labels) / zp,
            self._at_label(q, labels) / zq,
        )


def steady(values: FloatArray) -> FloatArray:
    """Return numbers with 40 significant bits.

    >>> float(steady(np.array([1 / 3 + 1e-16]))[0]) == float(steady(np.array([1 / 3]))[0])
    True
    """
    t = SPLITTER * values
    return np.asarray(t - (t - values))
