"""Vectors for retrieval."""

import numpy as np
import pytest
from scipy import sparse

from asterism.model.similarity import search_vectors
from asterism.model.state import Priors, Topics


def topics(variances, rho=0.1):
    """A model whose documents spread by these variances along the axes."""
    n_dims = len(variances)
    cov = np.eye(n_dims) / rho - np.diag(variances)
    words = sparse.csr_matrix((3, 2))
    return Topics(np.zeros((2, n_dims)), np.zeros((n_dims, n_dims)), cov, np.zeros(2), words, Priors(1, rho, 1, 1))


def test_directions_are_evened_out_but_noise_is_not_blown_up():
    rng = np.random.default_rng(0)
    variances = np.array([9.0, 1.0, 1e-4])
    embedding = rng.normal(size=(20_000, 3)) * np.sqrt(variances)
    spread = np.sqrt(np.linalg.eigvalsh(np.cov(search_vectors(embedding, topics(variances)).T)))
    assert spread[2] / spread[1] < 1.5  # 3 to 1 before
    assert spread[0] < 0.05


def test_the_length_of_a_document_no_longer_decides():
    model = topics([5.0, 5.0])
    query, close, far = np.array([[3.0, 0.6]]), np.array([[3.0, 0.9]]), np.array([[5.0, 9.0]])
    assert query @ far.T > query @ close.T
    vectors = search_vectors(np.vstack([query, close, far]), model)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_a_document_that_says_little_ranks_behind_one_that_says_the_same_clearly():
    vectors = search_vectors(np.array([[3.0, 0.0], [3.0, 0.1], [0.1, 0.0]]), topics([5.0, 5.0]))
    assert vectors[0] @ vectors[1] > 3 * (vectors[0] @ vectors[2]) > 0


@pytest.mark.parametrize("variances", [[0.0, 0.0], [10.0, 0.0], [-1e-9, 3.0]])
def test_odd_models_and_empty_documents_give_finite_vectors(variances):
    vectors = search_vectors(np.array([[0.0, 0.0], [1.0, -2.0]]), topics(variances))
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(vectors[0], 0)


def test_turning_the_space_changes_no_similarity():
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    embedding, model = rng.normal(size=(6, 3)), topics([4.0, 2.0, 0.5])
    turned = Topics(
        model.embedding @ turn,
        model.embedding_cov,
        turn.T @ model.document_cov @ turn,
        model.mean,
        model.word_topic,
        model.priors,
    )
    first, second = search_vectors(embedding, model), search_vectors(embedding @ turn, turned)
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=1e-10)
