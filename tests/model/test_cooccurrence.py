"""Topic embeddings from how topics occur together."""

import numpy as np
import pytest
from scipy import sparse

from asterism.engines.cpu import CpuEngine
from asterism.model import cooccurrence
from asterism.model.cooccurrence import LogRatio, embed_topics
from asterism.model.state import LocalSettings, Priors

PRIORS = Priors(alpha=0.1, rho=0.5, tau=2.0, beta=0.1)


def drawn(n_documents=3000, n_topics=30, n_dims=3, n_tokens=60, seed=0):
    """Counts of documents from the model, and the U and m they come from."""
    rng = np.random.default_rng(seed)
    embedding, mean = rng.normal(size=(n_topics, n_dims)) / 2, rng.normal(size=n_topics) / 2
    gamma = rng.normal(size=(n_documents, n_dims)) / np.sqrt(PRIORS.rho)
    weights = mean + gamma @ embedding.T + rng.normal(size=(n_documents, n_topics)) / np.sqrt(PRIORS.tau)
    shares = np.exp(weights) / np.exp(weights).sum(axis=1, keepdims=True)
    return sparse.csr_matrix([rng.multinomial(n_tokens, share) for share in shares]), embedding, mean


def by_the_book(counts, tau):
    """The centred logarithms, written out."""
    n = counts.toarray().astype(float)
    lengths = n.sum(axis=1)
    together = n.T @ (n / (lengths - 1)[:, None]) - np.diag((n / (lengths - 1)[:, None]).sum(axis=0))
    by_chance = np.outer(n.sum(axis=0), n.sum(axis=0)) / n.sum()
    imagined = cooccurrence.IMAGINED / lengths.mean()
    ratio = np.log((together + imagined) / (by_chance + imagined))
    np.fill_diagonal(ratio, np.maximum(np.diag(ratio) - 1 / tau, 0))
    share = (n.sum(axis=0) + 1) / (n.sum(axis=0) + 1).sum()
    centring = np.eye(len(share)) - share
    return centring @ ratio @ centring.T


def by_blocks(monkeypatch):
    """Four of six vectors, which is less than 30 topics."""
    monkeypatch.setattr(cooccurrence, "SPARE", 2)
    monkeypatch.setattr(cooccurrence, "BLOCKS", 4)
    assert not cooccurrence.are_few(30, 4)


def test_products_are_those_of_the_formula():
    counts, _, _ = drawn(200)
    ratio = LogRatio(counts, PRIORS.tau) @ np.eye(30)
    np.testing.assert_allclose(ratio, by_the_book(counts, PRIORS.tau), atol=1e-10)


def test_the_cpus_products_are_these():
    counts, _, _ = drawn(200)
    engine = CpuEngine(LocalSettings(10, 10, 10), 2)
    ratio = LogRatio(counts, PRIORS.tau, engine._multiply)
    np.testing.assert_allclose(ratio @ np.eye(30), LogRatio(counts, PRIORS.tau) @ np.eye(30), atol=1e-12)


def test_few_kinds_of_frequencies_are_enough(monkeypatch):
    counts, _, _ = drawn(200)
    exact = LogRatio(counts, PRIORS.tau) @ np.eye(30)
    monkeypatch.setattr(cooccurrence, "KINDS", 10)
    assert np.linalg.norm(LogRatio(counts, PRIORS.tau) @ np.eye(30) - exact) < 0.1 * np.linalg.norm(exact)


def test_planted_embeddings_come_back():
    counts, embedding, mean = drawn()
    found, found_mean = embed_topics(counts, 3, PRIORS, seed=0)
    centred = [u - u.mean(axis=0) for u in (embedding, found)]
    products = [(u @ u.T)[~np.eye(30, dtype=bool)] for u in centred]
    assert np.corrcoef(*products)[0, 1] > 0.95
    assert 0.3 < np.polyfit(*products, 1)[0] < 1.2  # proportions vary less than weights
    assert np.corrcoef(mean, found_mean)[0, 1] > 0.9


def test_many_topics_are_embedded_like_few(monkeypatch):
    counts, _, _ = drawn(500)
    dense, _ = embed_topics(counts, 4, PRIORS, seed=0)
    by_blocks(monkeypatch)
    sparse_, _ = embed_topics(counts, 4, PRIORS, seed=0)
    np.testing.assert_allclose(sparse_ @ sparse_.T, dense @ dense.T, atol=0.02)


def test_a_basis_is_orthonormal_where_there_are_few_directions(monkeypatch):
    by_blocks(monkeypatch)
    together = np.outer(np.ones(9), np.arange(30) % 3)
    for counts in np.zeros((9, 30)), together:
        ratio = LogRatio(sparse.csr_matrix(counts, dtype=np.int64), PRIORS.tau)
        basis, within = cooccurrence.krylov(ratio, 30, 6, seed=0)
        np.testing.assert_allclose(basis.T @ basis, np.eye(24), atol=1e-8)
        np.testing.assert_allclose(within, np.triu(within, -5))
        np.testing.assert_allclose(np.triu(within), np.triu(basis.T @ (ratio @ basis)), atol=1e-10)


@pytest.mark.parametrize(
    "counts", [np.zeros((5, 30)), np.ones((5, 30)), np.eye(30), np.outer(np.ones(9), np.arange(30) % 3)]
)
def test_many_topics_of_which_nothing_can_be_learned_get_some_start(counts, monkeypatch):
    by_blocks(monkeypatch)
    embedding, mean = embed_topics(sparse.csr_matrix(counts, dtype=np.int64), 4, PRIORS, seed=0)
    assert np.isfinite(embedding).all()
    assert np.isfinite(mean).all()
    assert np.abs(embedding).max() > 0


def test_documents_are_left_out_where_they_would_be_too_many(monkeypatch):
    counts, _, _ = drawn(500)
    monkeypatch.setattr(cooccurrence, "MOST_PAIRS", 100 * 30**2)
    some = LogRatio(counts, PRIORS.tau)
    assert 0.2 * counts.sum() < some.topic_count.sum() < counts.sum()


@pytest.mark.parametrize(("n_documents", "n_topics", "n_dims"), [(1, 2, 3), (2, 2, 50), (3, 10, 4), (50, 3, 7)])
@pytest.mark.parametrize("n_tokens", [0, 1, 5])
def test_a_start_of_any_shape_is_finite(n_documents, n_topics, n_dims, n_tokens):
    counts = sparse.csr_matrix(np.full((n_documents, n_topics), n_tokens, dtype=np.int64))
    embedding, mean = embed_topics(counts, n_dims, PRIORS, seed=0)
    assert np.isfinite(embedding).all()
    assert np.isfinite(mean).all()
    assert np.abs(embedding).max() > 0
