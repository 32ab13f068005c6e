"""Counter-based random numbers: a value is a function of what it is for, never of who asks first.

A stream is the hash of (seed, sweep, document, purpose, step); its n-th value is the hash of stream + n.
Threads, machines and batch sizes therefore cannot change a draw. The hash is the finaliser of SplitMix64.
`engines/_cpu_kernels.py` holds the same functions for one value at a time.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Streams: TypeAlias = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)

# What a stream is for; part of its key, so that no two uses share numbers.
DRAWS, NOISE, START, SPLIT, SHUFFLE = range(5)


def mix(x: Streams) -> Streams:
    """Hash 64 bits to 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * MIX_1
    x = (x ^ (x >> np.uint64(27))) * MIX_2
    return np.asarray(x ^ (x >> np.uint64(31)))


def stream(*key: ArrayLike) -> Streams:
    """The stream of a key, e.g. (seed, sweep, document, DRAWS, step); arrays broadcast."""
    state = np.zeros(1, dtype=np.uint64)
    for part in key:
        state = mix(state + GOLDEN + np.asarray(part).astype(np.uint64))
    return state


def bits(streams: Streams, index: ArrayLike) -> Streams:
    """The index-th 64 random bits of each stream."""
    return mix(streams + GOLDEN * (np.atleast_1d(index).astype(np.uint64) + np.uint64(1)))


def uniforms(streams: Streams, index: ArrayLike) -> NDArray[np.float64]:
    """Uniform on [0, 1)."""
    return np.asarray((bits(streams, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def normals(streams: Streams, n: int) -> NDArray[np.float64]:
    """The first n standard normals of each stream [..., n]: Box-Muller on the two halves of 64 bits."""
    halves = bits(streams[..., None], np.arange((n + 1) // 2))
    radius = np.sqrt(-2 * np.log(((halves >> np.uint64(32)).astype(np.float64) + 1) * 2.0**-32))
    angle = 2 * np.pi * (halves & np.uint64(0xFFFFFFFF)).astype(np.float64) * 2.0**-32
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return np.asarray(pairs.reshape(*pairs.shape[:-2], -1)[..., :n])


def permutation(n: int, *key: ArrayLike) -> NDArray[np.int64]:
    """A random order of range(n)."""
    return np.argsort(bits(stream(*key), np.arange(n)), kind="stable")


def seed_of(random_state: Any) -> int:
    """An integer seed from what scikit-learn calls a random state: None, an int, or a generator."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        draw = random_state.integers if isinstance(random_state, np.random.Generator) else random_state.randint
        return int(draw(2**31 - 1))
    return int(random_state) % 2**63
