"""Specifications of methods."""

import pytest

import wildcal
from wildcal.core.exceptions import InputError
from wildcal.evaluation import MethodSpec, get_methods


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("ts", {"source"}),
        ("energy", {"source", "ood"}),
        ("energy@source", {"source"}),
        ("dac+energy", {"source", "ood"}),
        ("window", {"source", "shifted"}),
        ("ts@source,shifted", {"source", "shifted"}),
        ("ts@source,ood", {"source", "ood"}),
    ],
)
def test_specifications(text, data):
    spec = MethodSpec.parse(text)
    assert (spec.name, spec.data) == (text, data)


def test_ood_option_is_set():
    assert MethodSpec.parse("ts@source,ood").calibrator.ood is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vector@source,ood", "does not use OOD samples"),
        ("ts@ood", "must be fitted on source or shifted"),
        ("ts@clean", "data must be of source, ood, shifted, got clean"),
        ("tss", "Unknown method 'tss'. Did you mean 'ts'"),
    ],
)
def test_errors(text, message):
    with pytest.raises(InputError, match=message):
        MethodSpec.parse(text)


def test_lists():
    assert [m.name for m in get_methods()][:2] == ["identity", "ts"]
    assert len(get_methods("paper,auto")) == 9
    mine = wildcal.TemperatureScaling(loss="nll")
    assert get_methods([mine])[0].name == "ts"
    with pytest.raises(InputError, match="different names, got 'ts' twice"):
        get_methods("ts,ts")
