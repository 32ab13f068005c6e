"""Kernels against the functions of model/ that they name, and how they are compiled."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from asterism.engines import _cpu_kernels as kernels
from asterism.engines._jit import exp_of, log_of, sin_pi_of
from asterism.model import random, tokens

# Parts of kernels have no door from Python; these are doors.


@numba.njit
def fill_normals(stream, first_pair, out):
    kernels.fill_normals(stream, first_pair, out)


@numba.njit
def substream(stream, part):
    return kernels.substream(stream, part)


@numba.njit
def uniform(stream, index):
    return kernels.uniform(stream, index)


@numba.njit
def mark_heaviest(weights, heap, marked):
    kernels.mark_heaviest(weights, heap, marked)


@numba.njit
def exponentials(x, out):
    for i in range(x.size):
        out[i] = exp_of(x[i])


@numba.njit
def logarithms(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = log_of(x[i])
    return out


@numba.njit
def sines(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = sin_pi_of(x[i])
    return out


@numba.njit
def largest(values):
    return kernels.largest(values)


@pytest.mark.parametrize("n", [1, 2, 7, 128])
def test_normals_equal_the_references(n):
    stream = random.stream(3, 4)
    out = np.empty(n)
    fill_normals(stream[0], 0, out)
    np.testing.assert_allclose(out, random.normals(stream, n)[0], rtol=1e-12, atol=1e-12)


def test_normals_of_a_piece_are_those_of_the_whole():
    stream, out = random.stream(3, 4), np.empty(7)
    fill_normals(stream[0], 5, out)
    np.testing.assert_allclose(out, random.normals(stream, 17)[0, 10:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 7, 10_000])
def test_normals_in_single_precision_are_near_the_references(n):
    stream = random.stream(3, 4)
    out = np.empty(n, np.float32)
    fill_normals(stream[0], 0, out)
    np.testing.assert_allclose(out, random.normals(stream, n)[0], rtol=1e-5, atol=1e-5)


def test_logarithms_and_sines_are_right_to_a_few_bits_in_single_precision():
    x = np.concatenate([np.geomspace(2.0**-32, 1e30, 100_001), [1.0, 0.70710677, 0.9999999]]).astype(np.float32)
    np.testing.assert_allclose(logarithms(x), np.log(x.astype(np.float64)), rtol=3e-7, atol=1e-7)
    x = np.linspace(-1, 1, 100_001).astype(np.float32)
    np.testing.assert_allclose(sines(x), np.sin(np.pi * x.astype(np.float64)), rtol=0, atol=3e-7)


def test_uniforms_and_streams_equal_the_references():
    assert substream(random.stream(3, 4)[0], 5) == random.stream(3, 4, 5)[0]
    for index in range(20):
        assert uniform(random.stream(9)[0], index) == random.uniforms(random.stream(9), index)[0]


@pytest.mark.parametrize("n_top", [1, 2, 5, 30, 31, 60])
def test_heaviest_topics_equal_the_references(n_top):
    rng = np.random.default_rng(n_top)
    for _ in range(20):
        weights = rng.integers(0, 6, 31).astype(float)  # many ties
        marked = np.empty(31, dtype=bool)
        mark_heaviest(weights, np.empty(min(n_top, 31), np.int32), marked)
        np.testing.assert_array_equal(np.flatnonzero(marked), tokens.heaviest_topics(weights, n_top))


def test_exponentials_are_right_to_a_bit_or_two_in_single_precision():
    x = np.concatenate([np.linspace(-86.9, 87.9, 100_001), [0.0, -1e-30, 1e-30]]).astype(np.float32)
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=2.5e-7)
    beyond = np.array([-88.0, -1e30, -np.inf], dtype=np.float32)  # of θ's largest: nothing
    exponentials(beyond, out)
    assert (out[:3] < 1e-37).all()


def test_exponentials_are_numpys_in_double_precision():
    x, out = np.linspace(-700, 700, 1001), np.empty(1001)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)


@pytest.mark.parametrize("n", range(1, 10))
def test_the_largest_is_found_wherever_it_is(n):
    for place in range(n):
        values = -1.0 - np.arange(n, dtype=np.float32)
        values[place] = -0.5
        assert largest(values) == np.float32(-0.5)


def test_the_same_code_runs_without_the_compiler():
    """NUMBA_DISABLE_JIT=1: kernels stay Python, to be stepped through; draws are the same."""
    program = """
import numpy as np
from asterism.engines import _cpu_kernels as kernels
from asterism.engines._jit import exp_of
from asterism.model import random
print(type(kernels.mix).__name__, repr(kernels.uniform(random.stream(9)[0], 3)))
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    kind, value = done.stdout.split(maxsplit=1)
    assert kind == "function"
    assert float(value.replace("np.float64(", "").rstrip(")\n")) == random.uniforms(random.stream(9), 3)[0]


def test_nothing_is_compiled_again_in_the_next_process(tmp_path):
    """The second process finds every kernel on disk."""
    program = """
import numpy as np, numba
from asterism import TopicEmbeddingModel, sample_corpus
from asterism.engines import _cpu_adagrad_kernels as adagrad, _cpu_joint_kernels as joint, _cpu_kernels
from asterism.engines import _cpu_lda_kernels as lda, _cpu_token_kernels as tokens
counts = sample_corpus(30, 3, 40).counts
for inference in ("svi", "memoized"):
    settings = dict(inference=inference, max_sweeps=2, warm_sweeps=1, draw_sweeps=1, random_state=0)
    TopicEmbeddingModel(3, 2, **settings).fit(counts).score(counts)
modules = _cpu_kernels, adagrad, joint, lda, tokens
everything = [value for module in modules for value in vars(module).values()]
dispatchers = [k for k in everything if isinstance(k, numba.core.registry.CPUDispatcher)]
print(sum(sum(k.stats.cache_misses.values()) for k in dispatchers))
print(sum(sum(k.stats.cache_hits.values()) for k in dispatchers))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert int(first[0]) > 0
    assert int(second[0]) == 0
    assert int(second[1]) > 0


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("torch", "ray", "numba", "bokeh", "sklearn")
    program = f"import sys, asterism; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
