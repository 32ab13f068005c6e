"""Counter-based random numbers: functions of their key, well spread, and normal where they say so."""

import numpy as np
import pytest
from scipy import stats

from asterism.model import random


def test_a_value_depends_on_its_key_alone():
    together = random.uniforms(random.stream(7, 3, np.arange(100), random.DRAWS), 5)
    alone = [random.uniforms(random.stream(7, 3, d, random.DRAWS), 5)[0] for d in range(100)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("position", range(5))
def test_every_part_of_the_key_matters(position):
    key = [1, 2, 3, 4, 5]
    other = key.copy()
    other[position] += 1
    assert random.stream(*key)[0] != random.stream(*other)[0]


def test_order_of_the_key_matters():
    assert random.stream(1, 2)[0] != random.stream(2, 1)[0]


def test_uniforms_are_uniform_across_streams_and_within_one():
    within = random.uniforms(random.stream(0, 1), np.arange(20_000))
    across = random.uniforms(random.stream(0, np.arange(20_000)), 0)
    for sample in (within, across):
        assert sample.min() >= 0
        assert sample.max() < 1
        assert stats.kstest(sample, "uniform").pvalue > 1e-3


def test_neighbouring_streams_are_uncorrelated():
    a = random.uniforms(random.stream(0, 1), np.arange(20_000))
    b = random.uniforms(random.stream(0, 2), np.arange(20_000))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


def test_normals_are_normal():
    sample = random.normals(random.stream(3, np.arange(200)), 101)
    assert sample.shape == (200, 101)
    assert stats.kstest(sample.ravel(), "norm").pvalue > 1e-3


def test_a_longer_row_of_normals_begins_with_the_shorter():
    streams = random.stream(3, np.arange(4))
    np.testing.assert_array_equal(random.normals(streams, 7), random.normals(streams, 12)[:, :7])


def test_permutation_holds_everything_once_and_depends_on_its_key():
    order = random.permutation(1000, 1, 2)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    assert not np.array_equal(order, random.permutation(1000, 1, 3))


def test_seeds_from_scikit_learn_random_states():
    assert random.seed_of(12) == 12
    assert random.seed_of(np.random.RandomState(0)) == random.seed_of(np.random.RandomState(0))
    assert random.seed_of(np.random.default_rng(0)) == random.seed_of(np.random.default_rng(0))
    assert random.seed_of(None) != random.seed_of(None)
