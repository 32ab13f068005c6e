"""LDA: the contract of all topic models, scikit-learn's LDA beside it, and planted topics found again."""

import json

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from asterism import InputError, ModelFileError, TopicEmbeddingModel, sample_corpus
from asterism.baselines import LDA
from asterism.evaluation.completion import split_tokens
from asterism.model.dirichlet import DirichletPriors, DirichletTopics
from asterism.parameters import check_parameters

SPARSE = {"sparse": True, "alpha": 0.1, "beta": 0.1, "step_offset": 1.0}


@pytest.fixture(params=[{}, SPARSE], ids=["dense", "sparse"], scope="module")
def make_lda(request):
    def make_model(**parameters):
        small = {"n_topics": 5, "max_sweeps": 2, "batch_size": 32, "random_state": 0}
        return LDA(**{**small, **request.param, **parameters})

    return make_model


@pytest.fixture(scope="module")
def model(make_lda, counts):
    """Fitted once and shared: tests must not change it."""
    return make_lda().fit(counts)


def bits(model):
    counted = model.state_.word_topic
    arrays = (counted.indptr, counted.indices, counted.data) if sparse.issparse(counted) else (counted,)
    return [array.tobytes() for array in arrays]


# --- what it answers --------------------------------------------------------------------------------------------


def test_topics_and_documents_are_distributions(model, counts):
    assert model.topic_word_.shape == (5, counts.shape[1])
    np.testing.assert_allclose(model.topic_word_.sum(axis=1), 1, rtol=1e-5)
    assert model.topic_shares_.sum() == pytest.approx(1)
    frequency = np.asarray(counts.sum(axis=0)).ravel() / counts.sum()
    assert np.corrcoef(model.topic_shares_ @ model.topic_word_.toarray(), frequency)[0, 1] > 0.9
    shares = model.transform(counts)
    assert shares.shape == (120, 5)
    assert shares.dtype == np.float32
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(shares, model.topic_proportions(counts).astype(np.float32))
    top = model.topic_proportions(counts, top=2)
    np.testing.assert_allclose(top.data, model.topic_proportions(counts)[top.nonzero()])
    np.testing.assert_array_equal(model.transform(counts[7]), shares[7:8])  # a document's answer is its own


def test_top_words_are_the_most_probable_ones(model):
    words = model.top_words(2, 7)
    np.testing.assert_allclose([p for _, p in words], np.sort(model.topic_word_.toarray()[2])[::-1][:7])
    assert words[0].word == f"word_{model.topic_word_.toarray()[2].argmax()}"
    assert list(model.get_feature_names_out())[:2] == ["lda0", "lda1"]


def test_history_and_score(make_lda, counts):
    model = make_lda(validation_fraction=0.3, tol=0, max_sweeps=3).fit(counts)
    assert [record["sweep"] for record in model.history_] == [1, 2, 3]
    assert all(record["heldout_score"] < 0 < record["local_steps"] for record in model.history_)
    assert model.n_sweeps_ == 3
    assert model.perplexity(counts) == pytest.approx(np.exp(-model.score(counts)))
    assert 1 < model.perplexity(counts) < counts.shape[1]


def test_texts_are_read_as_by_the_topic_embedding_model(make_lda, texts, text_model):
    model = make_lda(n_topics=3).fit(texts)
    assert list(model.vocabulary_) == list(text_model.vocabulary_)
    tokens = [text.rstrip(".").split() for text in texts]
    assert make_lda(n_topics=3).fit(tokens).transform(tokens).shape == (60, 3)
    with pytest.raises(InputError, match="documents"):
        model.transform(tokens)


def test_plan_says_what_a_fit_needs(make_lda, counts):
    planned = make_lda().plan(counts)
    assert set(planned.memory) == set(planned.seconds) == {"sweeps"}
    assert planned.peak > 0
    assert planned.seconds["sweeps"] > 0


