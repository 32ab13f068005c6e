"""The evidence lower bound, term by term (appendix of the paper), dense: for small corpora, tests and teaching.

q(z) is given as responsibilities [entry, k] of the batch's entries (a word and its count in a document).
E[log softmax(η)] has no closed form; it is estimated from the noise ε [t, d, k] that is passed in, or taken at
the mean ξ where none is (then its dependence on σ is dropped, as the paper's σ update does).
"""

from __future__ import annotations

import numpy as np
from scipy import special

from .state import Batch, Documents, Floats, Topics


def elbo(
    topics: Topics, documents: Documents, batch: Batch, responsibilities: Floats, noise: Floats | None = None
) -> float:
    """The bound on the batch's log-likelihood; it goes up."""
    return sum(elbo_terms(topics, documents, batch, responsibilities, noise).values())


def elbo_terms(
    topics: Topics, documents: Documents, batch: Batch, responsibilities: Floats, noise: Floats | None = None
) -> dict[str, float]:
    """Every term under its name; their sum is the bound."""
    priors, counts = topics.priors, batch.counts[:, None] * responsibilities
    log_phi = expected_log_words(topics)
    return {
        "log p(u)": _gaussian_prior(topics.embedding, topics.embedding_cov, priors.alpha),
        "log p(phi)": _log_dirichlet_prior(log_phi, priors.beta),
        "log p(a)": _gaussian_prior(documents.embedding, topics.document_cov, priors.rho),
        "log p(eta | u, a)": _log_weights(topics, documents),
        "log p(z | eta)": _log_assignments(documents.weights, batch, counts, priors.tau, noise),
        "log p(w | z, phi)": float(np.sum(counts * log_phi[:, batch.words].T)),
        "entropy of u": topics.n_topics * _gaussian_entropy(topics.embedding_cov),
        "entropy of phi": _dirichlet_entropy(topics, log_phi),
        "entropy of a": len(batch) * _gaussian_entropy(topics.document_cov),
        "entropy of eta": documents.weights.size * 0.5 * np.log(2 * np.pi * np.e / priors.tau),
        "entropy of z": float(np.sum(special.entr(responsibilities) * batch.counts[:, None])),
    }


def expected_log_words(topics: Topics) -> Floats:
    """E[log φ_kv] = ψ(λ_kv) - ψ(Σ_v λ_kv), dense [k, v]."""
    concentration = topics.word_topic.toarray().T + topics.priors.beta
    return np.asarray(special.psi(concentration) - special.psi(topics.topic_total)[:, None])


def _gaussian_prior(means: Floats, cov: Floats, precision: float) -> float:
    """Σ_i E[log N(x_i | 0, I/precision)] for q(x_i) = N(means_i, cov)."""
    n, dims = means.shape
    second_moment = np.sum(means**2) + n * np.trace(cov)
    return float(0.5 * n * dims * np.log(precision / (2 * np.pi)) - 0.5 * precision * second_moment)


def _gaussian_entropy(cov: Floats) -> float:
    return float(0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1])


def _log_dirichlet_prior(log_phi: Floats, beta: float) -> float:
    n_topics, n_words = log_phi.shape
    normaliser = special.gammaln(n_words * beta) - n_words * special.gammaln(beta)
    return float(n_topics * normaliser + (beta - 1) * log_phi.sum())


def _dirichlet_entropy(topics: Topics, log_phi: Floats) -> float:
    concentration = topics.word_topic.toarray().T + topics.priors.beta
    normaliser = special.gammaln(topics.topic_total).sum() - special.gammaln(concentration).sum()
    return float(-normaliser - np.sum((concentration - 1) * log_phi))


def _log_weights(topics: Topics, documents: Documents) -> float:
    """E[log N(η | U a, I/τ)], with E|η|² = |ξ|² + K/τ; the normaliser's exponent is K (the paper prints M)."""
    tau, (n_documents, n_topics) = topics.priors.tau, documents.weights.shape
    weights = documents.weights - topics.mean
    mean = documents.embedding @ topics.embedding.T
    topic_moment = n_topics * topics.embedding_cov + topics.embedding.T @ topics.embedding
    document_moment = n_documents * topics.document_cov + documents.embedding.T @ documents.embedding
    squares = np.sum(weights**2) + weights.size / tau
    distance = squares - 2 * np.sum(weights * mean) + np.sum(topic_moment * document_moment)
    return float(0.5 * documents.weights.size * np.log(tau / (2 * np.pi)) - 0.5 * tau * distance)


def _log_assignments(weights: Floats, batch: Batch, counts: Floats, tau: float, noise: Floats | None) -> float:
    """Σ_d [n_d'ξ_d - N_d E[log Σ_k exp η_dk]]."""
    document_of_entry = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    sampled = weights[None] if noise is None else weights + tau**-0.5 * noise
    log_normaliser = special.logsumexp(sampled, axis=2).mean(axis=0)
    return float(np.sum(counts * weights[document_of_entry]) - batch.lengths @ log_normaliser)
