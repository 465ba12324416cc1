"""Array operations: against SciPy and by hand, on every array library, in blocks."""

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy import special

from wildcal.core import arrays

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (200, 7))
HARD = np.array([[1e5, 1e5 + 1, 1e5 - 2], [-1e30, 1e30, 0.0], [0.0, 0.0, 0.0], [5.0, 5.0, -700.0]])


FUNCTIONS = {
    "softmax": (arrays.softmax, lambda z: special.softmax(z, axis=1)),
    "log_softmax": (arrays.log_softmax, lambda z: special.log_softmax(z, axis=1)),
    "logsumexp": (arrays.logsumexp, lambda z: special.logsumexp(z, axis=1, keepdims=True)),
    "entropy": (
        arrays.entropy,
        lambda z: special.entr(special.softmax(z, axis=1)).sum(axis=1, keepdims=True),
    ),
    "softplus": (arrays.softplus, lambda z: np.logaddexp(0, z)),
    "is_top_class": (arrays.is_top_class, lambda z: np.eye(z.shape[1])[z.argmax(axis=1)]),
    "largest": (lambda xp, z: arrays.largest(xp, z, 3), lambda z: -np.sort(-z, axis=1)[:, :3]),
}


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, library):
    function, expected = FUNCTIONS[name]
    make = pytest.importorskip(library).asarray
    for z in (Z, HARD):
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
            rounded = z.astype(dtype)
            x = make(rounded)
            got = function(array_namespace(x), x)
            assert np.dtype(str(got.dtype).removeprefix("torch.").split(".")[-1]) == dtype
            wanted = expected(rounded.astype(np.float64))
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=tolerance, atol=tolerance)


def test_softmax_with_temperature():
    z = Z.copy()
    np.testing.assert_allclose(arrays.softmax(np, z, 2.0), special.softmax(Z / 2, axis=1))
    each = RNG.uniform(0.5, 2, (200, 1))
    xp = arrays.namespace(z)
    np.testing.assert_allclose(arrays.softmax(xp, z, each), special.softmax(Z / each, axis=1))
    np.testing.assert_array_equal(z, Z)
    shifted = (Z + 1e5).astype(np.float32)  # a constant costs no digits
    exact = special.softmax(shifted.astype(np.float64) / 3, axis=1)
    np.testing.assert_allclose(arrays.softmax(xp, shifted, 3.0), exact, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(1, 3), (8, 3), (9, 3), (50_000, 3), (600, 127), (600, 128), (3, 70_000)]
)
def test_blocks(shape):
    z = RNG.normal(size=shape)
    extra = RNG.normal(size=(len(z), 2))
    orders = []

    def function(block, more):
        orders.append(block.flags.c_contiguous)
        assert block.size <= max(arrays.BLOCK_ENTRIES, shape[1])
        return block * more[:, :1]

    got = arrays.in_blocks(function, z, extra)
    np.testing.assert_array_equal(got, z * extra[:, :1])
    assert got.flags.c_contiguous
    assert any(orders) == (len(z) <= 8 or shape[1] >= arrays.FEW_CLASSES)


def test_blocks_of_one_column():
    x = RNG.normal(size=200_000)
    np.testing.assert_array_equal(arrays.in_blocks(np.exp, x), np.exp(x))
    z = RNG.normal(size=(60_000, 4))
    np.testing.assert_array_equal(arrays.in_blocks(lambda b: b.max(axis=1), z), z.max(axis=1))


def test_masked_classes():
    z = np.array([[1.0, -np.inf, 2.0], [0.0, 1.0, 2.0], [-np.inf, -np.inf, -5.0]])
    xp = arrays.namespace(z)
    got = arrays.masked_apply(xp, arrays.softmax, z)
    np.testing.assert_allclose(got, special.softmax(z, axis=1), rtol=1e-12)
    assert got[0, 1] == 0.0
    # A formula that gives everything to the masked class leaves equal shares.
    got = arrays.masked_apply(xp, lambda xp, z: np.eye(3)[[1, 1, 1]], z)
    np.testing.assert_allclose(got, [[0.5, 0, 0.5], [0, 1, 0], [0, 0, 1]], atol=1e-20)
    np.testing.assert_array_equal(arrays.unmask(z)[0], [1.0, 2.0 - 1e4, 2.0])
    assert arrays.unmask(z[1:2]).base is z  # nothing to do, no copy