# --- what must and must not matter ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_do_not_change_a_bit(make_lda, model, counts, n_threads):
    other = make_lda(n_threads=n_threads).fit(counts)
    assert bits(other) == bits(model)
    np.testing.assert_array_equal(other.transform(counts), model.transform(counts))
    assert other.score(counts) == model.score(counts)
    assert bits(make_lda(random_state=1).fit(counts)) != bits(model)


def test_engines_agree(make_lda, counts):
    cpu, reference = make_lda(max_sweeps=1).fit(counts), make_lda(max_sweeps=1, engine="reference").fit(counts)
    assert reference.score(counts) == pytest.approx(cpu.score(counts), abs=0.02)


def test_a_stream_in_one_call_or_in_batches_is_the_same(make_lda, counts):
    batches = make_lda(batch_size=40, total_documents=120).partial_fit(counts[:40])
    whole = clone(batches).partial_fit(counts[:40]).partial_fit(counts[40:])
    batches.partial_fit(counts[40:80]).partial_fit(counts[80:])
    assert bits(batches) == bits(whole)


def test_warm_start_goes_on_and_keeps_the_number_of_topics(make_lda, counts):
    model = make_lda(warm_start=True, max_sweeps=1).fit(counts)
    first = model.score(counts)
    assert model.set_params(max_sweeps=6).fit(counts).score(counts) > first
    assert [record["sweep"] for record in model.history_] == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(InputError, match="warm_start goes on from n_topics=5; n_topics=6"):
        model.set_params(n_topics=6).fit(counts)


def test_a_loaded_model_is_the_same_and_goes_on(make_lda, counts, tmp_path):
    model = make_lda().fit(counts[:60])
    loaded = LDA.load(model.save(tmp_path / "model"))
    assert loaded.state_.priors == model.state_.priors
    assert loaded.get_params() == model.get_params()
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.transform(counts), model.transform(counts))
    assert bits(loaded.partial_fit(counts[60:])) == bits(model.partial_fit(counts[60:]))


def test_a_model_of_another_kind_is_refused(model, text_model, tmp_path):
    with pytest.raises(ModelFileError, match="holds a model of kind 'LDA', not 'TopicEmbeddingModel'"):
        TopicEmbeddingModel.load(model.save(tmp_path / "lda"))
    folder = text_model.save(tmp_path / "embeddings")
    with pytest.raises(ModelFileError, match="holds a model of kind 'TopicEmbeddingModel', not 'LDA'"):
        LDA.load(folder)
    description = json.loads((folder / "model.json").read_text())
    for key in ("kind", "n_topics"):  # as the first version wrote it
        del description[key]
    (folder / "model.json").write_text(json.dumps(description))
    assert TopicEmbeddingModel.load(folder).top_words(0) == text_model.top_words(0)


@pytest.mark.parametrize("change", [{"n_topics": 4}, {"n_topics": -1}, {"n_topics": "5"}, {"priors": {"alpha": 1}}])
def test_a_description_that_does_not_fit_is_refused(model, tmp_path, change):
    folder = model.save(tmp_path / "model")
    description = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(description | change))
    with pytest.raises(ModelFileError, match="is damaged"):
        LDA.load(folder)


# --- odd input --------------------------------------------------------------------------------------------------


def test_documents_without_a_known_word_have_all_topics_alike(make_lda, counts):
    with_empty = sparse.vstack([counts, sparse.csr_matrix((3, 60), dtype=int)]).tocsr()
    model = make_lda().fit(with_empty)
    np.testing.assert_allclose(model.transform(with_empty)[-3:], 0.2, rtol=1e-5)
    unseen = counts.toarray()
    unseen[:, 7] = 0
    model = make_lda().fit(unseen)
    only = np.zeros((1, 60), dtype=int)
    only[0, 7] = 3
    shares = model.transform(only)
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)
    assert np.isfinite(model.score(counts))


