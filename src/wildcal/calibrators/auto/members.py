"""What is mixed: calibrators of few parameters, each pulled towards leaving things as they are."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wildcal.calibrators.beta import BetaCalibration
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.ensemble_temperature import EnsembleTemperatureScaling
from wildcal.calibrators.identity import Identity
from wildcal.calibrators.isotonic import TopLabelIsotonic
from wildcal.calibrators.mixture_weights import true_class_rows
from wildcal.calibrators.soft_rows import mistakes_and_doubt, soft_weight
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.calibrators.vector import VectorScaling
from wildcal.core.arrays import OOD_LABEL, FloatArray
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import looks_like_log_proba
from wildcal.core.rows import Rows
from wildcal.core.softmax import energy_and_pred

# Mistakes, and right rows, from which a method has enough to learn: chosen on real models, the
# tuning half of benchmarks/studies/harm.py among them.
ENOUGH_FOR_CURVE = 15
ENOUGH_FOR_ENERGY = 30
ENOUGH_FOR_STEPS = 100
ROWS_FOR_CLASS, MOST_CLASSES = 5, 250
SOFT_STRENGTH = 2.0
# Of a true class, so that its logarithm is finite.
SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a fit has to learn from."""

    mistakes: float
    """Weight of the rows that are wrong."""
    doubt: float
    """Weight of the rows that the network expects to be wrong."""
    total: float

    @property
    def least(self) -> float:
        """Right or wrong rows, whichever are fewer."""
        return min(self.mistakes, self.total - self.mistakes)

    @property
    def soft(self) -> float:
        """The weight of soft rows: it fades with mistakes."""
        return soft_weight(self.mistakes, self.doubt, SOFT_STRENGTH)


def evidence(rows: Rows) -> Evidence:
    """Return how much labeled rows have to say."""
    return Evidence(*mistakes_and_doubt(*rows.tuning()))


def choose(rows: Rows, found: Evidence) -> list[Calibrator]:
    """Return unfitted members that the rows can carry; identity, `ts` and `ets` come first.

    They keep the class, but for what the mixture cuts off. Methods with many parameters for each
    class stay out: no number of rows in all says that each class has enough.
    """
    members: list[Calibrator] = [
        Identity(),
        TemperatureScaling(prior=SOFT_STRENGTH),
        EnsembleTemperatureScaling(prior=SOFT_STRENGTH),
    ]
    if found.least >= ENOUGH_FOR_ENERGY and _has_energy(rows):
        members.append(EnergyScaling())
    if found.least >= ENOUGH_FOR_CURVE:
        members.append(BetaCalibration(prior=SOFT_STRENGTH))
    if found.least >= ENOUGH_FOR_STEPS:
        members.append(TopLabelIsotonic(prior=SOFT_STRENGTH))
    return members


def shifting(rows: Rows, found: Evidence) -> list[Calibrator]:
    """Return the unfitted member that shifts mass between classes, if the rows can carry it.

    It is what a model needs that was trained on classes in other shares: reweighted, over- or
    undersampled, or naive. It has a number for each class, so each class should have some rows.
    """
    enough = found.least >= ENOUGH_FOR_CURVE and found.total >= ROWS_FOR_CLASS * rows.n_classes
    if not enough or rows.n_classes > MOST_CLASSES:
        return []
    return [VectorScaling(tied=True, prior=SOFT_STRENGTH)]


def _has_energy(rows: Rows) -> bool:
    """Return whether rows are raw scores, and no log probabilities."""
    energy, _ = energy_and_pred(rows.logits)
    return not looks_like_log_proba(energy)


def held_out_scores(members: Sequence[Calibrator], train: Rows, held: Rows) -> FloatArray:
    """Return the log probabilities of true classes by members that were fitted on other rows.

    The first three cost one fit: the softmax, and that of the temperature, are parts of `ets`.
    """
    ets = fit_member(copy.deepcopy(members[2]), train)
    assert isinstance(ets, EnsembleTemperatureScaling)
    parts = true_class_rows(held.logits, held.labels, ets.temperature_)
    own = np.column_stack([parts[:, 1], parts[:, 0], parts @ ets.weights_])
    others = [fit_member(copy.deepcopy(member), train) for member in members[3:]]
    scores = [log_probability(member, held) for member in others]
    return np.column_stack([np.log(np.maximum(own, SMALLEST)), *scores])


def fit_member(member: Calibrator, rows: Rows) -> Calibrator:
    """Fit one on the rows that it can use."""
    if not member.accepts_ood and rows.n_ood:
        rows = rows[rows.labels != OOD_LABEL]
    return member.fit_rows(replace(rows, environment=None))


def log_probability(member: Calibrator, rows: Rows) -> FloatArray:
    """Return the log of the probability that a fitted member gives the true classes."""
    proba = member.bind(Rows(rows.logits)).proba()
    own = proba[np.arange(len(rows)), rows.labels].astype(np.float64)
    return np.asarray(np.log(np.maximum(own, SMALLEST)))
