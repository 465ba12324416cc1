"""`auto`: a mixture of simple calibrators and of the network's own softmax."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from wildcal.calibrators.auto.folds import folds
from wildcal.calibrators.auto.members import (
    Evidence,
    choose,
    evidence,
    fit_member,
    held_out_scores,
    log_probability,
    shifting,
)
from wildcal.calibrators.auto.mixture import BETTER, log_mixture, safe_weights, sureness
from wildcal.calibrators.vector import VectorScaling
from wildcal.core.arrays import OOD_LABEL, FloatArray, Proba, working_dtype
from wildcal.core.block import Block
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.errors import CalibrationWarning
from wildcal.core.objective import mean_loss
from wildcal.core.rows import Rows, join
from wildcal.core.softmax import predicted_class
from wildcal.core.stored import ARRAY, FLAG, Many, Nested, stored

# Rows from which two repeats of the folds say enough, and one.
_FEW, _MANY = 300, 2_000
# A member of less weight changes nothing that could be seen.
_LEAST = 1e-3
_SUSPICIOUS = 5.0
# Standard deviations below guessing that no chance explains.
_FAR = 4.0


@final
@dataclass(kw_only=True, eq=False)
class AutoCalibrator(Calibrator):
    """q = sum_m w_m q_m: a mixture in which the network's own softmax always has a part.

    The members are the identity, temperature scaling, ensemble temperature scaling and, as there
    are more mistakes to learn from, energy scaling, beta calibration and isotonic regression of the
    confidence, each pulled towards leaving things as they are while there are few. Their weights
    maximize the likelihood of rows that the members were not fitted on, with some rows' worth of
    belief in the identity, which fades as the gain over it becomes certain.

    One more, an offset for each class, may change which class is most probable. It is taken only
    where rows that it was not fitted on say so, two standard errors above chance; without it the
    class of the largest logit stays the most probable one.

    Choosing one method by cross-validation is not safe with few labels: with few mistakes among
    them it is blind. A mixture that keeps the identity is: since q >= w_identity p, no row's
    negative log-likelihood can rise by more than -log w_identity.

    Parameters
    ----------
    keep_class
        Never change which class is most probable, whatever that costs. A note says how much.

    Notes
    -----
    Our own method; `benchmarks/studies/harm.py` measures how often it and others do harm. To keep
    the class, others are cut off just below its probability, and the row is divided by its sum.
    Out-of-distribution rows reach the members that use them. Where rows have environments, whole
    shifted environments are held out, so the weights are those of members that served conditions
    they had not seen; `ContextScaling` also reads the window around a row. Rows that the network
    was trained on protect nobody: they are all right.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_tuning=1000, n_ood_tuning=0)
    >>> calibrator = AutoCalibrator().fit(*suite.tuning)
    >>> [member.name for member in calibrator.members_]
    ['identity', 'ts', 'ets', 'energy', 'beta', 'isotonic']
    """

    name = "auto"
    title = "a safe mixture of simple methods"
    reference = "wildcal, docs/theory/auto.md"
    stores = "its members and their weights"
    shift_invariant = False
    accepts_ood = True
    reads = frozenset({"logits", "environment"})
    can_do_without = frozenset({"environment"})

    keep_class: bool = field(default=False, metadata=stored(FLAG))
    members_: list[Calibrator] = field(init=False, repr=False, metadata=stored(Many(Nested())))
    """The identity first."""
    weights_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    @property
    def preserves_accuracy(self) -> bool:  # type: ignore[override]
        """Whether no member shifts mass between classes; before a fit, whether none may."""
        if not self.is_fitted:
            return self.keep_class
        return not any(isinstance(member, VectorScaling) for member in self.members_)

    @property
    def takes_log_proba(self) -> bool:
        """Whether no member reads the energy; it is mixed from others where there is none."""
        return not self.reads_energy

    def _check_fitted(self) -> None:
        if not self.members_ or self.members_[0].name != "identity":
            raise ValueError("the first member must be the identity.")
        if any(m.n_classes_ != self.n_classes_ or "window" in m.reads for m in self.members_):
            raise ValueError("the members must be of the same classes, and read each row alone.")
        good = self.weights_.shape == (len(self.members_),) and (self.weights_ >= 0).all()
        if not good or abs(self.weights_.sum() - 1) > 1e-9 or self.weights_[0] <= 0:
            raise ValueError("weights must be one for each member, positive and of sum 1.")

    def _reads_energy(self) -> bool:
        return any(member.reads_energy for member in self.members_)

    def _fit(self, rows: Rows) -> FitSummary:
        if rows.weight is not None:  # rows without weight are no rows
            rows = rows[rows.weight > 0]
        known = rows if not rows.n_ood else rows[rows.labels != OOD_LABEL]
        ood = None if not rows.n_ood else rows[rows.labels == OOD_LABEL]
        found = evidence(known)
        members = choose(known, found)
        plain = len(members)
        members += shifting(known, found)
        row_weight = np.ones(len(known)) if known.weight is None else known.weight
        notes = _notes(found, known.n_classes)
        with warnings.catch_warnings():  # what matters of them is said below
            warnings.simplefilter("ignore", CalibrationWarning)
            scores = self._scores(known, ood, members)
            right = predicted_class(known.logits) == known.labels
            weights = safe_weights(scores[:, :plain], row_weight, right)
            if plain < len(members):
                shifted = safe_weights(scores, row_weight, right)
                gain = log_mixture(scores, shifted) - log_mixture(scores[:, :plain], weights)
                if sureness(gain, row_weight) > BETTER:
                    if self.keep_class:
                        notes = (*notes, _price(gain, scores, row_weight))
                    else:
                        weights = shifted
            used = [i for i, w in enumerate(weights) if i == 0 or w >= _LEAST]
            self.members_ = [fit_member(members[i], rows) for i in used]
        reason = in_a_sentence(found, scores[:, : len(weights)], weights, row_weight)
        self.weights_ = weights[used] / weights[used].sum()
        logits, y, weight = known.tuning()
        return FitSummary(
            loss="nll",
            loss_before=mean_loss(logits, y, weight, 1.0, "nll"),
            loss_after=self._loss(known),
            notes=notes or _at_bounds(self.members_),
            reason=reason,
        )

    def _scores(self, known: Rows, ood: Rows | None, members: Sequence[Calibrator]) -> FloatArray:
        """Return the log probability of each true class by members not fitted on its row."""
        total = len(known) if known.weight is None else known.weight.sum()
        repeats = 4 if total < _FEW else 2 if total < _MANY else 1
        scores = np.zeros((len(known), len(members)))
        for part in folds(known.logits[:], known.labels, repeats, known.environment, known.weight):
            held = part > 0
            if not held.any() or (part == 1).all():
                continue
            train = _left(known, part)
            if train.weight is not None and not train.weight.any():
                continue
            if ood is not None:
                bare = train.weight is not None and ood.weight is None
                train = join([train, replace(ood, weight=np.ones(len(ood))) if bare else ood])
            told = held_out_scores(members, train, known[held])
            scores[held] += part[held, None] * told
        return scores / repeats

    def _loss(self, rows: Rows) -> float:
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        parts = np.stack([np.exp(log_probability(member, rows)) for member in self.members_])
        return float(np.average(-np.log(self.weights_ @ parts), weights=weight))

    def _bind(self, rows: Rows) -> Bound:
        bounds = [member.bind(Rows(rows.logits)) for member in self.members_]
        dtype, keeps = working_dtype(rows.logits.dtype), self.preserves_accuracy
        below = 1 - 2 * np.finfo(dtype).eps

        def fill(block: Block, out: Proba) -> None:
            total, part = np.zeros(out.shape), np.empty(out.shape, dtype)
            for weight, bound in zip(self.weights_, bounds, strict=True):
                bound.fill(block, part)
                total += weight * part
            total[np.isneginf(block.original)] = 0.0
            if keeps:  # every other class below that of the largest logit, also when rounded
                at = np.arange(block.n), block.pred()
                top = total[at]
                np.minimum(total, (top * below)[:, None], out=total)
                total[at] = top
            # Row by row in one order, whatever stands beside a row.
            total /= total.sum(axis=1, keepdims=True)
            np.copyto(out, total, casting="same_kind")

        def confidence(block: Block) -> FloatArray:
            out = np.empty(block.original.shape, dtype)
            fill(block, out)
            return np.asarray(out[np.arange(block.n), block.pred()], np.float64)

        return Bound(rows.logits, fill, confidence)

    def _describe(self) -> list[str]:
        parts = [
            f"{100 * w:.3g} % {member.title}"
            for w, member in zip(self.weights_, self.members_, strict=True)
        ]
        most = -float(np.log(self.weights_[0]))
        limit = f"rise by more than {most:.3g}" if len(parts) > 1 else "rise at all"
        return [
            f"A mixture of {', '.join(parts[:-1])} and {parts[-1]}."
            if len(parts) > 1
            else "The softmax itself: no method was better on rows it had not seen.",
            *([self.fit_.reason] if self.fit_.reason else []),
            f"No row's negative log-likelihood can {limit}.",
        ]


def _at_bounds(members: Sequence[Calibrator]) -> tuple[str, ...]:
    """Return what members say that have one temperature: that it would go further."""
    said = [note for m in members if m.name in ("ts", "ets") for note in m.fit_.notes]
    return tuple(said[:1])


def _left(rows: Rows, part: FloatArray) -> Rows:
    """Return what is left of rows of which a part is held out."""
    some = part < 1
    left = rows[some]
    if not part[some].any():
        return left
    own = 1.0 if left.weight is None else left.weight
    return replace(left, weight=own * (1 - part[some]))


def in_a_sentence(
    found: Evidence, scores: FloatArray, weights: FloatArray, row_weight: FloatArray
) -> str:
    """Return why a mixture was taken: what there was to learn from, and what it gained."""
    learned = f"On {found.total:.6g} rows with {found.mistakes:.6g} mistakes, "
    if weights[0] > 1 - _LEAST:
        return f"{learned}no member told more of unseen rows than the softmax, which stays."
    gain = log_mixture(scores, weights) - scores[:, 0]
    before = -np.average(scores[:, 0], weights=row_weight)
    change = -100 * np.average(gain, weights=row_weight) / max(before, 1e-12)
    return (
        f"{learned}members that had not seen a row changed its NLL by {change:+.1f} %,"
        f" {sureness(gain, row_weight):.1f} standard errors from chance, so"
        f" {100 * weights[0]:.3g} % stay with the softmax."
    )


def _price(gain: FloatArray, scores: FloatArray, row_weight: FloatArray) -> str:
    """Return what keeping the class costs."""
    before = -np.average(scores[:, 0], weights=row_weight)
    lost = 100 * np.average(gain, weights=row_weight) / max(before, 1e-12)
    return (
        "the classes are not as frequent as the network takes them to be. Offsets would lower the"
        f" NLL by another {lost:.1f} %, and are left out because of keep_class=True."
    )


def _notes(found: Evidence, n_classes: int) -> tuple[str, ...]:
    right, by_guessing = found.total - found.mistakes, found.total / n_classes
    if right + _FAR * np.sqrt(by_guessing) < by_guessing:
        return (
            f"only {right:.6g} of {found.total:.6g} rows are right, fewer than by guessing. Do the"
            " labels count the classes as the columns do, from 0?",
        )
    if found.mistakes or found.doubt < _SUSPICIOUS:
        return ()
    return (
        f"no held-out row is wrong, where the network itself expects {found.doubt:.0f} of them to"
        " be. If it was trained on these rows, its confidence on others cannot be learned here.",
    )
