"""fit with warm_start: it goes on from what was learned, where that is possible, and says so where it is not."""

import numpy as np
import pytest

from asterism import InputError, TopicEmbeddingModel, sample_corpus

FEW = {
    "svi": {"inference": "svi", "batch_size": 64, "max_sweeps": 2},
    "memoized": {"warm_sweeps": 5, "draw_sweeps": 2, "max_sweeps": 3},
}


@pytest.fixture(scope="module")
def corpora():
    """Documents to learn from, and others of the same topics."""
    planted = sample_corpus(600, 6, 150, 3, mean_length=60, seed=2)
    topics = {"topic_embedding": planted.topic_embedding, "topic_word": planted.topic_word}
    return planted.counts, sample_corpus(200, 6, 150, 3, mean_length=60, seed=8, **topics).counts


@pytest.fixture(params=FEW)
def settings(request):
    return {"n_topics": 6, "n_dims": 3, "random_state": 0, "tol": 0, "validation_fraction": 0.1, **FEW[request.param]}


@pytest.fixture
def model(settings, corpora):
    return TopicEmbeddingModel(**settings).fit(corpora[0])


def bits(model):
    state = model.state_
    return [array.tobytes() for array in (state.embedding, state.mean, state.word_topic.data, state.word_topic.indices)]


def test_more_sweeps_do_not_make_it_worse(model, corpora):
    documents, fresh = corpora
    before = model.score(fresh)
    model.set_params(warm_start=True, max_sweeps=6).fit(documents)
    assert model.score(fresh) > before - 0.002
    assert np.isfinite(model.transform(fresh)).all()


def test_topics_keep_their_numbers(model, corpora):
    before = model.topic_word_.toarray()
    model.set_params(warm_start=True).fit(corpora[0])
    likeness = np.corrcoef(model.topic_word_.toarray(), before)[:6, 6:]
    np.testing.assert_array_equal(likeness.argmax(axis=1), np.arange(6))


def test_history_goes_on(model, corpora):
    n, history = model.n_sweeps_, list(model.history_)
    model.set_params(warm_start=True, max_sweeps=2).fit(corpora[0])
    assert model.n_sweeps_ == len(model.history_) == n + 2
    assert model.history_[:n] == history
    assert [record["sweep"] for record in model.history_] == list(range(1, n + 3))
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)


def test_nothing_is_served_that_was_learned_before(model, corpora):
    before = model.transform(corpora[1])
    after = model.set_params(warm_start=True).fit(corpora[0]).transform(corpora[1])
    assert not np.array_equal(before, after)


def test_without_it_fit_begins_anew(settings, model, corpora):
    first = bits(model)
    assert bits(model.fit(corpora[0])) == first
    assert (
        bits(TopicEmbeddingModel(warm_start=True, **settings).fit(corpora[0])) == first
    )  # there is nothing to go on from
    assert model.n_sweeps_ == settings["max_sweeps"]


def test_step_sizes_and_random_numbers_of_stochastic_inference_go_on(corpora):
    """Two fits of three sweeps are one of six."""
    usual = TopicEmbeddingModel(
        6, 3, inference="svi", max_sweeps=3, batch_size=100, validation_fraction=0, random_state=0
    )
    whole = TopicEmbeddingModel(**{**usual.get_params(), "max_sweeps": 6}).fit(corpora[0])
    halves = usual.set_params(warm_start=True).fit(corpora[0]).fit(corpora[0])
    assert bits(halves) == bits(whole)
    assert [r["step_size"] for r in halves.history_] == [r["step_size"] for r in whole.history_]


def test_it_goes_on_from_a_file_and_with_other_documents(model, corpora, tmp_path):
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    for one in (model, loaded):
        one.set_params(warm_start=True).fit(corpora[1])
    assert bits(loaded) == bits(model)
    assert model.n_features_in_ == 150


def test_one_inference_goes_on_from_the_other(model, corpora):
    other = "memoized" if model.inference == "svi" else "svi"
    before = model.score(corpora[1])
    model.set_params(warm_start=True, inference=other, step_offset=10, max_sweeps=4).fit(corpora[0])
    assert model.score(corpora[1]) > before - 0.1


def test_texts_go_through_the_fitted_pipeline(make, texts):
    model = make(n_topics=3, n_dims=2, warm_start=True).fit(texts)
    words = list(model.vocabulary_)
    model.fit([*texts[:30], "unheard zebras galloping"])
    assert list(model.vocabulary_) == words
    assert model.n_sweeps_ == 4


def test_what_does_not_go_together_is_refused_and_changes_nothing(model, corpora):
    before = bits(model)
    model.set_params(warm_start=True)
    with pytest.raises(InputError, match="149 features"):
        model.fit(corpora[0][:, :-1])
    with pytest.raises(InputError, match="fitted on counts and cannot read texts"):
        model.fit(["galaxy star"] * 9)
    with pytest.raises(InputError, match="none of the 3 documents has a known word"):
        model.fit(np.zeros((3, 150), dtype=int))
    for change in ({"n_topics": 7}, {"n_dims": 2}):
        name = next(iter(change))
        with pytest.raises(InputError, match=f"goes on from {name}="):
            model.set_params(**change).fit(corpora[0])
        model.set_params(n_topics=6, n_dims=3)
    assert bits(model) == before
