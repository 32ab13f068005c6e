"""The most correlated topics."""

import numpy as np
import pytest

from asterism.model import neighbours
from asterism.model.neighbours import correlation_graph, correlation_vectors, nearest_topics


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(300, 5)) / 4


def all_products(vectors):
    products = vectors.astype(np.float32) @ vectors.T.astype(np.float32)
    np.fill_diagonal(products, -np.inf)
    return products


def test_products_of_correlation_vectors_are_those_of_the_covariance(world):
    embedding, priors = world.topics.embedding, world.topics.priors
    cov = embedding @ embedding.T / priors.rho + np.eye(6) / priors.tau
    expected = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    vectors = correlation_vectors(embedding, priors)
    others = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose((vectors @ vectors.T)[others], expected[others])


@pytest.mark.parametrize("first_compared", [1, 50, 4096])
@pytest.mark.parametrize("n", [1, 7, 299])
def test_nearest_topics_are_those_of_all_comparisons(vectors, n, first_compared, monkeypatch):
    monkeypatch.setattr(neighbours, "FIRST_COMPARED", first_compared)
    monkeypatch.setattr(neighbours, "PRODUCTS_AT_ONCE", 1000)
    asked = np.array([0, 5, 299])
    found = nearest_topics(vectors, asked, n)
    products = all_products(vectors)[asked]
    np.testing.assert_array_equal(found.topics, np.argsort(-products, axis=1, kind="stable")[:, :n])
    np.testing.assert_allclose(found.correlation, -np.sort(-products, axis=1)[:, :n], rtol=1e-5)


def test_equal_vectors_come_in_the_order_of_their_numbers():
    found = nearest_topics(np.ones((9, 2)), np.array([4]), 3)
    np.testing.assert_array_equal(found.topics, [[0, 1, 2]])


def test_nothing_asked_for_is_nothing_found(vectors):
    assert nearest_topics(vectors, np.array([3]), 0).topics.shape == (1, 0)


def test_the_graph_has_an_edge_where_one_topic_is_the_others_neighbour(vectors):
    found, products = nearest_topics(vectors, np.arange(300), 4), all_products(vectors)
    graph = correlation_graph(found, threshold=0.1).toarray()
    near = np.zeros((300, 300), dtype=bool)
    near[np.arange(300)[:, None], found.topics] = True
    expected = np.where((near | near.T) & (products > 0.1), products, 0)
    np.testing.assert_allclose(graph, expected, rtol=1e-4)
    np.testing.assert_array_equal(graph, graph.T)
