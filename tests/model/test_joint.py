"""The joint solver: its step is Newton's, and it ends where nothing can be gained."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse, special

from asterism.model import joint
from asterism.model.state import Priors, Topics


@pytest.fixture(params=[0.0, 0.05])
def topics(world, request):
    """With point estimates of U (memoized inference) and with a covariance (mean field)."""
    return replace(world.topics, embedding_cov=request.param * np.eye(3))


def _packed(topics, counts):
    return lambda x: joint.objective(x[:3], x[3:], counts, topics)


def _second(f, x, a, b):
    """The mixed second difference of f at x along a and b."""
    return (f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / 4


def _fixed(counts):
    return lambda shares, step: counts


@pytest.mark.parametrize("n_tokens", [0.5, 8, 3000])
def test_scaled_shares_are_those_of_the_best_weights(topics, n_tokens):
    """ξ = μ + n/τ - ω maximises F for a given γ, and θ = τ ω / N is its softmax."""
    rng = np.random.default_rng(0)
    embedding, counts, tau = rng.normal(size=3), n_tokens * rng.dirichlet(np.full(6, 0.5)), topics.priors.tau
    mean = topics.mean + topics.embedding @ embedding
    omega = joint.scaled_shares(mean, counts, tau)
    weights = mean + counts / tau - omega
    np.testing.assert_allclose(special.softmax(weights), tau * omega / n_tokens, rtol=1e-8)
    slope = optimize.approx_fprime(weights, lambda x: joint.objective(embedding, x, counts, topics), 1e-6)
    np.testing.assert_allclose(slope, 0, atol=1e-4 * max(1, n_tokens))


def test_step_solves_newtons_system(topics):
    """The first step is Newton's on F with ξ maximised out, by finite differences."""
    counts = np.array([0.0, 1, 1, 0, 1, 1])
    start = 0.1 * np.random.default_rng(0).normal(size=3)

    def profile(embedding):
        mean = topics.mean + topics.embedding @ embedding
        weights = mean + counts / topics.priors.tau - joint.scaled_shares(mean, counts, topics.priors.tau)
        return joint.objective(embedding, weights, counts, topics)

    h = 1e-3
    gradient = np.array([(profile(start + h * a) - profile(start - h * a)) / (2 * h) for a in np.eye(3)])
    hessian = np.array([[_second(profile, start, h * a, h * b) / h**2 for b in np.eye(3)] for a in np.eye(3)])
    solution = joint.solve(topics, start, _fixed(counts), n_steps=1)
    np.testing.assert_allclose(solution.precision, -hessian, atol=1e-4 * np.abs(hessian).max())
    np.testing.assert_allclose(solution.embedding - start, np.linalg.solve(-hessian, gradient), atol=1e-4)


@pytest.mark.parametrize("trial", range(20))
def test_steps_reach_the_top_from_anywhere(topics, trial):
    rng = np.random.default_rng(trial)
    start, counts = 5 * rng.normal(size=3), rng.integers(0, 300, 6).astype(float)
    solution = joint.solve(topics, start, _fixed(counts), n_steps=60)
    reached = np.concatenate([solution.embedding, solution.weights])
    best = optimize.minimize(lambda x: -_packed(topics, counts)(x), reached)
    assert _packed(topics, counts)(reached) == pytest.approx(-best.fun, abs=1e-4)


def test_a_step_that_went_too_far_is_halved_back(topics, monkeypatch):
    """With H far too small every step would overshoot; it still ends at the top."""
    counts = np.array([30.0, 0, 2, 0, 1, 7])
    expected = joint.solve(topics, np.zeros(3), _fixed(counts), n_steps=60).embedding
    monkeypatch.setattr(joint, "curvature", lambda *given, exact=joint.curvature: exact(*given) / 2.5)
    actual = joint.solve(topics, np.zeros(3), _fixed(counts), n_steps=200).embedding
    np.testing.assert_allclose(actual, expected, atol=1e-3)


def test_steps_end_when_there_is_nothing_to_gain(topics):
    counts, calls = np.array([3.0, 0, 2, 0, 1, 7]), []

    def counted(shares, step):
        calls.append(step)
        return counts

    joint.solve(topics, np.zeros(3), counted, n_steps=100, tol=1e-6)
    assert 2 <= len(calls) <= 10


def test_a_document_without_tokens_is_at_the_prior(topics):
    solution = joint.solve(topics, np.ones(3), _fixed(np.zeros(6)), n_steps=3)
    np.testing.assert_allclose(solution.embedding, 0, atol=1e-12)
    np.testing.assert_allclose(solution.weights, topics.mean, atol=1e-12)


def test_without_steps_the_weights_are_the_priors(topics):
    solution = joint.solve(topics, np.ones(3), _fixed(np.ones(6)), n_steps=0)
    np.testing.assert_allclose(solution.weights, topics.mean + topics.embedding @ np.ones(3))


def test_five_steps_from_cold_do_at_a_thousand_topics():
    """Where alternation, as in the paper, still misses a quarter after 20 rounds."""
    rng = np.random.default_rng(1)
    n_topics, n_dims = 1000, 20
    nothing = np.zeros((n_dims, n_dims))
    embedding, word_topic = rng.normal(size=(n_topics, n_dims)), sparse.csr_matrix((5, n_topics))
    topics = Topics(embedding, nothing, nothing, np.zeros(n_topics), word_topic, Priors(0.1, 1.0, 1.0, 0.1))
    drawn = rng.choice(n_topics, 80, p=rng.dirichlet(np.full(n_topics, 0.01)))
    counts = np.bincount(drawn, minlength=n_topics).astype(float)
    values = [
        joint.objective(solution.embedding, solution.weights, counts, topics)
        for solution in (joint.solve(topics, np.zeros(n_dims), _fixed(counts), n) for n in (5, 40))
    ]
    missing = (values[1] - values[0]) / (
        values[1] - joint.objective(np.zeros(n_dims), np.zeros(n_topics), counts, topics)
    )
    assert missing < 0.01


def _document(n_topics, n_dims=4, seed=0):
    rng = np.random.default_rng(seed)
    nothing = np.zeros((n_dims, n_dims))
    word_topic = sparse.csr_matrix((5, n_topics))
    topics = Topics(
        rng.normal(size=(n_topics, n_dims)),
        nothing,
        nothing,
        rng.normal(size=n_topics),
        word_topic,
        Priors(1, 0.5, 2, 1),
    )
    return topics, special.softmax(3 * rng.normal(size=n_topics))


def test_curvature_is_what_eliminating_the_weights_leaves():
    """H = P + τ U'U - τ² U'B^-1 U."""
    topics, theta = _document(30)
    B = 2 * np.eye(30) + 40 * (np.diag(theta) - np.outer(theta, theta))
    U = topics.embedding
    expected = joint.embedding_precision(topics) + 2 * U.T @ U - 4 * U.T @ np.linalg.solve(B, U)
    np.testing.assert_allclose(joint.curvature(20 * theta, topics, light=0), expected, rtol=1e-9)


def test_light_topics_shape_the_curvature_together():
    """Close to exact where many topics bear little each, and never below the prior's precision."""
    topics, theta = _document(3000)
    exact, joined = (joint.curvature(20 * theta, topics, light) for light in (0, joint.LIGHT))
    assert np.abs(joined - exact).max() < 0.1 * np.abs(exact).max()
    alone, _ = np.linalg.eigh(joined - joint.embedding_precision(topics))
    assert alone.min() > 0
    nothing = joint.curvature(0 * theta, topics)
    np.testing.assert_array_equal(nothing, joint.embedding_precision(topics))
