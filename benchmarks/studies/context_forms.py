"""Forms of context-aware scaling that were weighed against each other, fitted on some types.

The product has one form. Here its terms, its mixture and its penalty can be left out or changed,
with the same features, weights and solver; the form of the product gives its coefficients.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from wildcal import ContextScaling
from wildcal.calibrators.context.environments import (
    MIXTURE_WEIGHT,
    clean_same_class_rate,
    context_columns,
    group,
    same_class_rate,
)
from wildcal.calibrators.context.features import (
    CONFIDENCE,
    ENERGY,
    MARGIN,
    clean_units,
    raw_features,
)
from wildcal.calibrators.softplus import bounded_softplus, minimize_softplus, softplus_temperature
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, fit_temperature
from wildcal.core.objective import Point, TemperatureObjective
from wildcal.core.softmax import confidence_at
from wildcal.evaluation import EnvironmentRows
from wildcal.evaluation.protocol.windows import window_slices
from wildcal.io.suite import Suite

ALL = (1, 2, 3, 4)
"""Columns of the design after the 1: margin, mean energy, mean confidence, class collapse."""


@dataclass(frozen=True)
class Form:
    """What is different from the form of the product."""

    name: str
    mixture: float | None = None
    """Weight of the mixture; by default that of the product, for this many environments."""
    penalty: float = ContextScaling.penalty
    columns: tuple[int, ...] = ALL
    strangers: bool = True
    """Whether rows of other classes are in the fit."""
    transforms: bool = False
    """Whether it is tuned on all tuning splits, or on the four validation corruptions alone."""


FORMS = (
    Form("context"),
    Form("mixture weight 0", mixture=0.0),
    Form("mixture weight 1", mixture=1.0),
    Form("mixture weight 2", mixture=2.0),
    Form("mixture weight 4", mixture=4.0),
    Form("mixture weight 8", mixture=8.0),
    Form("penalty 0.0001", penalty=1e-4),
    Form("penalty 0.01", penalty=1e-2),
    Form("without class collapse", columns=(1, 2, 3)),
    Form("without mean energy", columns=(1, 3, 4)),
    Form("without mean confidence", columns=(1, 2)),
    Form("without a context", columns=(1,)),
    Form("without other classes", strangers=False),
    Form("with transforms", transforms=True),
    Form("with transforms, mixture weight 1", mixture=1.0, transforms=True),
    Form("with transforms, mixture weight 4", mixture=4.0, transforms=True),
    Form("with transforms, mixture weight 16", mixture=16.0, transforms=True),
)


class Tuning:
    """The tuning rows of one network, with what all fits have in common."""

    def __init__(self, suite: Suite, rows: EnvironmentRows, types: list[str | None]) -> None:
        self.logits, self.y, self.environment = rows
        self.types = np.array(["" if t is None else t for t in types])[rows.environment]
        clean = rows.environment == 0
        self.temperature = fit_temperature(self.logits[clean], self.y[clean]).temperature
        raw, self.pred = raw_features(self.logits, self.temperature)
        self.correct = self.pred == self.y
        units = clean_units(raw[:, clean], np.ones(clean.sum()), self.temperature)
        self.features = np.stack([units.of(row, i) for i, row in enumerate(raw)])
        self.n_classes = suite.n_classes
        ones = np.ones(clean.sum())
        self.same_class = clean_same_class_rate(self.pred[clean], ones, suite.n_classes)

    def rows(self, types: Collection[str], *, strangers: bool) -> EnvironmentRows:
        """Return the clean rows, those of some types, and those of other classes if wanted."""
        keep = self._chosen(types, strangers)
        number = np.unique(self.environment[keep], return_inverse=True)[1]
        return EnvironmentRows(self.logits[keep], self.y[keep], number)

    def _chosen(self, types: Collection[str], strangers: bool) -> np.ndarray:
        clean, other = self.environment == 0, self.y < 0
        return clean | np.isin(self.types, list(types)) | (other & strangers)

    def fit(self, form: Form, types: Collection[str]) -> np.ndarray:
        """Return the five coefficients of a form fitted on these types and the clean rows."""
        keep = self._chosen(types, form.strangers)
        logits, y, number = self.rows(types, strangers=form.strangers)
        n = len(y)
        groups = group(
            self.features[:, keep], self.pred[keep], y, np.ones(n), number, self.n_classes,
            self.same_class,
        )  # fmt: skip
        first = np.column_stack([np.ones(n), self.features[MARGIN, keep]])
        known = np.flatnonzero(y >= 0)
        mixed = np.column_stack([first[known], np.tile(groups.mixture_columns, (len(known), 1))])
        design = np.concatenate([np.column_stack([first, groups.columns]), mixed])
        usual = MIXTURE_WEIGHT * len(groups.shifted)
        often = 1.0 if form.mixture is None else form.mixture / usual
        weight = np.concatenate([groups.weight, often * groups.mixture_weight[known]])
        columns = [0, *form.columns]
        loss = _Penalized(
            TemperatureObjective(
                np.concatenate([logits, logits[known]]),
                np.concatenate([y, y[known]]),
                weight,
                np.ascontiguousarray(design[:, columns]),
                bounded_softplus(DEFAULT_BOUNDS),
                loss="nll",
            ),
            form.penalty,
        )
        fit = minimize_softplus(
            loss, len(columns), temperature=self.temperature, bounds=DEFAULT_BOUNDS
        )
        phi = np.zeros(5)
        phi[columns] = fit.phi
        return phi

    def confidence(
        self, phi: np.ndarray, rows: np.ndarray, window: int | None = None
    ) -> np.ndarray:
        """Return the confidence of some rows, each window of them being a context."""
        eta = phi[0] + phi[1] * self.features[MARGIN, rows]
        for w in window_slices([len(rows)], window):
            means = self.features[[ENERGY, CONFIDENCE]][:, rows[w]].mean(axis=1)
            counts = np.bincount(self.pred[rows[w]], minlength=self.n_classes).astype(float)
            n = float(len(rows[w]))
            columns = context_columns(n, means, same_class_rate(counts), self.same_class)
            eta[w] += columns @ phi[2:]
        temperature = softplus_temperature(eta, DEFAULT_BOUNDS)
        found = confidence_at(self.logits[rows], lambda block: temperature[block.rows])
        return np.minimum(found.astype(float), 1.0)


@dataclass(frozen=True)
class _Penalized:
    objective: TemperatureObjective
    penalty: float

    @property
    def logits(self) -> np.ndarray:
        return self.objective.logits

    def warm_up(self, n_rows: int) -> list["_Penalized"]:
        return [_Penalized(few, self.penalty) for few in self.objective.warm_up(n_rows)]

    def __call__(self, phi: np.ndarray) -> Point:
        point = self.objective(phi)
        ridge = np.full(len(phi), self.penalty)
        ridge[0] = 0.0
        return Point(
            point.value + float(ridge @ (phi * phi)) / 2,
            point.gradient + ridge * phi,
            point.hessian + np.diag(ridge),
        )