@pytest.mark.parametrize("n_documents", [1, 2])
def test_more_topics_than_documents_and_a_single_word(make_lda, counts, n_documents):
    few = counts[:n_documents]
    assert np.isfinite(make_lda(n_topics=9).fit(few).transform(few)).all()
    one_word = np.full((n_documents, 1), 3)
    model = make_lda(n_topics=3).fit(one_word)
    assert model.top_words(0)[0].probability == pytest.approx(1) or model.topic_shares_[0] == 0
    assert model.score(one_word) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 0), ("beta", "low"), ("sparse", 1), ("n_topics", 1), ("max_local_steps", 0), ("n_threads", 1.5)],
)
def test_a_wrong_setting_is_named(make_lda, counts, name, value):
    with pytest.raises(InputError, match=f"{name}=.* must be"):
        make_lda(**{name: value}).fit(counts)


def test_before_and_after_a_failed_fit(make_lda, counts):
    model = make_lda()
    with pytest.raises(NotFittedError):
        model.transform(counts)
    with pytest.raises(InputError, match="empty"):
        model.fit(np.zeros((3, 4), dtype=int))
    assert not hasattr(model, "state_")
    check_parameters(LDA())


@parametrize_with_checks([LDA(n_topics=3, max_sweeps=2, non_integer="round")])
def test_estimator_checks(estimator, check):
    check(estimator)


# --- scikit-learn's, and planted topics -------------------------------------------------------------------------


@pytest.mark.parametrize("n_rounds", [1, 4, 30])
def test_documents_are_scikit_learns_round_by_round(counts, n_rounds):
    """Under the same topics, both from equal weights of all topics."""
    rival = LatentDirichletAllocation(5, doc_topic_prior=0.3, topic_word_prior=0.2, random_state=0, max_iter=2)
    rival.fit(counts)
    rival.set_params(max_doc_update_iter=n_rounds, mean_change_tol=0.0)
    ours = LDA(5, alpha=0.3, beta=0.2, max_local_steps=n_rounds, local_tol=0, max_sweeps=1).fit(counts)
    word_topic = np.ascontiguousarray(rival.components_.T - 0.2, dtype=np.float32)
    ours.state_ = DirichletTopics(np.maximum(word_topic, 0), DirichletPriors(0.3, 0.2))
    np.testing.assert_allclose(ours.transform(counts), rival.transform(counts), atol=1e-4)


def test_predictions_are_as_good_as_scikit_learns():
    planted = sample_corpus(600, 5, 80, 3, mean_length=60, seed=1).counts
    train, test = planted[:500], planted[500:]
    halves, ours, theirs = split_tokens(test), [], []
    for seed in range(3):
        schedule = {"batch_size": 100, "random_state": seed}
        rival = LatentDirichletAllocation(5, learning_method="online", total_samples=500, max_iter=10, **schedule)
        shares = rival.fit(train).transform(halves.observed.astype(float))
        topic_word = rival.components_ / rival.components_.sum(axis=1, keepdims=True)
        theirs.append(np.exp(-halves.scored.multiply(np.log(shares @ topic_word)).sum() / halves.n_scored))
        model = LDA(5, max_sweeps=10, tol=0, validation_fraction=0, **schedule).fit(train)
        ours.append(model.perplexity(test))
    assert min(ours) == pytest.approx(min(theirs), rel=0.02)


def test_planted_topics_are_found(make_lda):
    planted = sample_corpus(800, 5, 100, 3, mean_length=80, seed=4)

    def likeness(model):
        found = model.topic_word_.toarray()
        cosine = found @ planted.topic_word.T
        cosine /= np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(planted.topic_word, axis=1)
        return cosine[linear_sum_assignment(-cosine)].mean()

    after = make_lda(batch_size=100, max_sweeps=30, tol=0, alpha=0.3, beta=0.05).fit(planted.counts)
    before = clone(after).set_params(max_sweeps=1).fit(planted.counts)
    before.state_ = before._start(planted.counts)
    assert likeness(before) < 0.6
    assert likeness(after) > 0.85
