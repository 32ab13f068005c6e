"""The bound: each term against an independent computation, and every full-batch update raises it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse, special, stats

from asterism.model import document, svi, topics, words
from asterism.model.elbo import elbo, elbo_terms
from asterism.model.state import Documents, Statistics

MEAN = np.linspace(-1, 1, 6)  # of the world's topics


@pytest.fixture
def settled(world):
    """Documents and responsibilities in some arbitrary but valid state."""
    gamma = world.rng.normal(size=(len(world.batch), 3))
    responsibilities = world.rng.dirichlet(np.ones(6), len(world.batch.words))
    return Documents(gamma, world.weights), responsibilities


def test_gaussian_terms_are_monte_carlo_means(world, settled):
    """E_q of log-densities by sampling: u, a, and η | u, a."""
    documents, responsibilities = settled
    state, priors = world.topics, world.topics.priors
    terms = elbo_terms(state, documents, world.batch, responsibilities)
    rng, n = np.random.default_rng(1), 4000
    u = state.embedding + rng.multivariate_normal(np.zeros(3), state.embedding_cov, (n, 6))
    a = documents.embedding + rng.multivariate_normal(np.zeros(3), state.document_cov, (n, 25))
    eta = documents.weights + rng.normal(0, priors.tau**-0.5, (n, 25, 6))
    log_u = stats.norm.logpdf(u, 0, priors.alpha**-0.5).sum(axis=(1, 2))
    log_a = stats.norm.logpdf(a, 0, priors.rho**-0.5).sum(axis=(1, 2))
    mean = state.mean + np.einsum("ndm,nkm->ndk", a, u)
    log_eta = stats.norm.logpdf(eta, mean, priors.tau**-0.5).sum(axis=(1, 2))
    for name, sample in (("log p(u)", log_u), ("log p(a)", log_a), ("log p(eta | u, a)", log_eta)):
        error = 5 * sample.std() / np.sqrt(n)
        assert abs(terms[name] - sample.mean()) < error, name


def test_entropies_are_those_of_the_distributions(world, settled):
    documents, responsibilities = settled
    state = world.topics
    terms = elbo_terms(state, documents, world.batch, responsibilities)
    gaussian_u = stats.multivariate_normal(np.zeros(3), state.embedding_cov).entropy()
    gaussian_a = stats.multivariate_normal(np.zeros(3), state.document_cov).entropy()
    concentration = state.word_topic.toarray().T + state.priors.beta
    dirichlet = sum(stats.dirichlet(row).entropy() for row in concentration)
    categorical = world.batch.counts @ stats.entropy(responsibilities, axis=1)
    normal = 25 * 6 * stats.norm(0, state.priors.tau**-0.5).entropy()
    assert terms["entropy of u"] == pytest.approx(6 * gaussian_u)
    assert terms["entropy of a"] == pytest.approx(25 * gaussian_a)
    assert terms["entropy of phi"] == pytest.approx(dirichlet)
    assert terms["entropy of z"] == pytest.approx(categorical)
    assert terms["entropy of eta"] == pytest.approx(normal)


def test_word_terms_are_monte_carlo_means(world, settled):
    documents, responsibilities = settled
    state, batch = world.topics, world.batch
    terms = elbo_terms(state, documents, batch, responsibilities)
    rng = np.random.default_rng(2)
    concentration = state.word_topic.toarray().T + state.priors.beta
    log_phi = np.stack([np.log(rng.dirichlet(row, 4000)) for row in concentration])  # [k, n, v]
    counts = sparse.csr_matrix((batch.counts[:, None] * responsibilities).T @ np.eye(40)[batch.words])
    log_words = np.einsum("kv,knv->n", counts.toarray(), log_phi)
    log_prior = sum(stats.dirichlet(np.full(40, state.priors.beta)).logpdf(np.exp(row[:1000].T)) for row in log_phi)
    assert abs(terms["log p(w | z, phi)"] - log_words.mean()) < 5 * log_words.std() / np.sqrt(4000)
    assert abs(terms["log p(phi)"] - log_prior.mean()) < 5 * log_prior.std() / np.sqrt(1000)


def test_assignment_term_uses_the_noise_that_it_is_given(world, settled):
    documents, responsibilities = settled
    noise = world.rng.normal(size=(2000, 25, 6))
    plain = elbo_terms(world.topics, documents, world.batch, responsibilities)["log p(z | eta)"]
    noisy = elbo_terms(world.topics, documents, world.batch, responsibilities, noise)["log p(z | eta)"]
    assert noisy < plain  # log-sum-exp is convex: Jensen
    eta = documents.weights + world.topics.priors.tau**-0.5 * noise
    log_theta = eta - np.log(np.exp(eta).sum(axis=2, keepdims=True))
    document_of_entry = np.repeat(np.arange(25), np.diff(world.batch.indptr))
    counts = world.batch.counts[:, None] * responsibilities
    sample = np.einsum("ek,nek->n", counts, log_theta[:, document_of_entry])
    assert abs(noisy - sample.mean()) < 5 * sample.std() / np.sqrt(2000)


def test_full_batch_updates_never_lower_the_bound(world):
    """Coordinate ascent over q(z), γ, ξ, (μ, Σ_u), Σ_a and λ: after each single update the bound is no lower."""
    state, batch = world.topics, world.batch
    documents = Documents(np.zeros((len(batch), 3)), np.tile(MEAN, (len(batch), 1)))
    values, names = [], []

    def record(name):
        names.append(name)
        values.append(elbo(state, documents, batch, responsibilities))

    for _ in range(12):
        responsibilities = _responsibilities(state, documents, batch)
        record("z")
        documents = replace(documents, embedding=document.embed(documents.weights, state))
        record("gamma")
        documents = replace(documents, weights=_best_weights(state, documents, batch, responsibilities))
        record("xi")
        embedding, embedding_cov = topics.optimal_embedding(
            _statistics(documents, batch, responsibilities), state.document_cov, state.priors
        )
        state = replace(state, embedding=embedding, embedding_cov=embedding_cov)
        record("u")
        state = replace(state, document_cov=topics.optimal_document_cov(embedding, embedding_cov, state.priors))
        record("Sigma_a")
        state = replace(state, word_topic=_statistics(documents, batch, responsibilities).word_topic)
        record("lambda")
    changes = dict(zip(names[1:7], np.diff(values).reshape(-1), strict=False))
    worst = np.diff(values).min()
    assert worst > -1e-7, changes
    assert values[-1] > values[0] + 100


def test_a_full_batch_step_of_size_one_is_the_optimal_update(world):
    responsibilities = _responsibilities(world.topics, Documents(np.zeros((25, 3)), world.weights), world.batch)
    gamma = document.embed(world.weights, world.topics)
    statistics = _statistics(Documents(gamma, world.weights), world.batch, responsibilities)
    updated = svi.update(world.topics, statistics, scale=1.0, step=1.0)
    embedding, cov = topics.optimal_embedding(statistics, world.topics.document_cov, world.topics.priors)
    np.testing.assert_allclose(updated.embedding, embedding)
    np.testing.assert_allclose(updated.embedding_cov, cov)
    np.testing.assert_allclose(updated.word_topic.toarray(), statistics.word_topic.toarray())


def _responsibilities(state, documents, batch):
    table = words.draw_table(state, words.kept_for_drawing(state.word_topic, 40, 6))
    document_of_entry = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    return np.array(
        [
            document.expected_counts(table, [word], [1], documents.weights[d], range(6))
            for word, d in zip(batch.words, document_of_entry, strict=True)
        ]
    )


def _topic_counts(batch, responsibilities):
    starts = batch.indptr[:-1]
    return np.add.reduceat(batch.counts[:, None] * responsibilities, starts, axis=0)


def _best_weights(state, documents, batch, responsibilities):
    """ξ given γ and q(z): the maximum of a concave function, by a general optimiser."""
    counts, tau = _topic_counts(batch, responsibilities), state.priors.tau
    mean = state.mean + documents.embedding @ state.embedding.T
    nothing = np.zeros((1, 6))

    def solve(d):
        def value(x):
            likelihood = counts[d] @ x - counts[d].sum() * special.logsumexp(x)
            return 0.5 * tau * np.sum((x - mean[d]) ** 2) - likelihood

        def gradient(x):
            return -document.weight_gradient(x, mean[d], counts[d], nothing, tau)

        return optimize.minimize(value, documents.weights[d], jac=gradient).x

    return np.array([solve(d) for d in range(len(batch))])


def _statistics(documents, batch, responsibilities, mean=MEAN):
    word_topic = np.zeros((batch.n_words, 6))
    np.add.at(word_topic, batch.words, batch.counts[:, None] * responsibilities)
    gamma, xi = documents.embedding, documents.weights
    return Statistics(sparse.csr_matrix(word_topic), (xi - mean).T @ gamma, gamma.T @ gamma, len(batch), 0)
