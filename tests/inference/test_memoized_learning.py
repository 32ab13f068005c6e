"""Memoized inference through the estimator: repeatable, recovering, better than the paper's, sane on odd corpora."""

import copy

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from asterism import TopicEmbeddingModel, sample_corpus


def memoized(n_topics=6, n_dims=3, **settings):
    usual = {"warm_sweeps": 20, "draw_sweeps": 5, "max_sweeps": 12, "random_state": 0}
    return TopicEmbeddingModel(n_topics, n_dims, inference="memoized", **{**usual, **settings})


@pytest.fixture(scope="module")
def planted():
    """Two groups of three topics; those of a group occur together."""
    rng = np.random.default_rng(0)
    embedding = np.repeat([[1.5, 0.0], [-1.5, 0.0]], 3, axis=0) + 0.3 * rng.normal(size=(6, 2))
    return sample_corpus(700, 6, 200, mean_length=80, beta=0.03, topic_embedding=embedding, seed=5)


@pytest.fixture(scope="module")
def fitted(planted):
    return memoized().fit(planted.counts)


def _matched(model, planted):
    """Planted topics' numbers in the model, and the cosines of their words."""
    learned = model.topic_word_.toarray()
    learned /= np.maximum(np.linalg.norm(learned, axis=1, keepdims=True), 1e-12)
    true = planted.topic_word / np.linalg.norm(planted.topic_word, axis=1, keepdims=True)
    rows, columns = linear_sum_assignment(-true @ learned.T)
    return columns, (true @ learned.T)[rows, columns]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_topics_and_correlations_come_back(planted, seed):
    model = memoized(random_state=seed).fit(planted.counts)
    order, cosine = _matched(model, planted)
    assert cosine.min() > 0.95
    learned = np.array([[model.correlation(i, j) for j in order] for i in order])
    off_diagonal = ~np.eye(6, dtype=bool)
    assert np.corrcoef(learned[off_diagonal], planted.weight_correlation[off_diagonal])[0, 1] > 0.9
    same = np.equal.outer(np.arange(6) // 3, np.arange(6) // 3) & off_diagonal
    assert learned[same].mean() > learned[~same & off_diagonal].mean() + 0.5


def test_it_predicts_better_than_stochastic_inference(fitted, planted):
    fresh = sample_corpus(
        200, 6, 200, mean_length=80, topic_embedding=planted.topic_embedding, topic_word=planted.topic_word, seed=9
    )
    svi = TopicEmbeddingModel(6, 3, inference="svi", max_sweeps=20, batch_size=64, random_state=0).fit(planted.counts)
    assert fitted.score(fresh.counts) > svi.score(fresh.counts) + 0.02


@pytest.mark.parametrize("n_topics", [6, 530])  # with many topics LDA walks, and eigenvectors come by iteration
def test_number_of_threads_changes_no_bit(planted, n_topics):
    settings = {"max_sweeps": 7, "warm_sweeps": 3, "n_topics": n_topics}
    models = [memoized(n_threads=n, **settings).fit(planted.counts[:600]) for n in (1, 2, 3)]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].topic_embeddings_, other.topic_embeddings_)
        assert (models[0].state_.word_topic != other.state_.word_topic).nnz == 0
        np.testing.assert_array_equal(models[0].transform(planted.counts[:9]), other.transform(planted.counts[:9]))


def test_counts_are_exact_through_every_sweep(planted):
    """However many batches and sweeps: the counts are those of the draws that are remembered."""
    model = memoized(draw_sweeps=9, batch_size=50)
    model._begin(planted.counts)
    learner = model._learner(planted.counts, model._engine(), False)
    for _ in learner.warm_up():
        pass
    for sweep in range(3):
        before = learner.draws.copy()
        for _ in learner.sweep(sweep):
            pass
        assert (before != learner.draws).any()
        counted = learner.engine.count_words(learner.corpus, learner.draws, model.n_topics)
        assert (counted != learner.topics.word_topic).nnz == 0


def test_without_soft_sweeps_counts_are_the_mean_of_draws(planted):
    """Fewer sweeps in all than sweeps with draws are enough for it."""
    model = memoized(max_sweeps=3, draw_sweeps=9, validation_fraction=0).fit(planted.counts)
    counts = model.state_.word_topic
    np.testing.assert_allclose(3 * counts.data, np.rint(3 * counts.data), atol=1e-9)
    assert (counts.data % 1 > 0.1).any()
    np.testing.assert_allclose(counts.sum(axis=1).A1, planted.counts.sum(axis=0).A1)


