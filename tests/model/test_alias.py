"""Alias tables."""

import numpy as np
import pytest

from asterism.model.alias import AliasTable


def owned(table):
    """What each thing owns of the line, as a share."""
    own = np.minimum(table.threshold, 1)
    share = own + np.bincount(table.other, 1 - own, minlength=len(own))
    return share / len(own)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 1000])
@pytest.mark.parametrize("shape", [0.05, 1.0, 20.0])
def test_everything_owns_its_share(n, shape):
    rng = np.random.default_rng(n)
    for _ in range(20):
        weights = rng.gamma(shape, size=n) + 1e-12
        table = AliasTable.of(weights)
        assert table.threshold.min() > -1e-9
        np.testing.assert_allclose(owned(table), weights / weights.sum(), atol=1e-12)


def test_equal_weights_need_no_other():
    table = AliasTable.of(np.full(5, 0.3))
    np.testing.assert_allclose(owned(table), 0.2)
    np.testing.assert_array_equal(table.pick(np.array([0, 0.199, 0.2, 0.999])), [0, 0, 1, 4])


def test_a_thing_without_weight_is_never_picked():
    table = AliasTable.of(np.array([0.0, 1.0, 3.0]))
    picked = table.pick(np.linspace(0, 1, 3001)[:-1])
    np.testing.assert_allclose(np.bincount(picked, minlength=3) / 3000, [0, 0.25, 0.75], atol=1e-3)
