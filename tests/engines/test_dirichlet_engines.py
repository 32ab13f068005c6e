"""LDA's engines: agreement with the reference, independence of threads and order, on sizes that are odd."""

import numpy as np
import pytest
from scipy import sparse

from asterism import sample_corpus
from asterism.engines.cpu_dirichlet import CpuDirichletEngine
from asterism.engines.dirichlet import ReferenceDirichletEngine
from asterism.model import dirichlet
from asterism.model.dirichlet import DirichletPriors, DirichletSettings
from asterism.model.state import Batch

TOLERANCE = {np.float64: 1e-6, np.float32: 1e-3}


def make(n_documents=40, n_topics=7, is_sparse=False, priors=(0.1, 0.2), sparsity=(3, 12, 2)):
    """A corpus with empty documents, topics after one batch, and settings."""
    counts = sample_corpus(n_documents, n_topics, 61, 3, mean_length=25, seed=n_documents).counts.tolil()
    counts[n_documents // 2 :: 50] = 0
    counts = sparse.csr_matrix(counts)
    settings = DirichletSettings(*sparsity, max_steps=20, tol=1e-3)
    topics = dirichlet.start(counts, n_topics, DirichletPriors(*priors), 2, is_sparse)
    engine = ReferenceDirichletEngine(settings)
    first = engine.statistics(engine.prepare(topics), Batch.of(counts), seed=0, sweep=0)
    return counts, dirichlet.update(topics, first, 1.0, 0.5), settings


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def is_sparse(request):
    return request.param


def answers(engine, topics, batch):
    prepared = engine.prepare(topics)
    statistics = engine.statistics(prepared, batch, seed=3, sweep=1)
    documents = engine.infer(prepared, batch)
    counted = statistics.word_topic.toarray() if topics.is_sparse else statistics.word_topic
    return counted, documents.concentration, engine.log_likelihood(prepared, documents.weights, batch)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("n_documents", "n_topics"), [(1, 2), (7, 7), (129, 33)])
def test_answers_equal_the_references(is_sparse, dtype, n_documents, n_topics):
    counts, topics, settings = make(n_documents, n_topics, is_sparse)
    expected = answers(ReferenceDirichletEngine(settings), topics, Batch.of(counts))
    actual = answers(CpuDirichletEngine(settings, 2, dtype), topics, Batch.of(counts))
    tolerance = TOLERANCE[dtype]
    if is_sparse:  # in single precision a draw can fall on the other side of a boundary, and takes others along
        assert np.abs(actual[0] - expected[0]).sum() <= (0.02 * counts.sum() if dtype == np.float32 else 0)
    else:
        np.testing.assert_allclose(actual[0], expected[0], atol=10 * tolerance)
    np.testing.assert_allclose(actual[1], expected[1], atol=10 * tolerance)
    np.testing.assert_allclose(actual[2], expected[2], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sparsity", [(1, 1, 1), (3, 12, 2), (7, 61, 7), (50, 100, 10)])
@pytest.mark.parametrize("priors", [(0.1, 0.2), (0.01, 0.001), (2.0, 3.0)])
def test_draws_equal_the_references_at_every_sparsity(sparsity, priors):
    counts, topics, settings = make(is_sparse=True, priors=priors, sparsity=sparsity)
    expected = answers(ReferenceDirichletEngine(settings), topics, Batch.of(counts))
    actual = answers(CpuDirichletEngine(settings, 2, np.float64), topics, Batch.of(counts))
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], atol=1e-5)


def test_documents_of_a_thousand_tokens_and_tiny_priors_stay_finite(is_sparse):
    counts, topics, settings = make(is_sparse=is_sparse, priors=(1e-4, 1e-4))
    for answer in answers(CpuDirichletEngine(settings, 2), topics, Batch.of(100 * counts)):
        assert np.isfinite(answer).all()
        assert (answer <= 0).all() or (answer >= 0).all()


def test_tokens_are_counted_once(is_sparse):
    counts, topics, settings = make(is_sparse=is_sparse)
    counted, concentration, _ = answers(CpuDirichletEngine(settings, 2), topics, Batch.of(counts))
    of_words = np.asarray(counts.sum(axis=0)).ravel()
    np.testing.assert_allclose(counted.sum(axis=1), of_words if is_sparse else of_words[of_words > 0], rtol=1e-5)
    np.testing.assert_allclose(concentration.sum(axis=1), np.asarray(counts.sum(axis=1)).ravel() + 0.7, rtol=1e-5)


def test_threads_and_order_change_nothing(is_sparse):
    counts, topics, settings = make(129, is_sparse=is_sparse)
    batch = Batch.of(counts)
    one = answers(CpuDirichletEngine(settings, 1), topics, batch)
    for actual, expected in zip(answers(CpuDirichletEngine(settings, 3), topics, batch), one, strict=True):
        np.testing.assert_array_equal(actual, expected)
    order = np.random.default_rng(0).permutation(129)
    counted, concentration, _ = answers(CpuDirichletEngine(settings, 2), topics, Batch.of(counts, order))
    np.testing.assert_array_equal(concentration, one[1][order])
    np.testing.assert_allclose(counted, one[0], rtol=1e-4, atol=1e-4)
