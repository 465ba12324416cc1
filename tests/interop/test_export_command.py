"""`wildcal export`: whole outputs, and one line for everything that can go wrong."""

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from wildcal import load, save
from wildcal.cli.main import run
from wildcal.interop.onnx.agreement import agreement

WEIGHTS = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    for name in ("energy", "context", "irm", "histogram", "bbq"):
        save(fitted(name), f"{name}.json")
    return tmp_path


def write_network(path, nodes, output, shape=("n", 7), kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.fixture
def classifier(folder):
    write_network("net.onnx", [helper.make_node("MatMul", ["x", "w"], ["scores"])], "scores")


def test_export(folder, capsys):
    assert run("export energy.json -o cal.onnx".split()) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "input   logits                      float     n x 5",
        "output  probabilities               float     n x 5",
        "output  confidence                  float     n",
        "output  temperature                 float     n",
        "output  energy                      float     n",
    ]
    start, rest = err.split("differ by at most ")
    assert start == "Wrote cal.onnx, operator set 17. ONNX Runtime and NumPy "
    number, rest = rest.split(" ", 1)
    assert 0 < float(number) < 1e-5
    assert rest == "on 301 random rows.\n"


@pytest.mark.parametrize("name", ["context", "irm", "histogram", "bbq"])
def test_export_of_other_methods(name, folder, capsys, open_model):
    words = f"export {name}.json -o cal.onnx --dtype float64 --opset 21".split()
    assert run(words) == 0
    assert "operator set 21" in capsys.readouterr().err
    z = np.random.default_rng(0).standard_normal((4, 5))
    feed = {"context": np.zeros((1, 20))} if name == "context" else {}
    found = open_model("cal.onnx")(logits=z, **feed)["probabilities"]
    np.testing.assert_allclose(found, load(f"{name}.json").predict_proba(z), atol=1e-12)


@pytest.mark.parametrize("name", ["energy", "context"])
def test_attach(name, classifier, capsys, open_model):
    assert run(f"export {name}.json -o both.onnx --attach net.onnx".split()) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "input   x                           float     n x 7"
    assert "output  calibrated_probabilities    float     n x 5" in out.splitlines()
    assert err.startswith("Calibrating the value 'scores' of ")
    assert "Wrote both.onnx, operator set 18. ONNX Runtime" in err
    assert err.endswith(" on 64 random rows.\n")
    x = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    feed = {"calibrated_context": np.zeros((1, 20), np.float32)} if name == "context" else {}
    found = open_model("both.onnx")(x=x, **feed)["calibrated_confidence"]
    np.testing.assert_allclose(found, load(f"{name}.json").confidence(x @ WEIGHTS), atol=1e-5)


def test_a_softmax_is_refused_by_its_node(folder, capsys):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=1),
    ]
    write_network("soft.onnx", nodes, "p")
    assert run("export energy.json -o both.onnx --attach soft.onnx".split()) == 1
    assert capsys.readouterr().err == (
        "error: p must hold logits, but it comes from the node Softmax: these are probabilities,"
        " and the energy of a row is lost in them. Use --logits-output scores.\n"
    )
    line = "export energy.json -o both.onnx --attach soft.onnx --logits-output scores"
    assert run(line.split()) == 0


def test_a_softmax_is_refused_by_its_numbers(folder, capsys):
    """Where no node tells: a softmax as the square of its root."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["s"], axis=1),
        helper.make_node("Sqrt", ["s"], ["r"]),
        helper.make_node("Mul", ["r", "r"], ["p"]),
    ]
    write_network("soft.onnx", nodes, "p")
    assert run("export energy.json -o both.onnx --attach soft.onnx".split()) == 1
    err = capsys.readouterr().err
    assert "error: p must hold logits, but on random inputs every row lies in [0, 1]" in err
    assert "Traceback" not in err


def test_networks_whose_inputs_cannot_be_made_up(folder, capsys):
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)]
    nodes.append(helper.make_node("MatMul", ["f", "w"], ["scores"]))
    write_network("tokens.onnx", nodes, "scores", kind=TensorProto.INT64)
    assert run("export energy.json -o both.onnx --attach tokens.onnx".split()) == 0
    assert "Not compared with NumPy: what the network takes cannot be made up" in (
        capsys.readouterr().err
    )
    write_network("open.onnx", nodes, "scores", shape=("n", "k"))
    assert run("export energy.json -o both.onnx --attach open.onnx".split()) == 0
    assert "Not compared with NumPy" in capsys.readouterr().err


def test_operators_that_onnx_runtime_does_not_know(folder, capsys):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"])]
    nodes.append(helper.make_node("Own", ["h"], ["scores"], domain="my.ops"))
    write_network("own.onnx", nodes, "scores")
    model = onnx.load("own.onnx")
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(model, "own.onnx")
    assert run("export energy.json -o both.onnx --attach own.onnx".split()) == 0
    err = capsys.readouterr().err
    assert "Not compared: ONNX Runtime cannot open it: " in err
    assert "my.ops:Own" in err
    assert (folder / "both.onnx").exists()


@pytest.mark.parametrize(("batch", "n_rows"), [(1, 8), (3, 9), (8, 8), (16, 16)])
def test_networks_for_a_fixed_number_of_rows(batch, n_rows, folder, capsys):
    """A single row may look normalized by chance, so there are always some."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"])]
    write_network("fixed.onnx", nodes, "scores", shape=(batch, 7))
    assert run("export context.json -o both.onnx --attach fixed.onnx".split()) == 0
    assert capsys.readouterr().err.endswith(f" on {n_rows} random rows.\n")