@pytest.mark.parametrize(("topics_per_word", "words_per_topic"), [(1, 30), (2, 12)])
def test_words_topics_may_be_bounded_for_drawing(planted, fitted, topics_per_word, words_per_topic):
    """What is counted stays whole, and topics nearly as good."""
    model = memoized(topics_per_word=topics_per_word, words_per_topic=words_per_topic).fit(planted.counts)
    assert _matched(model, planted)[1].min() > 0.9
    per_topic = np.diff(model.state_.word_topic.tocsc().indptr)
    assert per_topic.max() > 30
    assert model.state_.word_topic.sum() == pytest.approx(planted.counts.sum(), abs=1)
    assert not np.array_equal(model.topic_embeddings_, fitted.topic_embeddings_)


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"topics_per_word": 2}, (100, 2)),
        ({"words_per_topic": 7}, (7, 10)),
        ({"inference": "svi"}, (100, 10)),
        ({}, (100, 50)),  # so many topics are all
    ],
)
def test_what_is_none_beside_a_bound_is_the_papers(settings, bounds):
    local = TopicEmbeddingModel(50, **settings)._local()
    assert (local.words_per_topic, local.topics_per_word) == bounds


def test_soft_counts_hold_every_token(fitted):
    counted = fitted.state_.word_topic.sum()
    assert counted == pytest.approx(round(counted), abs=1)


def test_beta_is_learned_unless_it_is_given(planted):
    learned = memoized(max_sweeps=2).fit(planted.counts[:200]).state_.priors.beta
    given = memoized(max_sweeps=2, beta=0.2).fit(planted.counts[:200]).state_.priors.beta
    assert given == 0.2
    assert learned != pytest.approx(1 / 6)


@pytest.mark.parametrize("tau", [0.4, 4.0])
def test_tau_of_the_documents_is_found_from_one(tau):
    """Long documents tell how far weights scatter around what embeddings predict; by a factor of two, either way."""
    documents = sample_corpus(400, 8, 200, 2, mean_length=400, tau=tau, seed=1).counts
    model = memoized(8, 2, learn_tau=True, warm_sweeps=40, max_sweeps=20, tol=0).fit(documents)
    assert tau / 2 < model.state_.priors.tau < tau * 2
    assert (model.state_.priors.tau > 1) == (tau > 1)
    assert model.tau is None  # the setting stays
    assert (model.state_.priors.alpha, model.state_.priors.rho) == (0.1, 0.1)


def test_learned_priors_are_kept_and_gone_on_from(planted, tmp_path):
    model = memoized(learn_tau=True, learn_alpha=True, max_sweeps=8).fit(planted.counts[:300])
    learned = model.state_.priors
    assert learned.tau != 1.0
    assert learned.alpha == pytest.approx(1 / np.mean(model.topic_embeddings_**2))
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    assert loaded.state_.priors == learned
    loaded.set_params(warm_start=True, max_sweeps=1).fit(planted.counts[:300])
    assert loaded.state_.priors.tau == pytest.approx(learned.tau, rel=0.3)
    assert loaded.state_.priors != learned
    loaded.set_params(learn_tau=False, tau=1.5).fit(planted.counts[:300])
    assert loaded.state_.priors.tau == 1.5


