"""Context scaling, its context an input that adds up from what the map gives out."""

import numpy as np

from wildcal.calibrators import ContextScaling
from wildcal.calibrators.context.features import LARGEST
from wildcal.calibrators.context.gap import (
    CHANCE_SPREAD,
    COUNTED_ROWS,
    OFFSETS,
    PRIOR_FALL,
    PRIOR_ROWS,
    RESOLVED,
    RISING_ROWS,
    SMALL,
    TINY,
    WARMER,
)
from wildcal.calibrators.context.shape import STEEPENING
from wildcal.calibrators.context.terms import CHANCE, FEW, LEAST_LEAD, LESS_SURE, SHARE_UNIT
from wildcal.calibrators.context.unsure import WIDTH
from wildcal.interop.maps.base import CONTEXT, Inputs
from wildcal.interop.maps.ops import Ops, Tensor, clip
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.tables import interpolate, last_below, slopes
from wildcal.interop.maps.windows import WindowScaling


class InContext(WindowScaling):
    """T = T0 softplus(b - w m) exp(a - ω m): `context`.

    The variation that chance gives to windows of n rows is a table, so a graph needs nothing but
    the sums, and those of two windows can be added outside it.
    """

    def __init__(self, calibrator: ContextScaling, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        self.sums, self.by_class = len(calibrator.features), calibrator.by_class
        low, high = calibrator.bounds
        mean, std = calibrator.clean_margin_.tolist()
        chance, clean = calibrator.chance(), calibrator.clean_confidence_
        self._read_at, model = calibrator.read_at_, calibrator.model()
        self._at, self._alike, self._rule = model.belief, model.alike(), model.rule
        self.layout |= {"belief": calibrator.belief_, "read_at": self._read_at, "rule": self._rule}
        self.keep(
            temperature=calibrator.clean_temperature_,
            bias=calibrator.bias_,
            margin_mean=mean,
            margin_std=std,
            margin_weight=calibrator.margin_weight_,
            steepest=calibrator.steepest_,
            low=low,
            high=high,
            clean_confidence=clean[0],
            clean_warm=clean[calibrator.read_at_],
            clean_shares=calibrator.classes().shares / SHARE_UNIT,
            clean_by_class=calibrator.clean_by_class_,
            clean_unsure=calibrator.clean_unsure_,
            border=calibrator.border_,
            beta_p=calibrator.beta_p_,
            beta_2=calibrator.beta_2_,
            beta_g=calibrator.beta_g_,
            beta_h=calibrator.beta_h_,
            counted=calibrator.counted_,
            lam=calibrator.lam_,
            other_mixes=float(calibrator.class_mix == "any"),
            chance_sizes=chance.sizes,
            chance_values=chance.values,
            chance_slopes=slopes(chance.sizes, chance.values),
        )

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        ops, margin = rows.ops, self._margin(rows)
        clean = self._clean(ops, margin)
        if CONTEXT in inputs:
            offset = self._offset(ops, ops.wide(inputs[CONTEXT]))
            falling = ops.exp(ops.maximum(offset, 0.0) * -STEEPENING)
            steep = (falling * -1.0 + 1.0) * self.get(ops, "steepest")
            clean = clean * ops.exp(offset - steep * margin)
        return self._bounded(ops, clean)

    def features(self, rows: Rows) -> list[Tensor]:
        """Return the three confidences, and whether rows are unsure, where that is counted."""
        ops, margin = rows.ops, self._margin(rows)
        clean, found = self._clean(ops, margin), []
        for a in WARMER:
            steep = self.get(ops, "steepest") * float(1.0 - np.exp(-STEEPENING * a))
            warmer = self._bounded(ops, clean * ops.exp(steep * margin * -1.0 + a))
            found.append(ops.minimum(rows.confidence(1.0 / warmer), 1.0))
        if self._at.counts_unsure:
            part = (self.get(ops, "border") - found[-1]) * (1 / WIDTH) + 0.5
            found.append(clip(ops, part, 0.0, 1.0))
        return found

    def _margin(self, rows: Rows) -> Tensor:
        ops = rows.ops
        m = (rows.margin - self.get(ops, "margin_mean")) / self.get(ops, "margin_std")
        return clip(ops, m, -LARGEST, LARGEST)

    def _clean(self, ops: Ops, margin: Tensor) -> Tensor:
        """Return T at a = 0, before the bounds."""
        eta = self.get(ops, "bias") - margin * self.get(ops, "margin_weight")
        return ops.softplus(eta) * self.get(ops, "temperature")

    def _bounded(self, ops: Ops, temperature: Tensor) -> Tensor:
        return clip(ops, temperature, self.get(ops, "low"), self.get(ops, "high"))

    def _offset(self, ops: Ops, context: Tensor) -> Tensor:
        """Return the log temperature a of a context; one of no rows has 0."""
        n = ops.columns(context, 0, 1)
        some = ops.maximum(n, 1.0)
        means = [
            clip(ops, ops.columns(context, i, i + 1) / some, 0.0, 1.0)
            for i in range(1, 1 + len(WARMER))
        ]
        s, q = _curve(means)
        fall = _believed(ops, some, self.get(ops, "clean_confidence") - means[0])
        warm = _believed(ops, some, self.get(ops, "clean_warm") - means[self._read_at])
        gap = self._gap(ops, context, some, fall, warm, means[0])
        if self._at.above_guessing:
            gap = ops.minimum(gap, ops.maximum(means[0] - 1 / self.n_classes, 0.0))
        s = ops.maximum(s, 0.0)
        lowest, highest = s * s / ops.maximum(q * 4.0, TINY), s * s / ops.minimum(q * 4.0, -TINY)
        within = ops.minimum(ops.maximum(gap, highest), lowest)
        root = ops.sqrt(ops.maximum(s * s - q * within * 4.0, 0.0))
        offset = clip(ops, within * 2.0 / ops.maximum(s + root, SMALL), *OFFSETS)
        # Zeros are no context.
        return offset * ops.minimum(n, 1.0)

    def _gap(
        self, ops: Ops, context: Tensor, n: Tensor, fall: Tensor, warm: Tensor, now: Tensor
    ) -> Tensor:
        """Return the estimated gap of a window with a mean confidence of `now`."""
        counts, sure = self.counts(ops, context), self.inside(ops, context, 0)
        expected, rows = self.get(ops, "clean_shares") * n, ops.maximum(counts, SMALL)
        surplus, fallen = ops.maximum(counts - expected, 0.0), ops.maximum(fall, 0.0)
        if self._at.each_class:
            beyond, shift = self._beyond_chance(ops, counts, expected), 1.0
            if self._rule == "each":
                fourth = _fourth(ops.maximum(self.get(ops, "clean_by_class") - sure / rows, 0.0))
                shift = fourth / (fourth + LESS_SURE)
            price = ops.row_sum(self._prices(ops, counts, sure, expected, beyond) * shift) / n
            one = price * self.get(ops, "beta_p") + fallen * fallen * self.get(ops, "beta_2")
            signs = one + warm * self.get(ops, "beta_g")
            return self._with_second(ops, context, n, now, signs, beyond, shift)
        moved, chance = ops.row_sum(surplus) / n, self._chance(ops, n)
        beyond = ops.sqrt(ops.maximum(moved * moved - chance * chance, 0.0))
        lead = clip(ops, sure / rows * 2.0 - 1.0, LEAST_LEAD, 1.0)
        power = ops.exp(ops.log(ops.maximum(surplus / rows, TINY)) / lead)
        part = beyond / ops.maximum(moved, TINY)
        paid = counts * lead * power + ops.maximum(sure - expected, 0.0)
        price = ops.row_sum(paid) / n * (part * part * part)
        usual = fallen * self.get(ops, "lam")
        mix = ops.maximum(beyond - usual * self._at.explained, 0.0)
        mix = mix / self._width(ops, n, usual, chance)
        mix = mix / (_fourth(self._like(ops, counts, sure, expected, surplus)) + 1.0)
        other_mix = ops.exp(_fourth(mix) * self.get(ops, "other_mixes") * -1.0)
        no_chance = other_mix / self._few(chance)
        belief = self._one_shift(ops, n, usual, beyond, chance) * no_chance
        one = price * self.get(ops, "beta_p") + fallen * fallen * self.get(ops, "beta_2")
        other = warm * self.get(ops, "beta_g")
        signs = belief * one + other - belief * other
        too_many = self._beyond_chance(ops, counts, expected)
        return self._with_second(ops, context, n, now, signs, too_many, no_chance)

    def _with_second(
        self,
        ops: Ops,
        context: Tensor,
        n: Tensor,
        now: Tensor,
        signs: Tensor,
        beyond: Tensor,
        shift: Tensor | float,
    ) -> Tensor:
        """Return the gap with the second opinion, as `GapModel.gap` does."""
        if not self._at.counts_unsure:
            return signs
        unsure = self.inside(ops, context, 1)
        hidden = ops.row_sum(ops.maximum(beyond - unsure, 0.0) * shift) / n
        second = now - self.get(ops, "clean_confidence") - self.get(ops, "clean_unsure")
        second = second + ops.row_sum(unsure) / n + hidden * self.get(ops, "beta_h")
        weight = n / (n + COUNTED_ROWS) * self.get(ops, "counted")
        return signs + (second - signs) * weight

    def _beyond_chance(self, ops: Ops, counts: Tensor, expected: Tensor) -> Tensor:
        """Return by how many rows each class has too many, as `beyond_chance` does."""
        over = ops.maximum(counts - expected, 0.0)
        return ops.sqrt(ops.maximum(over * over - (expected + FEW) * CHANCE, 0.0))

    def _prices(
        self, ops: Ops, counts: Tensor, sure: Tensor, expected: Tensor, surplus: Tensor
    ) -> Tensor:
        """Return what the surplus of each class costs, all of it put down to shift."""
        rows = ops.maximum(counts, SMALL)
        lead = clip(ops, sure / rows * 2.0 - 1.0, LEAST_LEAD, 1.0)
        power = ops.exp(ops.log(ops.maximum(surplus / rows, TINY)) / lead)
        price = counts * lead * power
        return price + ops.minimum(ops.maximum(sure - expected, 0.0), surplus)

    def _like(
        self, ops: Ops, counts: Tensor, sure: Tensor, expected: Tensor, surplus: Tensor
    ) -> Tensor:
        """Return how much less sure rows of classes that grew are, against the others."""
        rows, usual = ops.maximum(counts, SMALL), self.get(ops, "clean_by_class")
        grown = ops.row_sum(surplus * (usual - sure / rows))
        grown = ops.maximum(grown, 0.0) / ops.maximum(ops.row_sum(surplus), TINY)
        is_scarce = ops.less(counts, expected)
        scarce = ops.row_sum(ops.where(is_scarce, counts, 0.0))
        shrunk = ops.row_sum(ops.where(is_scarce, counts * usual - sure, 0.0))
        shrunk = ops.maximum(shrunk, 0.0) / ops.maximum(scarce, TINY)
        return grown / (shrunk * self._at.alike + self._alike)

    def _width(self, ops: Ops, n: Tensor, usual: Tensor, chance: Tensor) -> Tensor:
        """Return how much more variation than usual is still put down to shift."""
        at, spread = self._at, chance * CHANCE_SPREAD / ops.sqrt(n)
        return usual * at.usual + at.allowed + ops.sqrt(spread) * at.by_chance

    def _one_shift(
        self, ops: Ops, n: Tensor, usual: Tensor, beyond: Tensor, chance: Tensor
    ) -> Tensor:
        """Return how far classes moved as under one shift, and not under several that cancel."""
        square = beyond * beyond + chance * CHANCE_SPREAD / ops.sqrt(n)
        mixed = (usual * self._at.mixed) * (usual * self._at.mixed)
        if self._at.sharp:
            square, mixed = square * square, mixed * mixed
        return square / ops.maximum(square + mixed, TINY)

    def _few(self, chance: Tensor) -> Tensor:
        """Return what class counts are divided by where there are too few rows for so many."""
        few = _fourth(chance / RESOLVED)
        return (few * few if self._at.sharp else few) + 1.0

    def _chance(self, ops: Ops, n: Tensor) -> Tensor:
        names = ("chance_sizes", "chance_values", "chance_slopes")
        sizes, values, steep = (self.get(ops, name) for name in names)
        at = ops.maximum(last_below(ops, sizes, n, or_equal=True), 0)
        return interpolate(ops, n, (sizes, values, steep), at)


def _believed(ops: Ops, n: Tensor, fall: Tensor) -> Tensor:
    """Return how far confidence has fallen, as far as n rows tell."""
    known = ops.maximum(fall, 0.0) * (n / (n + PRIOR_ROWS))
    known = known + ops.minimum(fall, 0.0) * (n / (n + RISING_ROWS))
    return known + PRIOR_FALL * PRIOR_ROWS / (n + PRIOR_ROWS)


def _fourth(x: Tensor) -> Tensor:
    return x * x * (x * x)


def _curve(means: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return slope and curvature of mean confidence, as `curve` does."""
    c0, c1, c2 = means
    _, a1, a2 = WARMER
    first, second = (c1 - c0) / a1, (c2 - c0) / a2
    q = (second - first) / (a2 - a1)
    return q * a1 - first, q
