"""Which topic a token belongs to: q(z = k) ∝ exp(ξ_k) exp(E[log φ_kv]), over the candidates of the token.

The candidates are the word's own topics (in the draw table) and the document's K_s heaviest topics. The mass
is laid out in two buckets that are summed apart, so that the second is shared by all words of a document:

    own   exp(ξ_k) (weight_kv - rest_k [k among the K_s])   over the word's own topics
    top   exp(ξ_k) rest_k                                   over the document's K_s topics
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .state import Floats, Ints
from .words import DrawTable


def heaviest_topics(weights: Floats, n: int) -> NDArray[np.int64]:
    """The n topics of largest weight, lower number first among equals, in ascending order."""
    return np.sort(np.argsort(-weights, kind="stable")[:n])


def candidate_mass(table: DrawTable, word: int, weights: Floats, top: NDArray[np.int64]) -> tuple[Ints, Floats]:
    """Topics and their mass, the own bucket then the top one; a topic in both appears twice."""
    own = slice(table.indptr[word], table.indptr[word + 1])
    own_topics = table.topics[own]
    scale = np.exp(weights - weights.max())
    rest_of_top = np.zeros_like(scale)
    rest_of_top[top] = scale[top] * table.rest[top]
    own_mass = scale[own_topics] * table.weights[own] - rest_of_top[own_topics]
    return np.concatenate([own_topics, top]), np.concatenate([own_mass, rest_of_top[top]])


def draw(topics: Ints, mass: Floats, uniforms: Floats) -> Ints:
    """One topic for each uniform number, by inverting the cumulative mass."""
    cumulative = np.cumsum(mass)
    index = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    return np.asarray(topics[np.minimum(index, len(topics) - 1)])


def responsibilities(topics: Ints, mass: Floats, n_topics: int) -> Floats:
    """q(z = k), dense [k]."""
    return np.asarray(np.bincount(topics, mass, minlength=n_topics) / mass.sum())