def test_half_networks(folder, capsys, open_model):
    nodes = [
        helper.make_node("Cast", ["w"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["x", "half"], ["scores"]),
    ]
    write_network("half.onnx", nodes, "scores", kind=TensorProto.FLOAT16)
    model = onnx.load("half.onnx")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, "half.onnx")
    assert run("export energy.json -o both.onnx --attach half.onnx".split()) == 0
    out, err = capsys.readouterr()
    assert "output  calibrated_logits           float     n x 5" in out.splitlines()
    assert "differ by at most" in err
    x = np.random.default_rng(0).standard_normal((99, 7)).astype(np.float16)
    found = open_model("both.onnx")(x=x)
    expected = load("energy.json").confidence(found["scores"])
    np.testing.assert_allclose(found["calibrated_confidence"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("export energy.json -o cal.json", 1, "the output must be a .onnx file, got cal.json"),
        ("export absent.json -o cal.onnx", 1, "absent.json"),
        ("export energy.json -o cal.onnx --attach absent.onnx", 1, "there is no network absent"),
        ("export energy.json -o cal.onnx --attach energy.json", 1, "cannot read energy.json as an"),
        ("export energy.json -o cal.onnx --opset 7", 1, "opset must be from 13 to"),
        ("export energy.json -o no/cal.onnx", 1, "the folder no does not exist"),
        ("export energy.json -o cal.onnx --logits-output z", 2, "--logits-output goes with"),
        ("export energy.json -o cal.onnx --attach net.onnx --opset 17", 2, "are those of the net"),
        ("export energy.json -o cal.onnx --dtype int8", 2, "'int8' is not one of"),
        ("export energy.json", 2, "Missing option '-o'"),
    ],
)
def test_one_line_errors(line, code, text, folder, capsys):
    assert run(line.split()) == code
    err = capsys.readouterr().err
    assert text in err
    assert "Traceback" not in err
    assert not (folder / "cal.onnx").exists()


def test_without_the_extra(folder, capsys, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("wildcal.interop.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert run("export energy.json -o cal.onnx".split()) == 1
    assert capsys.readouterr().err == (
        'error: wildcal.interop.onnx needs onnx. Install it with: pip install "wildcal[onnx]"\n'
    )


def test_without_onnx_runtime(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert run("export energy.json -o cal.onnx".split()) == 0
    assert "Not compared: comparing with NumPy needs ONNX Runtime." in capsys.readouterr().err


def test_help_has_an_example(capsys):
    assert run(["export", "--help"]) == 0
    assert "wildcal export energy.json -o cal.onnx" in capsys.readouterr().out


def test_a_file_that_disagrees_is_not_written(folder, capsys, wrong_numbers):
    assert run("export energy.json -o cal.onnx".split()) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ONNX Runtime and NumPy differ by ")
    assert err.endswith("more than 1e-05; the file was not written.\n")
    assert not (folder / "cal.onnx").exists()


@pytest.mark.parametrize("name", ["isotonic", "irm"])
def test_steps_agree(name, fitted):
    """Thousands of thresholds: the last bit of a float32 softmax would be visible."""
    from wildcal.interop.maps import map_of
    from wildcal.interop.onnx.export import as_model

    calibrator = fitted(name, 10, n=20_000)
    found = agreement(as_model(map_of(calibrator)), calibrator)
    assert found.n_rows == 301
    assert found.difference <= 1e-6


def test_behind_probabilities(folder, capsys, open_model):
    """As of a converted scikit-learn model, whose only float matrix is `probabilities`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    write_network("soft.onnx", nodes, "probabilities")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 7)).astype(np.float32)
    z = x @ WEIGHTS
    proba = np.exp(z - z.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    y = [rng.choice(5, p=np.sqrt(p) / np.sqrt(p).sum()) for p in proba.astype(float)]
    np.savez("val.npz", proba=proba, y=y)
    assert run("fit val.npz --input proba --method ts -o ts.json".split()) == 0
    assert run("apply ts.json val.npz -o out.npz".split()) == 0
    assert run("export ts.json -o both.onnx --attach soft.onnx".split()) == 0
    found = open_model("both.onnx")(x=x)["calibrated_probabilities"]
    with np.load("out.npz") as out:
        np.testing.assert_allclose(found, out["proba"], atol=1e-5)
    capsys.readouterr()
    assert run("export ts.json -o soft.onnx --attach soft.onnx".split()) == 2
    assert "would replace a file that is read" in capsys.readouterr().err
