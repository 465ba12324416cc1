"""The short form of a method: total, printable, parsed in one place; and what a method knew."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildcal import TemperatureScaling
from wildcal._old.calibrators import CALIBRATORS, DENSITY_METHODS
from wildcal._old.evaluation.knew import Knew
from wildcal._old.evaluation.methods import ROWS, Method, choose_methods, parse, split_list

NAMES = [*CALIBRATORS, *DENSITY_METHODS]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ts", "ts"),
        ("ts-all", "ts@clean,shifted"),
        ("energy-all", "energy@clean,ood,shifted"),
        ("energy-no-ood", "energy@clean"),
        ("window-no-ood", "window"),
        ("window-all", "window"),
        ("dac+ts-all", "dac+ts@clean,shifted"),
        ("ts@shifted, clean", "ts@clean,shifted"),
        ("dac-first+ets@shifted", "dac-first+ets@shifted"),
        ("dac+identity@clean", "dac"),
        ("energy@ood,clean", "energy"),
        ("ts@ood,clean", "ts@clean,ood"),
    ],
)
def test_short_forms(text, canonical):
    method = parse(text) if "identity" not in text else parse("dac@clean")
    assert str(method) == canonical
    assert parse(str(method)).rows == method.rows


@given(st.sampled_from(NAMES), st.sets(st.sampled_from(ROWS), min_size=1))
def test_the_canonical_form_comes_back(name, rows):
    try:
        method = Method("mine", parse(name).calibrator, rows)
    except ValueError:
        return  # another test has what is refused
    again = parse(str(method))
    assert (str(again), again.rows) == (str(method), method.rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tss", "there is no method 'tss'; did you mean 'ts'?"),
        ("energ@clean", "did you mean 'energy'?"),
        ("zzzzzz", "there is no method 'zzzzzz'; `wildcal.CALIBRATORS`"),
        ("ts+ets", "there is no method 'ts\\+ets'"),
        ("ts@", "rows must be of clean, ood, shifted, got"),
        ("ts@dirty", "got dirty"),
        ("ets@clean,ood", "ets does not use out-of-distribution rows"),
        ("energy@ood", "energy needs labeled rows"),
        ("identity@clean", "identity is not fitted"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_lists():
    assert list(split_list("ts@clean,shifted, ets,energy@clean,,")) == [
        *("ts@clean,shifted", "ets", "energy@clean"),
    ]
    assert list(split_list("all")) == list(CALIBRATORS)
    with pytest.raises(ValueError, match="there is no method 'clean'"):
        choose_methods(split_list("ts,clean"))


def test_tables_call_it_as_it_was_written():
    assert [m.name for m in choose_methods(["ts-all", "ts@clean,shifted"])] == [
        *("ts-all", "ts@clean,shifted")
    ]
    assert str(Method("mine", TemperatureScaling())) == "ts"


def test_knowledge_is_compared_as_data():
    labels, more = Knew(labels=800), Knew(labels=800, ood=100, ood_set="svhn")
    assert Knew().knows_less_than(labels)
    assert labels.knows_less_than(more)
    assert not more.knows_less_than(labels)
    assert not labels.knows_less_than(labels)
    assert not Knew(labels=900).knows_less_than(more)
    # What a method lacked is no knowledge.
    bare = Knew(labels=800, lacked=("shifted", "window"))
    assert not labels.knows_less_than(bare)
    assert bare.knows_less_than(more)


def test_knowledge_in_words_and_in_json():
    knew = Knew(labels=5000, ood=100, layers=3, shifted=(300, 300), window=256, lacked=())
    assert str(knew) == (
        "5,000 labels, 100 OOD rows, distances to training images in 3 layers,"
        " 2 shifted sets of 300 labels, unlabeled windows of 256 test rows"
    )
    assert str(Knew(labels=1, shifted=(3,), lacked=("window",))) == (
        "1 labels, 1 shifted set of 3 labels, no test window"
    )
    assert str(Knew()) == "nothing"
    assert json.loads(json.dumps(knew.to_dict()))["shifted"] == [300, 300]
