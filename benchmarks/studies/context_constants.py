"""What `ContextScaling` knows without shifted environments: measured on tuning splits alone.

    python benchmarks/studies/context_constants.py

The slopes of the gap are learned from all tuning splits of each shipped network, with the shipped
belief and λ, and printed beside the shipped ones, which context_belief.py fits for 10 classes and
context_many.py for more. What is shipped counts as four environments, so a network with few stays
near it. How far they serve a network they were not learned on: each network gets the means of the
others of its kind, or a single one with 100 classes those of 10, and is tested on its own tuning
splits, of which it has seen no label but the clean ones. Beside it, temperature scaling and the
network's own numbers, which saw those labels. Printed as in context_leave_out.py.
"""

import numpy as np
from context_leave_out import SIZES, Tuning, cut

from wildcal import ContextScaling, TemperatureScaling, suites
from wildcal.calibrators.context.constants import SHIPPED
from wildcal.calibrators.context.gap import GapModel
from wildcal.core.calibrator import Calibrator

NUMBERS = ("beta_p", "beta_2", "beta_g")


def with_numbers(fitted: ContextScaling, numbers: np.ndarray) -> ContextScaling:
    """Give a calibrator that was fitted on clean rows what others have learned."""
    for name, value in zip(NUMBERS, numbers.tolist(), strict=True):
        setattr(fitted, f"{name}_", value)
    return fitted


def shown(numbers: np.ndarray) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in zip(NUMBERS, numbers, strict=True))


def errors(tuning: Tuning, fitted: Calibrator) -> list[str]:
    """Return excess ECE / accuracy off by, for whole splits and smaller windows."""
    found = []
    for size in (None, *SIZES):
        rng, cells = np.random.default_rng(0), []
        for split in range(1, len(tuning.types)):
            rows = np.flatnonzero(tuning.split == split)
            windows = [rows] if size is None else cut(rng.permutation(rows), size)
            if windows:
                cells.append(tuning.score(fitted, windows))
        excess, off = 100 * np.mean(cells, axis=0) if cells else (np.nan, np.nan)
        found.append(f"{excess:5.2f} / {off:4.1f}")
    return found


def main() -> None:
    few: np.ndarray | None = None
    families = ("cifar10", "cifar100", "imagenet")
    for family, known in zip(families, SHIPPED.values(), strict=True):
        few = study({name: Tuning(suites.load(name)) for name in suites.names(family)}, known, few)


def study(tunings: dict[str, Tuning], known: GapModel, fallback: np.ndarray | None) -> np.ndarray:
    """Print what networks teach, and what it is worth to each other; return their mean."""
    learned, clean_only, own = {}, {}, {}
    for name, tuning in tunings.items():
        clean = tuning.split == 0
        # Transforms too, which the leave-out study keeps for the test.
        own[name] = ContextScaling().fit(tuning.logits, tuning.y, environment=tuning.split)
        learned[name] = np.array([getattr(own[name], f"{number}_") for number in NUMBERS])
        clean_only[name] = tuning.logits[clean], tuning.y[clean]
        print(f"{name:22}", shown(learned[name]))
    mean, now = np.mean(list(learned.values()), axis=0), np.array(known.numbers()[:3])
    print(f"{'mean':22}", shown(mean))
    print(f"{'shipped':22}", shown(now))
    print(f"\n{'':48}", "  ".join(f"{x:>12}" for x in ("whole", *(f"{s} rows" for s in SIZES))))
    for name, tuning in tunings.items():
        rest = [value for other, value in learned.items() if other != name]
        others = np.mean(rest, axis=0) if rest else fallback
        assert others is not None
        given = with_numbers(ContextScaling().fit(*clean_only[name]), others)
        rivals = {
            "ts": TemperatureScaling().fit(*clean_only[name]),
            "context, numbers of others": given,
            "context, own": own[name],
        }
        for label, fitted in rivals.items():
            print(f"{name + ': ' + label:48}", "  ".join(errors(tuning, fitted)), flush=True)
    print()
    return mean


if __name__ == "__main__":
    main()
