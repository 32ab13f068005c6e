"""Moments, the coupled update and parameter expansion."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, special

from asterism.model import joint, memoized, words


@pytest.fixture
def topics(world):
    return replace(world.topics, embedding_cov=np.zeros((3, 3)))


def moments_of(weights, embedding, shrinkage, cov_sum, topics):
    augmented = np.hstack([embedding, np.ones((len(embedding), 1))])
    sums = memoized.Sums(weights.T @ augmented, augmented.T @ augmented, np.sum(weights**2, axis=0), shrinkage, cov_sum)
    return memoized.couple(sums, topics)


def _moments(topics, rng, n=400):
    embedding = rng.normal(size=(n, 3)) @ np.diag([2.0, 1, 0.5]) + [1.0, 0, -1]
    weights = topics.mean + embedding @ topics.embedding.T + 0.1 * rng.normal(size=(n, 6))
    return moments_of(weights, embedding, np.zeros((2, 6)), np.zeros((3, 3)), topics), embedding


def test_moments_add(topics):
    rng = np.random.default_rng(0)
    weights, embedding = rng.normal(size=(30, 6)), rng.normal(size=(30, 3))
    nothing = np.zeros((2, 6)), np.zeros((3, 3))
    whole = moments_of(weights, embedding, *nothing, topics)
    parts = moments_of(weights[:11], embedding[:11], *nothing, topics) + moments_of(
        weights[11:], embedding[11:], *nothing, topics
    )
    np.testing.assert_allclose(whole.weight_embedding, parts.weight_embedding)
    np.testing.assert_allclose(whole.embedding_outer, parts.embedding_outer)
    np.testing.assert_allclose(whole.weight_square, parts.weight_square)


def test_documents_add_up_to_the_sums(topics):
    rng, n_dims = np.random.default_rng(0), 3
    solutions = [
        joint.Solution(
            rng.normal(size=n_dims),
            rng.normal(size=6),
            np.diag(rng.uniform(1, 2, n_dims)),
            rng.uniform(size=6),
            np.zeros(6),
        )
        for _ in range(5)
    ]
    sums = memoized.new_sums(topics)
    for solution in solutions:
        memoized.add_document(solution, sums)
    weights, gammas = (np.array([getattr(s, part) for s in solutions]) for part in ("weights", "embedding"))
    np.testing.assert_allclose(sums.weight_embedding, weights.T @ np.column_stack([gammas, np.ones(5)]))
    np.testing.assert_allclose(sums.embedding_outer[:-1, :-1], gammas.T @ gammas)
    assert sums.embedding_outer[-1, -1] == 5
    np.testing.assert_allclose(sums.shrinkage[1], sum(s.shrinkage**2 for s in solutions))
    np.testing.assert_allclose(sums.cov_sum, sum(np.linalg.inv(s.precision) for s in solutions))


def test_update_keeps_what_every_document_predicts_and_standardises_its_embedding(topics):
    """After expansion a has mean zero and covariance I/ρ, and U a + m is the regression's."""
    moments, embedding = _moments(topics, np.random.default_rng(1))
    updated, expansion = memoized.update(topics, moments)
    moved = expansion(embedding)
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(moved.T, bias=True), np.eye(3) / topics.priors.rho, atol=1e-10)
    predicted = updated.mean + moved @ updated.embedding.T
    np.testing.assert_allclose(predicted, topics.mean + embedding @ topics.embedding.T, atol=0.1)


def test_uncertain_embeddings_do_not_shrink_the_topics(topics):
    """E[a a'] and E[η a'] both hold the posterior covariance, so U stays; leaving it out of η shrinks U."""
    rng = np.random.default_rng(2)
    embedding = rng.normal(size=(500, 3))
    weights = topics.mean + embedding @ topics.embedding.T
    cov_sum = 500 * 0.5 * np.eye(3)
    coupled = moments_of(weights, embedding, np.full((2, 6), 500.0), cov_sum, topics)
    mean_field = moments_of(weights, embedding, np.zeros((2, 6)), cov_sum, topics)
    regression = [np.linalg.solve(m.embedding_outer, m.weight_embedding.T).T[:, :3] for m in (coupled, mean_field)]
    np.testing.assert_allclose(regression[0], topics.embedding, rtol=1e-6)
    assert np.linalg.norm(regression[1]) < 0.8 * np.linalg.norm(topics.embedding)


