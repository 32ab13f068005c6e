"""Updates of a document's own variables: gradients, optima, and the two loops built of them."""

import numpy as np
from scipy import optimize, special

from asterism.model import document, tokens
from asterism.model.state import LocalSettings


def _sampled_objective(weights, mean, topic_counts, noise, tau):
    """The part of the bound that depends on ξ, its expectation replaced by the samples' mean."""
    log_normaliser = special.logsumexp(weights + tau**-0.5 * noise, axis=1).mean()
    return -0.5 * tau * np.sum((weights - mean) ** 2) + topic_counts @ weights - topic_counts.sum() * log_normaliser


def test_weight_gradient_is_the_finite_difference_of_the_bound(world):
    mean, counts = world.rng.normal(size=6), world.rng.integers(0, 9, 6).astype(float)
    noise, weights = world.rng.normal(size=(3, 6)), world.weights[0]
    gradient = document.weight_gradient(weights, mean, counts, noise, tau=1.7)
    numeric = optimize.approx_fprime(weights, _sampled_objective, 1e-6, mean, counts, noise, 1.7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)


def test_embedding_is_where_the_gradient_of_the_bound_vanishes(world):
    """The bound's part in γ is τ ξ'U γ - γ'(ρ I + τ (K Σ_u + U'U)) γ / 2."""
    topics, tau = world.topics, world.topics.priors.tau
    gamma = document.embed(world.weights[0], topics)
    gradient = tau * (world.weights[0] - topics.mean) @ topics.embedding - np.linalg.inv(topics.document_cov) @ gamma
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


def test_draws_follow_the_responsibilities(world):
    weights, word = world.weights[0], int(world.batch.words[0])
    top = tokens.heaviest_topics(weights, 2)
    topics, mass = tokens.candidate_mass(world.table, word, weights, top)
    uniforms = (np.arange(20_000) + 0.5) / 20_000
    drawn = np.bincount(tokens.draw(topics, mass, uniforms), minlength=6) / 20_000
    np.testing.assert_allclose(drawn, tokens.responsibilities(topics, mass, 6), atol=2e-4)


def test_responsibilities_are_the_formula_over_all_candidates(world):
    """With every topic a candidate: q(z = k) ∝ exp(ξ_k) weight_kv, or rest_k where v is unknown to k."""
    weights, table = world.weights[0], world.table
    for word in range(40):
        full = table.rest.copy()
        own = slice(table.indptr[word], table.indptr[word + 1])
        full[table.topics[own]] = table.weights[own]
        mass = tokens.candidate_mass(table, word, weights, np.arange(6))
        expected = np.exp(weights) * full
        np.testing.assert_allclose(tokens.responsibilities(*mass, 6), expected / expected.sum())


def test_topics_outside_the_candidates_are_never_drawn(world):
    weights, table = world.weights[0], world.table
    few = np.flatnonzero(np.diff(table.indptr) < 4)
    assert len(few)
    for word in few:
        top = tokens.heaviest_topics(weights, 1)
        candidates, mass = tokens.candidate_mass(table, int(word), weights, top)
        others = np.setdiff1d(np.arange(6), candidates)
        np.testing.assert_array_equal(tokens.responsibilities(candidates, mass, 6)[others], 0)


def test_heaviest_topics_prefers_the_lower_number_among_equals():
    np.testing.assert_array_equal(tokens.heaviest_topics(np.array([1.0, 2, 2, 0, 2]), 2), [1, 2])


def test_sampling_a_document_repeats_with_its_key_and_ends_by_tolerance(world):
    words, counts = world.batch.words[:5], world.batch.counts[:5]

    def sample(key, **changes):
        settings = LocalSettings(6, 40, 6, **changes)
        return document.sample_document(world.topics, world.table, words, counts, key, settings)

    first, again, other = sample((1, 0, 9)), sample((1, 0, 9)), sample((1, 1, 9))
    np.testing.assert_array_equal(first[2], again[2])
    assert not np.array_equal(first[2], other[2])
    assert sample((1, 0, 9), tol=0.0, max_steps=7)[3] == 7
    assert sample((1, 0, 9), tol=1e9)[3] == 1


def test_documents_without_words_have_the_prior_mean(world):
    nothing = np.array([], dtype=np.int32)
    embedding, weights, _ = document.infer_document(world.topics, world.table, nothing, nothing, 6)
    assert not embedding.any()
    np.testing.assert_array_equal(weights, world.topics.mean)
    draws, embedding, weights, steps = document.sample_document(
        world.topics, world.table, nothing, nothing, (0, 0, 0), LocalSettings(6, 40, 6)
    )
    assert not embedding.any()
    np.testing.assert_array_equal(weights, world.topics.mean)
    assert (len(draws), steps) == (0, 0)


def test_inferred_documents_are_at_a_stationary_point(world):
    start, stop = world.batch.indptr[3], world.batch.indptr[4]
    words, counts = world.batch.words[start:stop], world.batch.counts[start:stop]
    tau, n_tokens = world.topics.priors.tau, counts.sum()
    embedding, predictive, omega = document.infer_document(world.topics, world.table, words, counts, 6)
    # Tokens to come have the topics of those that are there, and some by what the embedding expects.
    mean = world.topics.mean + world.topics.embedding @ embedding
    of_prior = document.PRIOR_IN_TOKENS * special.softmax(mean)
    topic_counts = special.softmax(predictive) * (n_tokens + document.PRIOR_IN_TOKENS) - of_prior
    expected = document.expected_counts(world.table, words, counts, np.log(omega), np.arange(6), omega, tau)
    np.testing.assert_allclose(topic_counts, expected, atol=0.1)
    weights = mean + topic_counts / tau - omega
    gradient = document.weight_gradient(weights, mean, topic_counts, np.zeros((1, 6)), tau)
    assert np.abs(gradient).max() < 2e-2
    np.testing.assert_allclose(embedding, document.embed(weights, world.topics), atol=1e-3)
