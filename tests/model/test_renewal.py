"""Doubles merged, the largest topics split by their words."""

import numpy as np
import pytest
from scipy import sparse

from asterism import TopicEmbeddingModel, sample_corpus
from asterism.engines.memory import HostMemory
from asterism.evaluation import topic_overlap
from asterism.model import renewal
from asterism.model.state import Batch, count_draws

N_WORDS = 40


def planted(seed=0):
    """Documents of one of four subjects with ten words each; subject 0 is dealt to topics 0 and 1 by chance, 1 and 2
    share topic 2, 3 is topic 3, and nothing is topic 4."""
    rng = np.random.default_rng(seed)
    subject = rng.integers(0, 4, 400)
    counts = np.zeros((400, N_WORDS), dtype=np.int64)
    for d, s in enumerate(subject):
        counts[d] = np.bincount(10 * s + rng.integers(0, 10, 12), minlength=N_WORDS)
    batch = Batch.of(sparse.csr_matrix(counts))
    of_token = np.repeat(subject, batch.lengths)
    draws = np.array([0, 2, 2, 3])[of_token]
    draws = np.where((of_token == 0) & (rng.random(len(draws)) < 0.4), 1, draws).astype(np.uint16)
    return batch, of_token, draws


def counted(batch, draws, n_topics=5):
    return count_draws(np.repeat(batch.words, batch.counts), draws, N_WORDS, n_topics).astype(float)


def test_doubles_become_one_and_the_largest_topics_two():
    batch, subject, draws = planted()
    new = HostMemory().renewed(batch, draws, counted(batch, draws), seed=0)
    assert set(new[subject == 0]) == {0}  # merged into the larger
    assert not set(new[subject == 3]) & {0, 2}
    assert len(np.unique(new)) == 5
    words = np.repeat(batch.words, batch.counts)
    assert all(len(set(new[(words == word)])) == 1 for word in range(N_WORDS))  # a word's tokens stay together
    assert topic_overlap(counted(batch, new).T).value.max() == 0


def test_a_topic_of_two_subjects_is_split_between_them():
    batch, subject, draws = planted()
    words, documents = np.repeat(batch.words, batch.counts), np.repeat(np.arange(len(batch)), batch.lengths)
    its = np.flatnonzero(draws == 2)
    goes = renewal.split_words(words[its], documents[its], np.uint64(7))
    went = np.isin(np.arange(len(its)), goes)
    agreement = np.mean(went == (subject[its] == 1))
    assert max(agreement, 1 - agreement) > 0.95


@pytest.mark.parametrize("n_words", [1, 2])
def test_topics_of_few_words_are_split_as_far_as_they_can_be(n_words):
    words = np.arange(10) % n_words
    goes = renewal.split_words(words, np.arange(10) % 3, np.uint64(3))
    assert len(goes) == (0 if n_words == 1 else 5)


def test_the_closest_topic_is_that_of_all_words_where_few_are_compared():
    rng = np.random.default_rng(0)
    counts = sparse.csr_matrix(rng.poisson(20 * rng.dirichlet(np.full(60, 0.2), 30)).T.astype(float))
    closest, expected = renewal.closest_topics(counts), topic_overlap(counts.T)
    assert (closest.overlap <= expected.value + 1e-12).all()
    assert np.mean(closest.topic == expected.topic) > 0.9


def test_no_topic_has_part_in_two_mergers():
    closest = renewal.Closest(np.array([1, 2, 1, 4, 3]), np.array([0.9, 0.95, 0.95, 0.4, 0.4]))
    becomes = renewal.merged(closest, np.array([5.0, 3.0, 4.0, 1.0, 1.0]))
    np.testing.assert_array_equal(becomes, [0, 2, 2, 3, 4])


def test_good_topics_stay_what_they_are():
    batch, subject, _ = planted()
    draws = subject.astype(np.uint16)
    np.testing.assert_array_equal(HostMemory().renewed(batch, draws, counted(batch, draws, 4), seed=0), draws)


def test_the_start_has_no_topic_without_tokens_and_no_double():
    """Of more topics than were planted; with this seed, there would be some."""
    corpus = sample_corpus(1500, 40, 800, 8, mean_length=60, seed=2)
    model = TopicEmbeddingModel(300, warm_sweeps=200, max_sweeps=2, draw_sweeps=2, random_state=0).fit(corpus.counts)
    assert (model.state_.topic_count >= 1).all()
    assert topic_overlap(model.state_.word_topic.T).value.max() < 0.7