def test_what_the_regression_leaves_is_the_residual_with_its_uncertainty(topics):
    """At (U, m) themselves E[(η - m - u'a)²] = r² + s/τ + (1 - s)² u'H^-1 u, document by document."""
    rng = np.random.default_rng(4)
    weights, embedding, shrinkage = rng.normal(size=(30, 6)), rng.normal(size=(30, 3)), rng.uniform(size=(30, 6))
    cov = np.cov(rng.normal(size=(3, 9)))
    sums = np.array([shrinkage.sum(axis=0), np.sum(shrinkage**2, axis=0)])
    total = moments_of(weights, embedding, sums, 30 * cov, topics)
    residual = weights - topics.mean - embedding @ topics.embedding.T
    reach = np.einsum("km,mn,kn->k", topics.embedding, cov, topics.embedding)
    expected = np.mean(residual**2 + shrinkage / topics.priors.tau + (1 - shrinkage) ** 2 * reach)
    itself = np.column_stack([topics.embedding, topics.mean])
    assert memoized.optimal_weight_precision(itself, total) == pytest.approx(1 / expected)


def test_update_learns_the_precisions_that_it_is_told_to(topics):
    """Weights scatter by 0.1 around what embeddings predict: τ = 100."""
    moments, _ = _moments(topics, np.random.default_rng(1))
    given = topics.priors
    assert memoized.update(topics, moments)[0].priors == given
    updated, _ = memoized.update(topics, moments, {"tau"})
    assert updated.priors == replace(given, tau=pytest.approx(100, rel=0.1))
    updated, _ = memoized.update(topics, moments, {"alpha"})
    assert updated.priors == replace(given, alpha=pytest.approx(1 / np.mean(updated.embedding**2)))


def test_learned_precisions_stay_in_bounds(topics):
    """Nothing is left to explain, and there is nothing to explain it with."""
    embedding = np.random.default_rng(0).normal(size=(50, 3))
    weights = np.tile(topics.mean, (50, 1))
    moments = moments_of(weights, embedding, np.zeros((2, 6)), np.zeros((3, 3)), topics)
    priors = memoized.update(topics, moments, {"tau", "alpha"})[0].priors
    assert priors.tau == pytest.approx(memoized.LARGEST_PRECISION)
    assert priors.alpha == pytest.approx(memoized.LARGEST_PRECISION)


def test_expected_counts_hold_every_token(world):
    table, batch = world.table, world.batch
    out = np.zeros(len(table.topics), dtype=np.int64)
    entries = slice(batch.indptr[0], batch.indptr[1])
    shrinkage = 1 / (1 + special.softmax(world.weights[0]) * batch.counts[entries].sum())
    solution = joint.Solution(np.zeros(3), world.weights[0], np.eye(3), shrinkage, np.zeros(6))
    memoized.expected_word_topic(table, batch.words[entries], batch.counts[entries], solution, 1.0, 0.0, out)
    assert out.sum() / memoized.COUNT_UNIT == pytest.approx(batch.counts[entries].sum(), rel=1e-3)
    per_word = np.add.reduceat(np.append(out, 0), table.indptr[:-1]) * (np.diff(table.indptr) > 0)
    expected = np.zeros(40)
    expected[batch.words[entries]] = batch.counts[entries]
    np.testing.assert_allclose(per_word / memoized.COUNT_UNIT, expected, atol=1e-3)


def test_learned_concentration_recovers_the_planted_one(world):
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(2000, rng.dirichlet(np.full(300, 0.05))) for _ in range(30)])
    state = replace(world.topics, word_topic=sparse.csr_matrix(counts.T.astype(float)))
    for _ in range(100):
        beta = words.optimal_concentration(state)
        state = replace(state, priors=replace(state.priors, beta=beta))
    assert beta == pytest.approx(0.05, rel=0.1)
