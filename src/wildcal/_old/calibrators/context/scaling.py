"""Context scaling: a temperature from the row, moved by what the rows around it say together."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.calibrators.context.belief import BELIEFS, FEW_CLASSES, MANY_CLASSES, Belief
from wildcal._old.calibrators.context.chance import ChanceTable
from wildcal._old.calibrators.context.classes import ClassRows
from wildcal._old.calibrators.context.clean_rows import clean_rows, clean_span, moments_of_two
from wildcal._old.calibrators.context.constants import MANY, READ_AT, shipped, steepest
from wildcal._old.calibrators.context.gap import (
    WARMER,
    GapModel,
    offset_for,
    window_statistics,
)
from wildcal._old.calibrators.context.learn import Clean, Points, learn, left_out_errors
from wildcal._old.calibrators.context.one_row import OneRow
from wildcal._old.calibrators.context.rolling import WindowMap, offset_in
from wildcal._old.calibrators.context.shape import OLD_WEIGHT, Shape, fit_bias
from wildcal._old.calibrators.context.sums import environment_sums
from wildcal._old.calibrators.context.terms import SHARE_UNIT, CleanClasses, usual_confidence
from wildcal._old.calibrators.context.unsure import fit_border, unsure
from wildcal._old.calibrators.context.window import Context, RowStatistics
from wildcal._old.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks
from wildcal._old.core.bound import Bound, bound_temperature
from wildcal._old.core.calibrator import FitSummary
from wildcal._old.core.checks import check_bounds, check_choice, check_temperature
from wildcal._old.core.class_mix import DEFAULT_SLOPE, unexplained
from wildcal._old.core.columns import derived, equal_weights, total
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.objective import mean_loss
from wildcal._old.core.rows import Rows
from wildcal._old.core.span import span
from wildcal._old.core.stored import ARRAY, INTEGER, REAL, TEXT, Row, stored

CLASS_MIXES: Final = ("any", "clean")
_FEATURES: Final = ("confidence", "warmer", "warmest", "unsure")
_OF_UNSURE: Final = frozenset({"border_", "clean_unsure_", "beta_h_", "counted_"})
# Shifts that were not tuned on are harder than those that were.
_UNSEEN: Final = 1.4
_MOST_ACCURATE: Final = 0.9999
_LEAST_ABOVE_CHANCE: Final = 0.001
# The two confidences that drift is judged by, of three.
_JUDGED: Final = (0, 2)
_LEAST_SPREAD: Final = 1e-9
# So many times the usual change of classes refutes the clean mix.
_FAR_BEYOND: Final = 1.5
_OTHER_MIX: Final = (
    "the predicted classes differ from the clean ones more than chance and lost confidence explain,"
    ' but class_mix="clean" takes the clean class mix for granted. Use class_mix="any".'
)


@final
@dataclass(kw_only=True, eq=False)
class ContextScaling(WindowMap):
    """p = softmax(z / T(x, c)), T = T1 exp(a - ω m), ω = W (1 - exp(-4 a)).

    m is the margin of the row: its largest logit minus the second, in units of clean rows. T1 is
    the temperature at which the mean confidence of clean rows is their accuracy. The context c is a
    window of unlabeled rows that arrive together. It is read for two signs of shift: how far mean
    confidence has fallen, and how far the predicted classes moved from those of clean rows, beyond
    chance (from 32 classes on, each by itself). A second opinion counts unsure rows, of which there
    are as many among clean rows as wrong ones. Together they estimate how far mean confidence lies
    above accuracy, and a takes just that off. Without a context a = 0, and a row's result depends
    on the row alone.

    It learns from *environments*: labeled groups of rows, one clean (number 0) and others shifted,
    such as hospitals, cameras, months, or validation images under corruptions that will not be met
    in use. Without shifted ones, it takes what the networks that come with wildcal teach, which see
    pictures; a forest, say, which does not stay too sure under shift, is then made too unsure. Rows
    of other classes (label -1) are taken and left out.

    Parameters
    ----------
    class_mix
        "any": classes that moved further than the fall of confidence explains, while those that
        grew stayed sure, are put down to another class mix. "clean": you know that classes come as
        often as among the clean rows, so every such move speaks of errors. That is much nearer to
        the truth where a network takes most things for a few classes and stays sure of it, and far
        off where the mix does change; a window whose classes refute the clean mix is warned of.
    bounds
        Range of T, kept for every input.

    Notes
    -----
    Our own method. docs/theory/context.md
    has the whole formula. Nothing but probabilities is read, so log probabilities will do.

    Examples
    --------
    >>> import wildcal
    >>> suite = wildcal._old.suites.load("cifar10-resnet20")
    >>> logits, y, environment = wildcal._old.evaluation.environments(suite)
    >>> calibrator = ContextScaling().fit(logits, y, environment=environment)
    >>> foggy = suite.split("fog-5").logits
    >>> around = calibrator.context(foggy)
    >>> alone, together = calibrator.confidence(foggy), calibrator.confidence(foggy, context=around)
    >>> bool(together.mean() < alone.mean())
    True
    """

    name = "context"
    title = "context scaling"
    reference = "wildcal, docs/theory/context.md"
    stores = "26 numbers and 2 for each class"
    shift_invariant = True
    accepts_ood = True
    state = "flat"
    reads = frozenset({"logits", "environment", "window"})

    class_mix: str = field(default="any", metadata=stored(TEXT))
    bounds: tuple[float, float] = field(default=DEFAULT_BOUNDS, metadata=stored(Row((REAL, REAL))))
    clean_temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    """T0, that of temperature scaling."""
    bias_: float = field(init=False, repr=False, metadata=stored(REAL))
    """b: T1 = T0 softplus(b)."""
    steepest_: float = field(init=False, repr=False, default=0.0, metadata=stored(REAL))
    """W. As the two below: where a file does not say, that of earlier versions."""
    margin_weight_: float = field(init=False, repr=False, default=OLD_WEIGHT, metadata=stored(REAL))
    """w: earlier versions had T1 = T0 softplus(b - w m)."""
    read_at_: int = field(init=False, repr=False, default=0, metadata=stored(INTEGER))
    """Which of the three confidences the fall alone is read at; 0 in files of earlier versions."""
    belief_: int = field(init=False, repr=False, default=0, metadata=stored(INTEGER))
    """Which of `BELIEFS`; files of earlier versions do not say, and have that numbered as above."""
    border_: float = field(init=False, repr=False, default=0.0, metadata=stored(REAL))
    """The confidence below which rows are unsure; as the two below, nothing in earlier versions."""
    clean_unsure_: float = field(init=False, repr=False, default=0.0, metadata=stored(REAL))
    """Which share of clean rows is."""
    beta_h_: float = field(init=False, repr=False, default=0.0, metadata=stored(REAL))
    counted_: float = field(init=False, repr=False, default=0.0, metadata=stored(REAL))
    """h: what the count of unsure rows weighs in a large window."""
    clean_margin_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Mean and standard deviation."""
    clean_confidence_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Means of the three confidences."""
    clean_spread_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Standard deviations of the first and the last of them."""
    clean_correlation_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Of the same two."""
    clean_rows_: int = field(init=False, repr=False, metadata=stored(INTEGER))
    clean_shares_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Of the predicted classes."""
    clean_by_class_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """The mean confidence in each of them."""
    beta_p_: float = field(init=False, repr=False, metadata=stored(REAL))
    beta_2_: float = field(init=False, repr=False, metadata=stored(REAL))
    beta_g_: float = field(init=False, repr=False, metadata=stored(REAL))
    lam_: float = field(init=False, repr=False, metadata=stored(REAL))
    environments_: int = field(init=False, repr=False, metadata=stored(INTEGER))
    """How many shifted ones it learned from; with none, the four numbers above are as shipped."""
    accuracy_error_: float = field(init=False, repr=False, metadata=stored(REAL))
    """How far estimated and true gap were apart on environments left out, root mean square."""
    accuracy_error_slope_: float = field(init=False, repr=False, metadata=stored(REAL))
    """The same per unit of the offset that the context gave: stronger shifts are guessed worse."""

    def _check_options(self) -> None:
        check_choice("class_mix", self.class_mix, CLASS_MIXES)
        check_bounds("bounds", self.bounds)

    def _check_fitted(self) -> None:
        shapes = (
            self.clean_margin_.shape,
            self.clean_confidence_.shape,
            self.clean_spread_.shape,
            self.clean_shares_.shape,
            self.clean_by_class_.shape,
        )
        if shapes != ((2,), (3,), (2,), (self.n_classes_,), (self.n_classes_,)):
            raise ValueError(
                f"the fitted arrays must have shapes (2,), (3,), (2,), (K,), (K,): {shapes}"
            )
        check_temperature("clean_temperature_", self.clean_temperature_)
        shares, sure = self.clean_shares_, np.append(self.clean_confidence_, self.clean_by_class_)
        if self.clean_margin_[1] <= 0 or (self.clean_spread_ <= 0).any():
            raise ValueError("the standard deviations must be positive")
        if not ((sure >= 0) & (sure <= 1 + 1e-9)).all() or not -1 <= self.clean_correlation_ <= 1:
            raise ValueError(
                "clean_confidence, clean_by_class or clean_correlation is out of range"
            )
        if (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
            raise ValueError("clean_shares must not be negative, and sum to one")
        if self.clean_rows_ < 1 or self.environments_ < 0:
            raise ValueError("clean_rows or environments is out of range")
        if self.read_at_ not in range(len(WARMER)):
            raise ValueError("read_at is out of range")
        if self.belief_ not in range(len(BELIEFS)):
            raise ValueError("belief is out of range")
        parts = (self.clean_unsure_, self.counted_)
        if abs(self.border_) > 2 or not 0 <= min(parts) <= max(parts) <= 1:
            raise ValueError("border, clean_unsure or counted is out of range")
        at = BELIEFS[self.belief_]
        if at.counts_unsure and at.each_class != (self.n_classes_ >= MANY):
            raise ValueError(f"belief is not that of {self.n_classes_} classes")
        if at.counts_unsure and not (self.border_ and self.clean_unsure_):
            raise ValueError("border and clean_unsure must be there where unsure rows are counted")
        learned = self.beta_p_, self.beta_2_, self.beta_g_, self.lam_, self.beta_h_
        if not (0 <= self.steepest_ <= 1 and 0 <= self.margin_weight_ <= 1):
            raise ValueError("steepest or margin_weight is out of range")
        if min(*learned, self.accuracy_error_, self.accuracy_error_slope_) < 0:
            raise ValueError("what was learned must not be negative")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, given = rows.tuning()
        environment = rows.environment
        if environment is None:
            environment = derived(lambda labels: np.zeros(len(labels), np.int64), y)
        weight = derived(lambda labels, w: w * (labels >= 0), y, equal_weights(y, given))
        clean_weight = derived(lambda e, w: w * (e == 0), environment, weight)
        ends = clean_span(environment, weight)
        clean = [span(column, *ends) for column in (logits, y, clean_weight)]
        summary = self._fit_shape(*clean)
        found = environment_sums(logits, y, weight, environment, self._features())
        points, is_clean = found.points(logits.shape[1]), found.numbers == 0
        self._keep_clean(points[is_clean], clean[0], clean[2])
        known = shipped(logits.shape[1], other_mixes=self.class_mix == "any")
        clean_point = Clean(points[is_clean], self.chance(), known, self.read_at_)
        self._learn(clean_point, points[~is_clean])
        light = found.light_note()
        return replace(summary, notes=summary.notes + ((light,) if light else ()))

    def _fit_shape(self, logits: Source, y: Labels, weight: FloatArray) -> FitSummary:
        """Fit T0 and b on the clean rows, which are those with a weight."""
        ts = fit_temperature(logits, y, weight=weight, bounds=self.bounds)
        clean = clean_rows(logits, y, weight)
        least = 1 / logits.shape[1] + _LEAST_ABOVE_CHANCE
        accuracy = float(np.clip(clean.accuracy, least, _MOST_ACCURATE))
        self.clean_temperature_ = ts.temperature
        self.clean_margin_ = np.array([clean.mean, clean.std])
        self.steepest_, self.margin_weight_ = steepest(logits.shape[1]), 0.0
        self.bias_, self.read_at_ = 0.0, READ_AT
        self.belief_ = FEW_CLASSES if logits.shape[1] < MANY else MANY_CLASSES
        self.bias_ = fit_bias(self._shape(), logits, weight, accuracy)
        shape = self._shape()
        # Of rows that are all right, half a one might have been wrong.
        wrong = max(1 - clean.accuracy, 0.5 / (total(weight) + 1))
        self.border_ = fit_border(shape, logits, weight, wrong)

        def loss(block: Block) -> float:
            beta = 1.0 / shape.at(shape.of(block), 0.0)
            return float(block.log_loss(beta, y[block.rows]) @ weight[block.rows])

        return FitSummary(
            loss="nll",
            loss_before=mean_loss(logits, y, weight, 1.0, "nll"),
            loss_after=float(map_blocks(logits, loss, added)) / total(weight),
            iterations=ts.solution.iterations,
            converged=ts.solution.converged,
            notes=bound_notes(ts),
        )

    def _keep_clean(self, clean: Points, logits: Source, weight: FloatArray) -> None:
        """Keep what the predicted classes and the confidences of clean rows are like."""
        (n,), (self.clean_confidence_,), (self.clean_shares_,) = clean.n, clean.means, clean.shares
        self.clean_by_class_ = usual_confidence(clean.shares[0], clean.inside[0])
        self.clean_unsure_ = float(clean.unsure[0].sum())
        judged = self.clean_confidence_[list(_JUDGED)]
        look = partial(self._shape().confidences, offsets=[WARMER[i] for i in _JUDGED])
        (aa, ab), (_, bb) = moments_of_two(logits, weight, judged, look) / n
        self.clean_spread_ = np.maximum(np.sqrt([aa, bb]), _LEAST_SPREAD)
        self.clean_correlation_ = float(np.clip(ab / np.sqrt(aa * bb), -1, 1)) if aa * bb else 0.0
        self.clean_rows_ = max(1, round(float(n)))

    def _learn(self, clean: Clean, shifted: Points) -> None:
        """Learn from the shifted environments, if there are any."""
        self.environments_ = len(shifted)
        self.accuracy_error_ = self.accuracy_error_slope_ = 0.0
        model = clean.known
        if len(shifted):
            model = learn(clean, shifted)
            error, size = (
                float(np.sqrt(np.mean(np.square(v)))) for v in left_out_errors(clean, shifted)
            )
            self.accuracy_error_ = error
            self.accuracy_error_slope_ = error / size if size > _LEAST_SPREAD else 0.0
        self.beta_p_, self.beta_2_ = model.beta_p, model.beta_2
        self.beta_g_, self.lam_ = model.beta_g, model.lam
        self.beta_h_, self.counted_ = model.beta_h, model.counted

    def _shape(self) -> Shape:
        mean, std = self.clean_margin_.tolist()
        return Shape(
            self.clean_temperature_,
            self.bias_,
            mean,
            std,
            self.bounds,
            self.steepest_,
            self.margin_weight_,
        )

    def chance(self) -> ChanceTable:
        """Return how far the classes of windows of clean rows move by chance; made once."""
        made = getattr(self, "_table", None)
        if made is None or made[0] is not self.clean_shares_ or made[1] != self.clean_rows_:
            table = ChanceTable.of(self.clean_shares_, float(self.clean_rows_))
            self._table = made = (self.clean_shares_, self.clean_rows_, table)
        found: ChanceTable = made[2]
        return found

    @property
    def features(self) -> tuple[str, ...]:
        """The confidence at three temperatures, and whether a row is unsure."""
        return _FEATURES if self._counts_unsure() else _FEATURES[:-1]

    @property
    def by_class(self) -> tuple[int, ...]:
        """The first and the last of them."""
        return (0, len(WARMER)) if self._counts_unsure() else (0,)

    @property
    def unread(self) -> frozenset[str]:
        """In a file from before unsure rows were counted, all that belongs to these."""
        return frozenset() if self._counts_unsure() else _OF_UNSURE

    def _sums_depend_on(self) -> list[float]:
        numbers = [self.clean_temperature_, self.bias_, self.steepest_, self.margin_weight_]
        border = [self.border_] if self._counts_unsure() else []
        return [*numbers, *self.clean_margin_.tolist(), *self.bounds, *border]

    def _counts_unsure(self) -> bool:
        return self._believed().counts_unsure

    def _features(self) -> Callable[[Block], FloatArray]:
        """Return what tells the features of a block, shape (features, n)."""
        shape, border = self._shape(), self.border_
        if not self._counts_unsure():
            return shape.confidences

        def features(block: Block) -> FloatArray:
            sure = shape.confidences(block)
            return np.vstack([sure, unsure(sure[-1], border)])

        return features

    def _look(self) -> Callable[[Block], RowStatistics]:
        shape, features = self._shape(), self._features()
        return lambda b: RowStatistics(features(b), b.pred(), shape.of(b))

    def classes(self) -> CleanClasses:
        """Return what windows are compared to."""
        return CleanClasses.of(self.clean_shares_, self.clean_by_class_, self.model().rule)

    def class_numbers(self, counts: Labels, inside: FloatArray) -> FloatArray:
        """Return the sums of what classes say, of `class_terms`, in parts of 2^-30."""
        return self.classes().numbers(counts, inside)

    def rolling_class_numbers(
        self, counts: Labels, inside: NDArray[np.int64], entering: ClassRows, leaving: ClassRows
    ) -> FloatArray:
        """Return the same after each entering row."""
        return self.classes().rolling_numbers(counts, inside, entering, leaving)

    def window_gap(self, n: ArrayLike, means: FloatArray, classes: ArrayLike) -> FloatArray:
        """Return the estimated mean confidence minus accuracy of windows, as if all had a = 0."""
        n = np.asarray(n, np.float64)
        terms = np.asarray(classes, np.float64) / (n * SHARE_UNIT)
        sure = np.clip(means[0], 0.0, 1.0), np.clip(means[self.read_at_], 0.0, 1.0)
        chance, model, k = self.chance()(n), self.model(), self.clean_shares_.size
        return model.gap(window_statistics(n, sure, terms, chance, self._usual(), k, model.rule))

    def _usual(self) -> tuple[float, float, float]:
        """Return the confidence of clean rows, that of the fall, and the share of unsure ones."""
        sure = self.clean_confidence_
        return float(sure[0]), float(sure[self.read_at_]), self.clean_unsure_

    def model(self) -> GapModel:
        """Return how the gap of a window is estimated."""
        learned = self.beta_p_, self.beta_2_, self.beta_g_, self.lam_
        other_mixes = self.class_mix == "any"
        return GapModel(*learned, other_mixes, self._believed(), self.beta_h_, self.counted_)

    def _believed(self) -> Belief:
        return BELIEFS[max(self.belief_, min(self.read_at_, 1))]

    def window_offset(self, n: ArrayLike, means: FloatArray, classes: ArrayLike) -> FloatArray:
        """Return the log temperature a of each of several windows."""
        gap = self.window_gap(n, means, classes)
        return offset_for(gap, np.clip(means[: len(WARMER)], 0.0, 1.0))

    def refutes_class_mix(self, context: Context) -> bool:
        """Return whether the classes of a window contradict `class_mix`; "any" cannot be."""
        if self.class_mix == "any" or context.n == 0:
            return False
        clean = self.clean_shares_ * self.clean_rows_
        fall = float(self.clean_confidence_[0]) - context.sums[0] / context.n
        error = float(self.clean_spread_[0]) / float(np.sqrt(context.n))
        slope = max(DEFAULT_SLOPE, _FAR_BEYOND * self.lam_)
        return unexplained(np.array(context.counts), clean, fall, error, slope) > 0

    def _doubt(self, windows: list[Context]) -> None:
        refuted = sum(map(self.refutes_class_mix, windows))
        if refuted:
            where = f"in {refuted} of {len(windows)} windows " if len(windows) > 1 else ""
            warnings.warn(f"{self.name}: {where}{_OTHER_MIX}", CalibrationWarning, stacklevel=5)

    def one_row(self) -> OneRow:
        """Return what does for one row after another what the methods above do for many."""
        clean, spread = self.clean_confidence_.tolist(), self.clean_spread_.tolist()
        units = tuple((j, clean[j], spread[i]) for i, j in enumerate(_JUDGED))
        return OneRow(
            self._shape(),
            self.model(),
            self.classes(),
            self._usual(),
            self.read_at_,
            self.border_ if self._counts_unsure() else None,
            self.chance(),
            units,
        )

    def standardized(self, means: FloatArray) -> FloatArray:
        """Return the mean confidence of windows, and when warmest, in units of clean rows."""
        clean, spread = self.clean_confidence_, self.clean_spread_
        return np.stack([(means[j] - clean[j]) / spread[i] for i, j in enumerate(_JUDGED)])

    def moved(self, own: FloatArray, offset: float | FloatArray) -> FloatArray:
        """Return the temperatures of rows whose margins are known, each in its window."""
        return self._shape().at(own, offset)

    def bind_offset(self, rows: Rows, offset: float | FloatArray) -> Bound:
        """Return what is said of rows whose windows have a log temperature a, or one each."""
        shape = self._shape()

        def temperature(block: Block) -> FloatArray:
            return shape.at(shape.of(block), offset_in(offset, block.rows))

        return bound_temperature(rows.logits, temperature)

    def accuracy_error(self, offset: ArrayLike) -> FloatArray:
        """Return how far mean confidence and accuracy may be apart where a context gave an offset.

        Taken as one standard deviation, and wide on purpose: shifts that were not tuned on are
        harder than those that were, so the part that grows is taken 1.4 times, and the whole error
        on left-out environments is added. The table in docs/stream.md shows how often intervals
        held. Infinite without shifted environments: then nothing is known.
        """
        offset = np.asarray(offset, np.float64)
        if not self.environments_:
            return np.full(offset.shape, np.inf)
        growing = _UNSEEN * self.accuracy_error_slope_ * offset
        return np.asarray(np.hypot(self.accuracy_error_, growing))

    def _clean_words(self) -> str:
        if self.margin_weight_:
            return (
                f"{self.clean_temperature_:.4g} softplus({self.bias_:.4g} -"
                f" {self.margin_weight_:.4g} margin)"
            )
        return f"{self.clean_temperature_ * np.logaddexp(0.0, self.bias_):.4g}"

    def _gap_words(self) -> str:
        if self.model().belief.each_class:
            return (
                f"{self.beta_p_:.4g} P {self.beta_2_:+.4g} G² {self.beta_g_:+.4g} G', G its fall,"
            )
        return (
            f"{self.beta_p_:.4g} P {self.beta_2_:+.4g} G², G its fall, or where class counts are"
            f" not believed {self.beta_g_:.4g} G',"
        )

    def caution(self) -> str:
        """Return where slopes that no environment taught may not hold."""
        if self.environments_:
            return ""
        return (
            "What windows say is read as on networks that see pictures, which stay too sure under"
            " shift. A model of another kind, such as a forest, may not, and is made too unsure:"
            " try labeled rows of one shifted set, to test it on or as an environment."
        )

    def _describe(self) -> list[str]:
        learned = (
            f"learned from {self.environments_} shifted environments"
            if self.environments_
            else "as the networks that come with wildcal teach them, without shifted environments"
        )
        lines = [
            f"Logits are divided by {self._clean_words()} exp(a - {self.steepest_:.4g} (1 - exp(-4"
            " a)) margin), the margin in units of the clean rows.",
            f"a takes {self._gap_words()} off the mean confidence of a window: G' its fall when"
            f" warmer, P the price of moving surplus classes back; {learned}.",
        ]
        if self._counts_unsure() and self.counted_:
            lines.append(
                "A second opinion counts unsure rows, those whose confidence is below"
                f" {self.border_:.3g} when warmest, as are {100 * self.clean_unsure_:.1f} % of the"
                f" clean ones: in a large window it weighs {self.counted_:.3g}."
            )
        if self.class_mix == "clean":
            lines.append("It takes for granted that classes come as often as among the clean rows.")
        if self.caution():
            lines.append(self.caution())
        if self.environments_:
            lines.append(
                f"The estimate was {100 * self.accuracy_error_:.1f} points off on environments"
                " left out of the fit."
            )
        return lines
