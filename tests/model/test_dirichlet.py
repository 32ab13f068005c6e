"""LDA's maths: a document's bound goes up, expected counts are counts, and a batch moves the topics by the step."""

import numpy as np
import pytest
from scipy import sparse, special

from asterism import sample_corpus
from asterism.model import dirichlet, words
from asterism.model.dirichlet import DirichletPriors, DirichletSettings, DirichletStatistics

PRIORS = DirichletPriors(0.2, 0.3)


def settings(max_steps=50, tol=1e-6, sparsity=(3, 12, 2)):
    return DirichletSettings(*sparsity, max_steps, tol)


def document_bound(weights, counts, concentration):
    """E[log p(words, θ)] - E[log q(θ)] with q(z) at its best, where weights are exp(E[log φ])."""
    alpha, expected_log = PRIORS.alpha, special.psi(concentration) - special.psi(concentration.sum())
    tokens = counts @ np.log(weights @ np.exp(expected_log))
    prior = special.gammaln(alpha * len(concentration)) - len(concentration) * special.gammaln(alpha)
    entropy = special.gammaln(concentration).sum() - special.gammaln(concentration.sum())
    return tokens + prior + entropy + ((alpha - concentration) * expected_log).sum()


@pytest.fixture
def counts():
    return sample_corpus(30, 5, 40, 3, mean_length=25, seed=1).counts


@pytest.fixture
def topics(counts):
    return dirichlet.start(counts, 5, PRIORS, 0, is_sparse=False)


def test_every_round_raises_the_bound(counts, topics):
    row = counts[3]
    weights = dirichlet.word_weights(topics, row.indices) * np.random.default_rng(0).uniform(0.1, 1, (row.nnz, 5))
    bounds = []
    for n in range(1, 12):
        concentration, steps = dirichlet.expect_document(weights, row.data, PRIORS.alpha, settings(n, 0.0))
        assert steps == n
        bounds.append(document_bound(weights, row.data, concentration))
    assert (np.diff(bounds) > -1e-9).all()
    assert bounds[-1] > bounds[0] + 0.01


def test_a_documents_counts_of_topics_are_its_tokens(counts, topics):
    row = counts[3]
    weights = dirichlet.word_weights(topics, row.indices)
    concentration, _ = dirichlet.expect_document(weights, row.data, PRIORS.alpha, settings(1000, 1e-9))
    assert concentration.sum() == pytest.approx(row.data.sum() + 5 * PRIORS.alpha)
    expected = dirichlet.expected_topics(weights, row.data, concentration)
    np.testing.assert_allclose(expected.sum(axis=1), row.data)
    np.testing.assert_allclose(expected.sum(axis=0) + PRIORS.alpha, concentration, atol=1e-3)


def test_with_every_topic_a_candidate_expectations_are_the_same(counts):
    start = dirichlet.start(counts, 5, PRIORS, 0, is_sparse=True)
    table = words.draw_table(start, words.kept_for_drawing(start.word_topic, 40, 5))
    everything = settings(sparsity=(5, 40, 5))
    for row in counts[:5]:
        dense = special.psi(start.word_topic[row.indices].toarray() + PRIORS.beta) - special.psi(start.topic_total)
        expected, _ = dirichlet.expect_document(np.exp(dense), row.data, PRIORS.alpha, everything)
        found, _ = dirichlet.expect_among_candidates(table, row.indices, row.data, PRIORS.alpha, everything)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_draws_are_of_tokens_given_the_others():
    """Two tokens of one word: the posterior over pairs of topics against draws of many documents."""
    weights, alpha = np.array([[0.5, 0.2, 0.1]]), 0.4
    table = words.DrawTable(np.array([0, 3]), np.arange(3, dtype=np.int32), weights[0], np.full(3, 1e-30))
    n_documents, pairs = 2000, np.zeros((3, 3))
    for d in range(n_documents):
        key = (0, 0, d)
        drawn, _ = dirichlet.draw_document(table, np.array([0]), np.array([2]), key, alpha, settings(6, 0.0))
        pairs[tuple(drawn)] += 1
    exact = weights.T * weights * (alpha**2 + alpha * np.eye(3))
    np.testing.assert_allclose(pairs / n_documents, exact / exact.sum(), atol=0.04)


def test_dense_topics_start_with_about_one_of_every_word(topics):
    assert topics.word_topic.dtype == np.float32
    assert 0.5 < topics.word_topic.min() < topics.word_topic.max() < 2
    assert topics.word_topic.std() == pytest.approx(dirichlet.START_SPREAD, rel=0.2)


def test_update_blends_old_and_new(counts, topics):
    found = np.arange(10.0).reshape(2, 5)
    moved = dirichlet.update(topics, DirichletStatistics(found, np.array([3, 7]), 1), scale=4.0, step=0.25)
    expected = 0.75 * topics.word_topic
    expected[[3, 7]] += found
    np.testing.assert_allclose(moved.word_topic, expected, rtol=1e-6)
    start = dirichlet.start(counts, 5, PRIORS, 0, is_sparse=True)
    found = sparse.csr_matrix(np.ones((40, 5)))
    moved = dirichlet.update(start, DirichletStatistics(found, np.arange(40), 1), scale=4.0, step=0.25)
    np.testing.assert_allclose(moved.word_topic.toarray(), 0.75 * start.word_topic.toarray() + 1)
