"""The LDA sweeps that memoized inference begins with."""

import numpy as np
import pytest
from scipy import sparse

from asterism.engines.cpu import CpuEngine
from asterism.inference import lda_samplers, warm_start
from asterism.inference.lda_samplers import lda_sampler
from asterism.inference.warm_start import WarmStart, optimal_alpha
from asterism.model.state import Batch, LocalSettings, Priors, Topics, count_draws

N_TOPICS, WORDS_A_TOPIC = 4, 10


def planted(n_documents=300, seed=0):
    """Documents of one or two topics, each with words of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_documents):
        topics = rng.choice(N_TOPICS, size=rng.integers(1, 3), replace=False)
        words = rng.choice(topics, size=40) * WORDS_A_TOPIC + rng.integers(0, WORDS_A_TOPIC, 40)
        rows.append(np.bincount(words, minlength=N_TOPICS * WORDS_A_TOPIC))
    return sparse.csr_matrix(np.array(rows))


def start(counts, n_topics=N_TOPICS, learns_beta=False, sampler="sparse"):
    corpus = Batch.of(counts)
    draws = np.random.default_rng(1).integers(0, n_topics, corpus.token_offsets[-1]).astype(np.uint16)
    word_topic = counted(corpus, draws, n_topics)
    zeros = np.zeros((n_topics, 2))
    topics = Topics(zeros, np.eye(2), np.eye(2), zeros[:, 0], word_topic, Priors(0.1, 0.1, 1.0, 0.01))
    engine = CpuEngine(LocalSettings(n_topics, 1, 1, collapsed=True), n_threads=2)
    return WarmStart(corpus, lda_sampler(sampler, corpus, draws, topics, engine, seed=0), learns_beta)


def counted(corpus, draws, n_topics):
    words = np.repeat(corpus.words, corpus.counts)
    return count_draws(words, draws, corpus.n_words, n_topics).astype(float)


@pytest.fixture(params=["dense", "sparse", "alias"])
def sampler(request, monkeypatch):
    if request.param == "sparse":
        monkeypatch.setattr(lda_samplers, "MOST_DENSE_TOPICS", 0)
    return "alias" if request.param == "alias" else "sparse"


def test_it_finds_planted_topics(sampler):
    warm = start(planted(), sampler=sampler)
    assert sum(warm.sweeps(60)) == 300 * len(warm.scores)
    by_topic = warm.topics.word_topic.toarray().reshape(N_TOPICS, WORDS_A_TOPIC, N_TOPICS).sum(axis=1)
    purity = by_topic.max(axis=1).sum() / by_topic.sum()
    assert purity > 0.95
    assert len(set(by_topic.argmax(axis=1))) == N_TOPICS
    assert warm.scores[-1] > 0.5 - np.log(N_TOPICS * WORDS_A_TOPIC)  # all words alike


def test_counts_are_those_of_the_draws(sampler):
    warm = start(planted(50), sampler=sampler)
    for _ in warm.sweeps(7):
        pass
    difference = warm.topics.word_topic - counted(warm.corpus, warm.draws, N_TOPICS)
    assert np.abs(difference).sum() == 0
    assert warm.document_topic().sum() == len(warm.draws)


def test_it_ends_where_predictions_settle(sampler):
    warm = start(planted(), sampler=sampler)
    for _ in warm.sweeps(1000):
        pass
    assert 25 <= len(warm.scores) < 300


def test_what_it_may_not_learn_stays():
    kept, learned = start(planted()), start(planted(), learns_beta=True)
    for warm in (kept, learned):
        for _ in warm.sweeps(20):
            pass
    assert kept.topics.priors.beta == 0.01
    assert learned.topics.priors.beta > 0.02  # the planted topics have few words each, all of them frequent
    assert not np.allclose(kept.alpha, warm_start.FIRST_ALPHA)


def test_no_sweeps_leave_the_random_draws():
    warm = start(planted(20))
    before = warm.draws.copy()
    assert list(warm.sweeps(0)) == []
    np.testing.assert_array_equal(warm.draws, before)


def test_alpha_of_highest_likelihood_is_that_of_the_documents():
    truth = np.array([0.05, 0.3, 1.0, 2.0])
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(60, theta) for theta in rng.dirichlet(truth, size=4000)])
    alpha = np.full(4, 0.5)
    for _ in range(300):
        alpha = optimal_alpha(sparse.csr_matrix(counts), alpha)
    np.testing.assert_allclose(alpha, truth, rtol=0.1)


def test_alpha_of_a_topic_without_tokens_stays_positive():
    alpha = optimal_alpha(sparse.csr_matrix(np.array([[3, 0], [5, 0]])), np.array([0.1, 0.1]))
    assert alpha[1] == warm_start.SMALLEST_ALPHA
