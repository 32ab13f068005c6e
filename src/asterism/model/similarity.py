"""Which documents are alike: vectors whose inner product ranks them.

The inner product of embeddings, the paper's choice, has two faults that grow with U: the few directions in which
documents differ most drown the others, and long documents, whose embeddings are long, come first for every query. So
directions are evened out, as far as they are more than noise, and lengths are, too.
"""

from __future__ import annotations

import numpy as np

from .state import Floats, Topics

# Of the prior's variance: added to a direction's own, so that what hardly varies is not blown up.
NOISE_SHARE = 0.3
# Of a typical vector's length: a vector much shorter than this says little, and stays short.
SHORT = 0.3


def search_vectors(embedding: Floats, topics: Topics) -> Floats:
    """Embeddings [d, m] with the model's covariance of documents, I/ρ - Σ_a, evened out and lengths softened."""
    prior = 1 / topics.priors.rho
    variances, directions = np.linalg.eigh(prior * np.eye(topics.n_dims) - topics.document_cov)
    variances = np.maximum(variances, 0)
    scale = 1 / np.sqrt(variances + NOISE_SHARE * prior)
    vectors = embedding @ (directions * scale)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    typical = np.sqrt(np.sum(variances * scale**2))
    return np.asarray(vectors / np.maximum(lengths + SHORT * typical, np.finfo(np.float32).tiny))
