"""The joint solver: its step is Newton's, it never goes down, and it ends where nothing can be gained."""

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


def test_step_solves_newtons_system(topics):
    rng = np.random.default_rng(0)
    counts = np.array([0.0, 1, 1, 0, 1, 1])
    x = 0.1 * rng.normal(size=9) + np.concatenate([np.zeros(3), topics.mean])
    objective, h = _packed(topics, counts), 1e-4
    gradient = optimize.approx_fprime(x, objective, 1e-6)
    hessian = np.array([[_second(objective, x, h * a, h * b) / h**2 for b in np.eye(9)] for a in np.eye(9)])
    expected = np.linalg.solve(-hessian, gradient)
    assert np.abs(expected[3:]).max() < joint.LONGEST_STEP
    solution = joint.joint_step(x[:3], x[3:], counts, topics)
    np.testing.assert_allclose(solution.embedding - x[:3], expected[:3], atol=2e-3)
    np.testing.assert_allclose(solution.weights - x[3:], expected[3:], atol=2e-3)
    # H is the precision of γ with ξ maximised out: the Schur complement.
    schur = -hessian[:3, :3] + hessian[:3, 3:] @ np.linalg.solve(hessian[3:, 3:], hessian[3:, :3])
    np.testing.assert_allclose(solution.precision, schur, atol=1e-2 * np.abs(schur).max())


@pytest.mark.parametrize("trial", range(20))
def test_steps_never_go_down_and_reach_the_top(topics, trial):
    rng = np.random.default_rng(trial)
    embedding, weights = 5 * rng.normal(size=3), 6 * rng.normal(size=6)
    counts = rng.integers(0, 300, 6).astype(float)
    values = [joint.objective(embedding, weights, counts, topics)]
    for _ in range(60):
        solution = joint.joint_step(embedding, weights, counts, topics)
        embedding, weights = solution.embedding, solution.weights
        values.append(joint.objective(embedding, weights, counts, topics))
    assert np.diff(values).min() >= -2 * joint.ROUNDING * np.abs(values).max()
    best = optimize.minimize(lambda x: -_packed(topics, counts)(x), np.concatenate([embedding, weights]))
    assert values[-1] == pytest.approx(-best.fun, abs=1e-4)


def test_a_document_without_tokens_is_at_the_prior(topics):
    solution = joint.joint_step(np.ones(3), topics.mean + topics.embedding @ np.ones(3), np.zeros(6), topics)
    np.testing.assert_allclose(solution.embedding, 0, atol=1e-12)
    np.testing.assert_allclose(solution.weights, topics.mean, atol=1e-12)


def test_eight_steps_from_cold_do_at_a_thousand_topics():
    """Where alternation, as in the paper, still misses a quarter after 20 rounds."""
    rng = np.random.default_rng(1)
    n_topics, n_dims = 1000, 20
    nothing = np.zeros((n_dims, n_dims))
    embedding, word_topic = rng.normal(size=(n_topics, n_dims)), sparse.csr_matrix((5, n_topics))
    topics = Topics(embedding, nothing, nothing, np.zeros(n_topics), word_topic, Priors(0.1, 1.0, 1.0, 0.1))
    counts = np.bincount(rng.choice(n_topics, 80, p=rng.dirichlet(np.full(n_topics, 0.01))), minlength=n_topics)
    values, embedding, weights = [], np.zeros(n_dims), np.zeros(n_topics)
    for _ in range(40):
        values.append(joint.objective(embedding, weights, counts.astype(float), topics))
        embedding, weights, *_ = joint.joint_step(embedding, weights, counts.astype(float), topics)
    missing = (values[-1] - values[8]) / (values[-1] - values[0])
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
    np.testing.assert_allclose(joint.curvature(theta, 40, topics, light=0), expected, rtol=1e-9)


def test_light_topics_shape_the_curvature_together():
    """Close to exact where many topics bear little each, and never below the prior's precision."""
    topics, theta = _document(3000)
    exact, joined = (joint.curvature(theta, 40, topics, light) for light in (0, joint.LIGHT))
    assert np.abs(joined - exact).max() < 0.1 * np.abs(exact).max()
    alone, _ = np.linalg.eigh(joined - joint.embedding_precision(topics))
    assert alone.min() > 0
    nothing = joint.curvature(theta, 0, topics)
    np.testing.assert_array_equal(nothing, joint.embedding_precision(topics))
