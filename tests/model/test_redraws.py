"""Tokens given all others: their own draws, or what is expected of them, left out of the counts."""

import numpy as np
import pytest
from scipy import sparse, special

from asterism.model import document, joint, tokens, words
from asterism.model.state import Priors, Topics

N_TOPICS, TAU, BETA = 5, 0.4, 0.3


@pytest.mark.parametrize("tau", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("x", [-60.0, -4.0, 0.5, 30.0])
def test_share_left_is_that_of_one_count_less(x, tau):
    omega = special.wrightomega(x)
    left = special.wrightomega(x - 1 / tau)
    assert tokens.share_left(omega, 1 / tau) == pytest.approx(left / omega, rel=1e-6)
    assert tokens.share_left(np.zeros(1), 1 / tau) == pytest.approx(np.exp(-1 / tau))  # ω too small to see


@pytest.mark.parametrize("is_counted", [False, True])
def test_what_a_token_leaves_is_what_it_has(is_counted):
    """Responsibilities r solve r ∝ mass(θ and, where they were counted, n_kv with r counts less), to what the rounds
    leave."""
    rng = np.random.default_rng(3)
    omega, counts, beta, tau = rng.gamma(0.3, 2, 40), 100 * rng.dirichlet(np.full(40, 0.2)), 0.01, 0.2
    mass, of_prior = omega * (counts + beta) / 500, beta / (counts + beta)
    kept = tokens.leave_itself(mass, np.zeros(40), omega, tau, of_prior, 1 / beta if is_counted else 0.0)
    r = kept / kept.sum()
    left = np.maximum(counts - r, 0) if is_counted else counts
    expected = omega * (left + beta) / 500 * tokens.share_left(omega, r / tau)
    np.testing.assert_allclose(r, expected / expected.sum(), atol=0.03)
    plain = mass / mass.sum()
    assert r[np.argmax(plain)] < plain.max() - 0.01
    is_light = plain < tokens.LEAST_SHARE * tau
    np.testing.assert_array_equal(kept[is_light], mass[is_light])


@pytest.fixture
def topics():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (6, N_TOPICS)) * rng.integers(0, 2, (6, N_TOPICS))
    counts[0] = 1, 0, 2, 0, 7
    counts[1] = 0, 3, 1, 1, 0
    zeros = np.zeros((2, 2))
    embedding, mean = rng.normal(size=(N_TOPICS, 2)), 0.3 * rng.normal(size=N_TOPICS)
    return Topics(
        embedding, zeros, np.eye(2), mean, sparse.csr_matrix(counts.astype(float)), Priors(0.1, 0.1, TAU, BETA)
    )


@pytest.mark.parametrize("n_top", [2, N_TOPICS])
def test_redraws_follow_the_mass_without_the_token(topics, n_top):
    """Of every token, by a uniform grid, against the formula: n_k - 1 + c π_k for n_k + c π_k, and n_kv - 1 + β for
    n_kv + β."""
    table = words.draw_table(topics, np.ones(topics.word_topic.nnz, dtype=bool), collapsed=True)
    of_words, counts, draws = np.array([0, 1]), np.array([2, 1]), np.array([0, 4, 2])
    drawn = np.bincount(draws, minlength=N_TOPICS).astype(float)
    solution = joint.solve(topics, np.zeros(2), lambda shares, step: drawn, 12)
    weights = document.predictive_weights(document.prior_mean(solution.embedding, topics), drawn)
    grid = (np.arange(4000) + 0.5) / 4000
    found = np.array(
        [document.redraw_tokens(topics, table, of_words, counts, draws, weights, np.full(3, u), n_top) for u in grid]
    )
    total, pi = topics.topic_total, special.softmax(topics.mean + topics.embedding @ solution.embedding)
    scale = drawn + document.PRIOR_IN_TOKENS * pi
    top = tokens.heaviest_topics(scale, n_top)
    for token, (word, k) in enumerate(zip([0, 0, 1], draws, strict=True)):
        n = topics.word_topic.toarray()[word]
        can = (n > 0) | np.isin(np.arange(N_TOPICS), top)
        mass = np.where(can, scale * (n + BETA) / total, 0)
        # At least the document's own part of the mass stays where the topic is among the heaviest.
        least = scale[k] * BETA / total[k] if k in top else 0.0
        mass[k] = max((scale[k] - 1) * (n[k] - 1 + BETA) / total[k], least)
        shares = np.bincount(found[:, token], minlength=N_TOPICS) / len(grid)
        np.testing.assert_allclose(shares, mass / mass.sum(), atol=1e-3)
        plain = np.where(can, scale * (n + BETA) / total, 0)
        assert shares[k] < plain[k] / plain.sum() - 0.02
