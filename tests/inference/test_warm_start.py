"""The LDA sweeps that memoized inference begins with."""

import numpy as np
import pytest
from scipy import sparse

from asterism import TopicEmbeddingModel
from asterism.engines import memory
from asterism.engines.cpu import CpuEngine
from asterism.inference import lda_samplers, memoized, warm_start
from asterism.inference.lda_samplers import lda_sampler
from asterism.inference.warm_start import WarmStart
from asterism.model import lda
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
        monkeypatch.setattr(memory, "MOST_DENSE_TOPICS", 0)
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
        alpha = lda.optimal_alpha(sparse.csr_matrix(counts), alpha)
    np.testing.assert_allclose(alpha, truth, rtol=0.1)


def test_alpha_of_a_topic_without_tokens_stays_positive():
    alpha = lda.optimal_alpha(sparse.csr_matrix(np.array([[3, 0], [5, 0]])), np.array([0.1, 0.1]))
    assert alpha[1] == lda.SMALLEST_ALPHA


# --- stages ---------------------------------------------------------------------------------------------------------


def staged(monkeypatch, fewest=500):
    monkeypatch.setattr(warm_start, "FEWEST_TOKENS", fewest)
    monkeypatch.setattr(warm_start, "FEWEST_TOKENS_A_TOPIC", 1)


def test_stages_grow_to_all_documents(monkeypatch):
    corpus = Batch.of(planted(1000))  # 40 tokens each
    assert warm_start.stages(corpus, N_TOPICS) == [1000]
    staged(monkeypatch)
    assert warm_start.stages(corpus, N_TOPICS) == [40, 200, 1000]
    assert warm_start.stages(corpus, 7000) == [200, 1000]  # a token a topic at least
    assert warm_start.stages(corpus, 9000) == [1000]
    assert warm_start.stages(Batch.of(planted(3)), N_TOPICS) == [3]


@pytest.mark.parametrize("sampler", ["sparse", "alias"])
def test_a_start_in_stages_finds_planted_topics_and_repeats(sampler, monkeypatch):
    staged(monkeypatch)
    settings = {"max_sweeps": 1, "draw_sweeps": 1, "warm_sweeps": 40, "sampler": sampler, "random_state": 0}
    models = [TopicEmbeddingModel(N_TOPICS, 2, n_threads=n, **settings).fit(planted(1000)) for n in (1, 2)]
    by_topic = models[0].state_.word_topic.toarray().reshape(N_TOPICS, WORDS_A_TOPIC, N_TOPICS).sum(axis=1)
    assert by_topic.max(axis=1).sum() / by_topic.sum() > 0.95
    assert by_topic.sum() == pytest.approx(planted(1000).sum(), rel=1e-3)
    assert (models[0].state_.word_topic != models[1].state_.word_topic).nnz == 0


def test_a_stage_goes_on_with_what_the_one_before_learned(monkeypatch):
    staged(monkeypatch)
    monkeypatch.setattr(memoized, "STAGE_SWEEPS", 20)
    begun = []
    original = memoized.WarmStart

    def recorded(*arguments):
        begun.append(original(*arguments))
        return begun[-1]

    monkeypatch.setattr(memoized, "WarmStart", recorded)
    settings = {"max_sweeps": 1, "draw_sweeps": 1, "warm_sweeps": 30, "validation_fraction": 0, "random_state": 0}
    TopicEmbeddingModel(N_TOPICS, 2, **settings).fit(planted(1000))
    assert [len(stage.corpus) for stage in begun[-3:]] == [40, 200, 1000]
    first, second, last = begun[-3:]
    assert (first.n_sweeps, second.first_sweep, last.first_sweep) == (20, 20, 20 + second.n_sweeps)
    assert last.n_sweeps <= 30
    assert len(last.draws) == planted(1000).sum()
    assert last.scores[0] > -3.0  # topics are there from its first sweep; at random it is -log 40 = -3.7


def test_walks_are_scored_on_documents_that_are_new_to_a_stage(monkeypatch):
    """Those of earlier stages are predicted the worse the more others come: by them sweeps would end at once."""
    monkeypatch.setattr(lda_samplers, "MOST_SCORED", 50)
    counts = planted(300)
    begun = start(counts, sampler="alias")
    sum(begun.sweeps(20))
    scores = []
    for first, last in ((0, 50), (250, 300)):
        some = start(counts[first:last], sampler="alias")
        tokens = slice(*begun.corpus.token_offsets[begun.corpus.indptr[[first, last]]])
        batch = begun.corpus[first:last]
        words = begun.sampler.engine.every_pair(begun.topics)
        logs = some.sampler.engine.draw_lda(words, batch, begun.draws[tokens].copy(), begun.alpha, 0, 2**32)
        scores.append(logs.sum() / batch.token_offsets[-1])
    assert begun.sampler.scores(begun.alpha) == []  # those of all sweeps have been given
    sum(begun.sampler.sweep(99, begun.alpha))
    assert abs(scores[0] - scores[1]) > 1e-3
    begun.sampler.gather()
    (now,) = begun.sampler.scores(begun.alpha)
    assert abs(now - scores[1]) < abs(now - scores[0])


def test_no_stages_without_lda(monkeypatch):
    staged(monkeypatch)
    model = TopicEmbeddingModel(N_TOPICS, 2, init="random", max_sweeps=1, draw_sweeps=1, random_state=0)
    assert model.fit(planted(1000)).topic_shares_.sum() == pytest.approx(1)
