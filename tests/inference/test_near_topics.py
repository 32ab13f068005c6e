"""Training with candidates: nearly what training with all topics finds, the same for any number of threads."""

import numpy as np
import pytest

from asterism import TopicEmbeddingModel, sample_corpus


@pytest.fixture(scope="module")
def counts():
    return sample_corpus(600, 40, 300, 4, mean_length=60, seed=3).counts


def fitted(counts, **settings):
    settings = {"max_sweeps": 8, "draw_sweeps": 4, "warm_sweeps": 60, "random_state": 0, **settings}
    return TopicEmbeddingModel(40, 4, **settings).fit(counts)


@pytest.fixture(scope="module")
def model(counts):
    return fitted(counts, candidates=10)


def test_candidates_predict_nearly_as_well(model, counts):
    new = sample_corpus(200, 40, 300, 4, mean_length=60, seed=4).counts
    exact = fitted(counts)
    assert model.history_[-1]["heldout_score"] > exact.history_[-1]["heldout_score"] - 0.02
    with_all = model.set_params(candidates=None).score(new)
    assert with_all > exact.score(new) - 0.02
    assert model.set_params(candidates=10).score(new) > with_all - 0.02
    assert np.isfinite(model.transform(new)).all()


def test_threads_and_repetition_change_nothing(model, counts):
    again = fitted(counts, candidates=10, n_threads=3)
    np.testing.assert_array_equal(again.topic_embeddings_, model.topic_embeddings_)
    assert abs(again.state_.word_topic - model.state_.word_topic).sum() == 0


def test_more_candidates_than_topics_are_all_topics(counts):
    some, exact = (fitted(counts, candidates=c, max_sweeps=2) for c in (100, None))
    np.testing.assert_array_equal(some.topic_embeddings_, exact.topic_embeddings_)


def test_candidates_can_be_set_for_new_documents_alone(counts):
    model = fitted(counts, max_sweeps=2)
    exact = model.transform(counts)
    near = model.set_params(candidates=20).transform(counts)
    gap = np.median(np.linalg.norm(near - exact, axis=1) / np.linalg.norm(exact, axis=1))
    assert 0 < gap < 0.1


def test_stochastic_inference_looks_at_all_topics(counts):
    models = [fitted(counts[:100], candidates=c, inference="svi", max_sweeps=1) for c in (3, None)]
    np.testing.assert_array_equal(models[0].topic_embeddings_, models[1].topic_embeddings_)
