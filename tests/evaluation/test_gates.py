"""Gates: grammar, violations, errors."""

import numpy as np
import pytest

from wildcal import evaluate
from wildcal.core.exceptions import InputError
from wildcal.evaluation import check_gates, parse_gate


@pytest.fixture
def evaluation():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 4000)
    group = np.where(np.arange(4000) < 1000, "north", "south")
    correct = rng.random(4000) < confidence - np.where(group == "north", 0.2, 0.0)
    return evaluate(correct, confidence, groups=group)


def test_grammar():
    gate = parse_gate(" worst_group.excess_ece.high>=1e-2 ")
    assert (gate.metric, gate.part, gate.op, gate.limit) == ("excess_ece", "high", ">=", 0.01)
    assert gate.worst_group
    assert str(parse_gate(str(gate))) == str(gate) == "worst_group.excess_ece.high >= 0.01"
    assert parse_gate("spiegelhalter_z < -1.96").limit == -1.96


def test_violations(evaluation):
    lines = check_gates(
        evaluation,
        ["ece > 0.03", "accuracy > 0.9", "worst_group.ece > 0.15", "excess_ece.low > 0.5"],
    )
    assert [line.partition(" is ")[0] for line in lines] == ["ece", "ece in group 'north'"]
    assert lines[1].endswith(": worst_group.ece > 0.15")


def test_worst_group_is_the_worst_in_that_metric(evaluation):
    (line,) = check_gates(evaluation, ["worst_group.accuracy < 0.65"])
    assert "in group 'north'" in line


def test_worst_group_of_a_metric_without_a_better_side(evaluation):
    values = {name: e.mean_confidence.value for name, e in evaluation.groups.items()}
    low, high = sorted(values, key=values.get)
    between = sum(values.values()) / 2
    for op, name in (("<", low), (">", high)):
        (line,) = check_gates(evaluation, [f"worst_group.mean_confidence {op} {between}"])
        assert f"in group {name!r}" in line


@pytest.mark.parametrize(
    "text", ["ece", "ece > ", "ece == 0.1", "ece.mid > 0.1", "__import__('os') > 1", "ece > 1; x"]
)
def test_invalid_conditions(text):
    with pytest.raises(InputError, match="gate must be|Unknown metric"):
        parse_gate(text)


def test_limits_in_per_cent():
    with pytest.raises(InputError, match=r"must compare with a fraction. Try 0.05 for 5 %"):
        parse_gate("ece > 5")


def test_metrics_that_were_not_computed(evaluation):
    with pytest.raises(InputError, match="aurc of groups was not computed"):
        check_gates(evaluation, ["worst_group.aurc > 0.1"])
    with pytest.raises(InputError, match="nll was not computed"):
        check_gates(evaluation, ["nll > 1"])
    plain = evaluate(np.array([True, False]), np.array([0.6, 0.7]), n_bootstrap=0)
    with pytest.raises(InputError, match="needs groups"):
        check_gates(plain, ["worst_group.ece > 0.1"])
    with pytest.raises(InputError, match="needs intervals"):
        check_gates(plain, ["ece.high > 0.1"])
