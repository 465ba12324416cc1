"""Names of methods."""

import subprocess
import sys

import pytest

from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.core.registry import (
    ALIASES,
    CALIBRATORS,
    RENAMED,
    get_calibrator,
    import_class,
    registered_class,
)


def test_names_and_options():
    assert isinstance(get_calibrator("ts", loss="mse"), TemperatureScaling)
    assert get_calibrator("temperature", loss="mse").loss == "mse"
    assert get_calibrator("irovats").temperature is True
    assert get_calibrator("irova").temperature is False
    assert get_calibrator("dac+ts", loss="nll").loss == "nll"
    assert get_calibrator("dac+ts").name == "dac+ts"


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_name_has_a_class(name):
    place, options = CALIBRATORS[name]
    class_name = place.partition(":")[2]
    kind = import_class(place)
    assert issubclass(kind, Calibrator)
    assert kind.__name__ == class_name
    assert registered_class(class_name) is kind
    assert get_calibrator(name).get_params(deep=False).items() >= options.items()
    assert kind.__doc__
    assert "Examples" in kind.__doc__


def test_aliases_and_old_names():
    assert set(ALIASES.values()) <= set(CALIBRATORS)
    assert not {*ALIASES, *RENAMED} & set(CALIBRATORS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("energie", "Unknown method 'energie'. Did you mean 'energy'?"),
        ("tsmix", "Unknown method 'tsmix'. 'tsmix' was renamed 'ts-mix' in 0.2."),
        ("context", "Unknown method 'context'. 'context' was renamed 'window' in 0.2."),
        ("qqqqqq", "Unknown method 'qqqqqq'. See `wildcal.CALIBRATORS`."),
        ("dac+energie", "Unknown method 'energie'. Did you mean 'energy'?"),
        (
            "no_such_module:Method",
            "method must be importable, got 'no_such_module:Method': No module named"
            " 'no_such_module'.",
        ),
    ],
)
def test_unknown_names(name, text):
    with pytest.raises(InputError) as error:
        get_calibrator(name)
    assert (str(error.value), error.value.param) == (text, "method")


def test_classes_of_files():
    with pytest.raises(
        InputError, match="the file needs the class 'Popen', which is not registered."
    ):
        registered_class("Popen")


def test_the_registry_imports_no_method():
    """Methods are imported when they are asked for."""
    code = (
        "import sys; import wildcal.core.registry as r; r.get_calibrator('ts');"
        "print([m for m in sys.modules if 'wildcal.calibrators.' in m],"
        "'scipy.optimize' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['wildcal.calibrators.temperature'] False"
