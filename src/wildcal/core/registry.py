"""Names of the methods and of the accuracy estimators.

A method is registered by its short name, with the place of its class and options. Classes are
imported when they are needed.
"""

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from wildcal.core.exceptions import InputError

if TYPE_CHECKING:
    from wildcal.core.calibrator import Calibrator

_HERE: Final = "wildcal.calibrators"

CALIBRATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": (f"{_HERE}.identity:Identity", {}),
    "auto": (f"{_HERE}.auto:AutoCalibrator", {}),
    "ts": (f"{_HERE}.temperature:TemperatureScaling", {}),
    "ets": (f"{_HERE}.ensemble_temperature:EnsembleTemperatureScaling", {}),
    "ts-mix": (f"{_HERE}.temperature_mix:TemperatureMix", {}),
    "hts": (f"{_HERE}.entropy_temperature:EntropyTemperatureScaling", {}),
    "pts": (f"{_HERE}.parameterized_temperature:ParameterizedTemperatureScaling", {}),
    "energy": (f"{_HERE}.energy:EnergyScaling", {}),
    "energy-linear": (f"{_HERE}.energy_linear:EnergyLinear", {}),
    "vector": (f"{_HERE}.vector:VectorScaling", {}),
    "matrix": (f"{_HERE}.matrix:MatrixScaling", {}),
    "dirichlet": (f"{_HERE}.dirichlet:DirichletCalibration", {}),
    "svs": (f"{_HERE}.structured:StructuredVectorScaling", {}),
    "sms": (f"{_HERE}.structured:StructuredMatrixScaling", {}),
    "platt": (f"{_HERE}.one_vs_rest:PlattScaling", {}),
    "beta": (f"{_HERE}.one_vs_rest:BetaCalibration", {}),
    "isotonic": (f"{_HERE}.isotonic:TopLabelIsotonic", {}),
    "histogram": (f"{_HERE}.histogram:HistogramBinning", {}),
    "bbq": (f"{_HERE}.bbq:BBQ", {}),
    "spline": (f"{_HERE}.spline:SplineCalibration", {}),
    "irm": (f"{_HERE}.irm:IsotonicMulticlass", {}),
    "irova": (f"{_HERE}.isotonic_one_vs_rest:IsotonicOneVsRest", {}),
    "irovats": (f"{_HERE}.isotonic_one_vs_rest:IsotonicOneVsRest", {"temperature": True}),
    "dac": (f"{_HERE}.density:DensityAwareCalibration", {}),
    "window": ("wildcal.window.window_scaling:WindowScaling", {}),
    "match": ("wildcal.window.matching:ConfidenceMatching", {}),
    "label-shift": ("wildcal.window.label_shift:LabelShiftEM", {}),
}
"""Class and options of each method by its short name."""

ESTIMATORS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "ac": ("wildcal.accuracy.confidence:AC", {}),
    "doc": ("wildcal.accuracy.confidence:DoC", {}),
    "atc-ne": ("wildcal.accuracy.threshold:ATC", {}),
    "atc-mc": ("wildcal.accuracy.threshold:ATC", {"score": "confidence"}),
    "cot": ("wildcal.accuracy.cot:COT", {}),
    "cott": ("wildcal.accuracy.cot:COTT", {}),
    "gde": ("wildcal.accuracy.agreement:GDE", {}),
    "cbpe": ("wildcal.accuracy.cbpe:CBPE", {}),
}
"""Class and options of each accuracy estimator by its short name."""

ALIASES: Final = {"temperature": "ts", "sigmoid": "platt"}
RENAMED: Final = {"tsmix": "ts-mix", "context": "window", "em-bcts": "label-shift"}
"""Names of version 0.1."""

_ADAPTED: Final = "wildcal.window.base:AdaptedCalibrator"
_GROUP: Final = "wildcal.calibrators"


def get_calibrator(name: str, **options: Any) -> "Calibrator":
    """Return an unfitted calibrator by its name.

    `dac+NAME` is density-aware calibration before another method, `match+NAME` confidence matching
    to an accuracy estimator; MODULE:CLASS is any other class.

    Examples
    --------
    >>> get_calibrator("ts")
    TemperatureScaling()
    >>> get_calibrator("dac+ets").base
    EnsembleTemperatureScaling()
    """
    name = ALIASES.get(name, name)
    if name.startswith("dac+"):
        return get_calibrator("dac", base=get_calibrator(name.removeprefix("dac+")), **options)
    if name.startswith("match+") and name.removeprefix("match+") in ESTIMATORS:
        place, defaults = ESTIMATORS[name.removeprefix("match+")]
        return get_calibrator("match", estimator=import_class(place)(**defaults), **options)
    if name not in CALIBRATORS:
        _load_plugin(name)
    place, defaults = CALIBRATORS[name]
    calibrator: Calibrator = import_class(place)(**{**defaults, **options})
    return calibrator


def register(name: str, place: str, **options: Any) -> None:
    """Add a method: its short name, MODULE:CLASS and the options of the name."""
    if name in CALIBRATORS and CALIBRATORS[name] != (place, options):
        raise InputError(f"name must be new, got {name!r}, which is registered.", "name")
    class_name = place.partition(":")[2]  # files name the class
    others = [other for other in _places(class_name) if other != place]
    if others and import_class(others[0]) is not import_class(place):
        raise InputError(
            f"place must have a new class name, got {place!r}: {others[0]} is registered.", "place"
        )
    CALIBRATORS[name] = (place, options)


def registered_class(class_name: str) -> type[Any]:
    """Return a class by its name in an artifact; only registered classes are found."""
    for place in (*_places(class_name), *(point.value for point in entry_points(group=_GROUP))):
        if place.partition(":")[2] == class_name:
            return import_class(place)
    raise InputError(
        f"the file needs the class {class_name!r}, which is not registered. Try"
        " wildcal.core.registry.register.",
        "path",
    )


def _places(class_name: str) -> list[str]:
    """Return where registered classes of this name are."""
    places = [place for place, _ in [*CALIBRATORS.values(), *ESTIMATORS.values()]]
    return [place for place in (*places, _ADAPTED) if place.partition(":")[2] == class_name]


def import_class(place: str) -> type[Any]:
    """Return the class at MODULE:CLASS."""
    module, _, name = place.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


def load_installed() -> None:
    """Register the methods that installed packages provide as entry points."""
    for point in entry_points(group=_GROUP):
        if point.name not in CALIBRATORS:
            register(point.name, point.value)


def _load_plugin(name: str) -> None:
    """Register MODULE:CLASS or an entry point under its name, or raise."""
    load_installed()
    if name in CALIBRATORS:
        return
    if ":" in name:
        try:
            import_class(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(
                f"method must be importable, got {name!r}: {error}.", "method"
            ) from error
        register(name, name)
        return
    if name in RENAMED:
        hint = f"{name!r} was renamed {RENAMED[name]!r} in 0.2."
    else:
        near = get_close_matches(name, [*CALIBRATORS, *ALIASES], 1)
        hint = f"Did you mean {near[0]!r}?" if near else "See `wildcal.CALIBRATORS`."
    raise InputError(f"Unknown method {name!r}. {hint}", "method")