def test_save_and_load_and_going_on_with_a_stream(fitted, planted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = TopicEmbeddingModel.load(tmp_path / "model")
    np.testing.assert_array_equal(fitted.transform(planted.counts), loaded.transform(planted.counts))
    loaded.partial_fit(planted.counts[:100])
    assert np.isfinite(loaded.score(planted.counts))


@pytest.mark.parametrize(
    "counts",
    [
        np.eye(3, 5, dtype=int),  # three documents of one word
        np.full((20, 1), 3),  # one word
        np.full((1, 4), 2),  # one document
        np.tile([1, 2, 0, 4], (30, 1)),  # duplicates
        np.vstack([np.full((1, 30), 400), np.eye(10, 30, dtype=int) * 5]),  # 12,000 tokens and five
        np.vstack([np.zeros((5, 6), dtype=int), np.ones((5, 6), dtype=int)]),  # half of them empty
    ],
    ids=["three", "one word", "one document", "duplicates", "long and short", "empty"],
)
@pytest.mark.parametrize(("n_topics", "n_dims"), [(2, 1), (7, 50), (60, 3)])
def test_odd_corpora_stay_sane(counts, n_topics, n_dims):
    model = memoized(n_topics, n_dims, max_sweeps=8, warm_sweeps=5).fit(counts)
    assert np.isfinite(model.topic_embeddings_).all()
    vectors = model.transform(counts)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(model.topic_proportions(counts).sum(axis=1), 1, rtol=1e-5)
    assert not vectors[np.asarray(counts).sum(axis=1) == 0].any()


def test_uncertainty_and_spread_of_documents_make_up_the_prior(fitted, planted):
    """Parameter expansion keeps E[a a'] = I/ρ: what Σ_a leaves is how documents spread."""
    rho = fitted.state_.priors.rho
    posterior = copy.copy(fitted).set_params(evidence="all")
    spread = np.cov(posterior.transform(planted.counts).T, bias=True)
    np.testing.assert_allclose(spread + fitted.state_.document_cov, np.eye(3) / rho, atol=0.25 / rho)


def test_search_vectors_put_documents_of_a_group_together(fitted, planted):
    vectors = fitted.search_vectors(planted.counts)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1).max() < 1
    group = planted.weights[:, :3].mean(axis=1) > planted.weights[:, 3:].mean(axis=1)
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    nearest = np.argsort(-likeness, axis=1)[:, :10]
    assert np.mean(group[nearest] == group[:, None]) > 0.85


def test_topics_count_every_token_in_the_end_those_of_heldout_documents_too(planted):
    model = memoized(validation_fraction=0.1, warm_sweeps=5, max_sweeps=8).fit(planted.counts)
    assert model.history_[-1]["heldout_score"] is not None
    assert model.state_.topic_count.sum() == pytest.approx(planted.counts.sum(), rel=1e-3)


# --- where it begins ----------------------------------------------------------------------------------------------


def _cosines(model, planted):
    """Of topic k's words with planted topic k's."""
    learned = model.topic_word_.toarray()
    learned /= np.maximum(np.linalg.norm(learned, axis=1, keepdims=True), 1e-12)
    return np.sum(learned * planted.topic_word / np.linalg.norm(planted.topic_word, axis=1, keepdims=True), axis=1)


@pytest.mark.parametrize("warm_sweeps", [0, 40])
def test_given_topics_keep_their_numbers(planted, fitted, warm_sweeps):
    assert _cosines(fitted, planted).min() < 0.5  # a random start finds them in another order
    seeded = memoized(init=planted.topic_word, warm_sweeps=warm_sweeps, random_state=1).fit(planted.counts)
    assert _cosines(seeded, planted).min() > 0.95


def test_a_few_words_are_enough_and_unknown_topics_find_the_rest(planted):
    """Three seed words for each of four topics; topics 4 and 5 are open."""
    seeds = np.zeros_like(planted.topic_word)
    for k in range(4):
        seeds[k, np.argsort(-planted.topic_word[k])[:3]] = 1
    model = memoized(init=sparse.csr_matrix(seeds), warm_sweeps=40).fit(planted.counts)
    assert _cosines(model, planted)[:4].min() > 0.9
    assert _matched(model, planted)[1].min() > 0.9


def test_a_model_is_a_start_and_its_topics_keep_their_numbers(planted, fitted):
    again = memoized(init=fitted, random_state=7).fit(planted.counts)
    words = [model.topic_word_.toarray() for model in (again, fitted)]
    likeness = np.corrcoef(*words)[:6, 6:]
    np.testing.assert_array_equal(likeness.argmax(axis=1), np.arange(6))


def test_a_random_start_sweeps_no_lda(planted):
    same = [memoized(max_sweeps=2, **how).fit(planted.counts[:200]) for how in ({"init": "random"}, {"warm_sweeps": 0})]
    np.testing.assert_array_equal(*(model.topic_embeddings_ for model in same))


def test_stochastic_inference_begins_with_given_topics(planted):
    settings = {"inference": "svi", "max_sweeps": 3, "batch_size": 128, "random_state": 0}
    seeded = TopicEmbeddingModel(6, 3, init=planted.topic_word, **settings).fit(planted.counts)
    assert _cosines(seeded, planted).min() > 0.9
    assert _cosines(TopicEmbeddingModel(6, 3, **settings).fit(planted.counts), planted).min() < 0.7


def test_a_model_with_a_given_start_is_saved_without_it(planted, tmp_path):
    model = memoized(init=planted.topic_word, max_sweeps=2).fit(planted.counts[:100])
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    assert loaded.init == "lda"
    np.testing.assert_array_equal(loaded.transform(planted.counts[:9]), model.transform(planted.counts[:9]))
