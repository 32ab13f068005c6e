"""TopicEmbeddingModel: what it learns, what it answers, and what must not change the answers."""

import numpy as np
import pytest
from scipy import sparse

from asterism import InputError, TextPipeline
from asterism.model import joint


def bits(model):
    """Everything learned, as one comparable value."""
    state = model.state_
    arrays = (state.embedding, state.embedding_cov, state.document_cov)
    counted = (state.word_topic.indptr, state.word_topic.indices, state.word_topic.data)
    return [np.asarray(array).tobytes() for array in (*arrays, *counted)]


# --- fitted attributes ------------------------------------------------------------------------------------------


def test_topics_are_distributions_over_words(model, counts):
    topic_word = model.topic_word_
    assert sparse.issparse(topic_word)
    assert topic_word.shape == (5, counts.shape[1])
    assert topic_word.data.min() >= 0
    np.testing.assert_allclose(topic_word.sum(axis=1), 1)


def test_topic_shares_are_the_tokens_of_each_topic(model, counts):
    shares = model.topic_shares_
    assert shares.shape == (5,)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    # Topics mixed by their shares give back roughly how often each word occurs.
    frequency = np.asarray(counts.sum(axis=0)).ravel() / counts.sum()
    assert np.corrcoef(shares @ model.topic_word_.toarray(), frequency)[0, 1] > 0.95


def test_embeddings_have_a_row_for_each_topic(model):
    assert model.topic_embeddings_.shape == (5, 3)
    assert np.isfinite(model.topic_embeddings_).all()


def test_vocabulary_is_numbered_given_or_named_by_columns(make, model, counts):
    assert list(model.vocabulary_[:2]) == ["word_0", "word_1"]
    words = [f"w{v}" for v in range(counts.shape[1])]
    assert list(make(max_sweeps=1, vocabulary=words).fit(counts).vocabulary_) == words
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts.toarray(), columns=words)
    assert list(make(max_sweeps=1).fit(frame).vocabulary_) == words


def test_words_are_shown_as_people_write_them(make):
    texts = ["galaxies galaxies galaxy orbit", "galaxies orbits orbiting orbiting"] * 10
    model = make(n_topics=2, n_dims=2, max_sweeps=1).fit(texts)
    assert list(model.vocabulary_) == ["galaxies", "orbiting"]


def test_history_has_a_record_a_sweep(make, planted):
    model = make(max_sweeps=3, validation_fraction=0.3, tol=0).fit(planted.counts)
    assert model.n_sweeps_ == len(model.history_) == 3
    assert [record["sweep"] for record in model.history_] == [1, 2, 3]
    for record in model.history_:
        assert set(record) == {
            "sweep",
            "seconds",
            "documents_per_second",
            "local_steps",
            "step_size",
            "heldout_score",
        }
        assert record["documents_per_second"] > 0
        assert 1 <= record["local_steps"] <= model.max_local_steps
        assert record["heldout_score"] < 0
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


# --- questions about topics -------------------------------------------------------------------------------------


def test_top_words_are_the_most_probable_ones(model):
    topic_word = model.topic_word_.toarray()
    for topic in range(5):
        words = model.top_words(topic, 7)
        probabilities = [entry.probability for entry in words]
        assert len(words) == 7
        assert probabilities == sorted(probabilities, reverse=True)
        np.testing.assert_allclose(probabilities, np.sort(topic_word[topic])[::-1][:7])
        for word, probability in words:
            column = list(model.vocabulary_).index(word)
            assert probability == pytest.approx(topic_word[topic, column])


def test_correlation_is_the_models_covariance_normalised(model):
    embedding, priors = model.topic_embeddings_, model.state_.priors
    covariance = embedding @ embedding.T / priors.rho + np.eye(5) / priors.tau
    spread = np.sqrt(np.diag(covariance))
    expected = covariance / spread / spread[:, None]
    found = np.array([[model.correlation(i, j) for j in range(5)] for i in range(5)])
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(np.diag(found), 1)


def test_the_correlation_graph_holds_what_correlated_lists(model):
    graph = model.correlation_graph(n=2, threshold=-1)
    for topic in range(model.n_topics):
        for other, correlation in model.correlated(topic, n=2):
            assert graph[topic, other] == graph[other, topic] == pytest.approx(correlation, rel=1e-5)
    assert graph.nnz <= 2 * 2 * model.n_topics
    assert model.correlation_graph(threshold=2).nnz == 0


def test_correlated_lists_the_others_strongest_first(model):
    found = model.correlated(2, n=99)
    assert sorted(entry.topic for entry in found) == [0, 1, 3, 4]
    values = [entry.correlation for entry in found]
    assert values == sorted(values, reverse=True)
    for topic, value in found:
        assert value == pytest.approx(model.correlation(2, topic))
    assert model.correlated(2, n=2) == found[:2]


# --- documents --------------------------------------------------------------------------------------------------


def test_proportions_are_distributions_over_topics(model, counts):
    shares = model.topic_proportions(counts)
    assert shares.shape == (counts.shape[0], 5)
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("top", [1, 2, 5, 99])
def test_top_proportions_are_the_largest_of_all(model, counts, top):
    dense, found = model.topic_proportions(counts), model.topic_proportions(counts, top=top)
    assert sparse.issparse(found)
    assert found.format == "csr"
    kept = min(top, 5)
    assert (np.diff(found.indptr) == kept).all()
    np.testing.assert_array_equal(dense[found.nonzero()], found.data)
    np.testing.assert_array_equal(np.sort(found.data.reshape(-1, kept), 1), np.sort(dense, 1)[:, -kept:])


def test_perplexity_is_the_exponential_of_the_negative_score(model, counts):
    assert model.perplexity(counts) == pytest.approx(np.exp(-model.score(counts)))
    assert 1 < model.perplexity(counts) < counts.shape[1]  # better than guessing among all words


def test_score_is_lower_where_words_do_not_belong_together(model, counts):
    rng = np.random.default_rng(0)
    shuffled = counts.toarray()
    for column in shuffled.T:
        rng.shuffle(column)
    assert model.score(shuffled) < model.score(counts) - 0.1


@pytest.mark.parametrize(
    "kind",
    [
        sparse.csc_matrix,
        sparse.coo_matrix,
        sparse.lil_matrix,
        sparse.dok_matrix,
        sparse.csr_array,
        sparse.csc_array,
        sparse.coo_array,
        lambda x: x.toarray(),
        lambda x: x.toarray().tolist(),
        lambda x: x.toarray().astype(float),
        lambda x: x.toarray().astype(np.uint8),
        lambda x: np.asfortranarray(x.toarray()),
    ],
)
def test_every_kind_of_matrix_gives_the_same_bits(make, model, counts, kind):
    other = make().fit(kind(counts))
    assert bits(other) == bits(model)
    np.testing.assert_array_equal(other.transform(kind(counts)), model.transform(counts))


def test_data_frames_and_their_column_order(make, model, counts):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts.toarray(), columns=[f"w{v}" for v in range(counts.shape[1])])
    other = make().fit(frame)
    assert bits(other) == bits(model)
    with pytest.raises(ValueError, match="same order"):
        other.transform(frame[frame.columns[::-1]])


def test_texts_and_the_tokens_and_counts_of_the_same_words_agree(make, texts):
    plain = TextPipeline(stem=False, stop_words=None)
    from_texts = make(text_pipeline=plain).fit(texts)
    from_tokens = make(text_pipeline=plain).fit([text.rstrip(".").split() for text in texts])
    from_counts = make().fit(plain.fit_transform(texts))
    assert bits(from_texts) == bits(from_tokens) == bits(from_counts)
    assert list(from_texts.vocabulary_) == list(from_tokens.vocabulary_)
    vectors = from_texts.transform(texts)
    np.testing.assert_array_equal(from_tokens.transform([text.rstrip(".").split() for text in texts]), vectors)
    np.testing.assert_array_equal(from_counts.transform(plain.transform(texts)), vectors)


@pytest.mark.parametrize("container", [tuple, iter, np.array, lambda x: np.array(x, dtype=object), "Series"])
def test_every_container_of_texts_gives_the_same(text_model, make, texts, container):
    if container == "Series":
        container = pytest.importorskip("pandas").Series
    assert bits(make(n_topics=3, n_dims=2).fit(container(texts))) == bits(text_model)
    np.testing.assert_array_equal(text_model.transform(container(texts)), text_model.transform(texts))


def test_fitting_on_other_input_forgets_the_first(make, counts, texts):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts.toarray(), columns=[f"w{v}" for v in range(counts.shape[1])])
    model = make(n_topics=3, n_dims=2).fit(frame).fit(texts)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == len(model.vocabulary_)
    assert bits(model) == bits(make(n_topics=3, n_dims=2).fit(texts))
    assert model.fit(counts).text_pipeline_ is None


def test_a_documents_vector_is_its_own(model, counts):
    """Alone, among others, or in another order: the same bits."""
    together = model.transform(counts)
    assert together.dtype == np.float32
    assert together.shape == (counts.shape[0], 3)
    assert len(np.unique(together, axis=0)) > 100  # documents differ
    alone = np.vstack([model.transform(counts[i]) for i in range(20)])
    np.testing.assert_array_equal(alone, together[:20])
    order = np.random.default_rng(0).permutation(counts.shape[0])
    np.testing.assert_array_equal(model.transform(counts[order]), together[order])
    many = sparse.vstack([counts] * 5).tocsr()  # more than one of the batches that are worked on at a time
    np.testing.assert_array_equal(model.transform(many), np.vstack([together] * 5))
    np.testing.assert_array_equal(model.topic_proportions(many), np.vstack([model.topic_proportions(counts)] * 5))


@pytest.mark.parametrize("inference", ["svi", "memoized"])
def test_covariances_of_documents(make, counts, inference):
    """Each document's own; more words shrink them; without words they are the prior's."""
    sweeps = {"warm_sweeps": 40, "draw_sweeps": 1, "max_sweeps": 6} if inference == "memoized" else {}
    model = make(inference=inference, **sweeps).fit(counts)
    vectors, covs = model.transform(counts, return_cov=True)
    np.testing.assert_array_equal(vectors, model.transform(counts))
    assert covs.shape == (120, 3, 3)
    assert covs.dtype == np.float32
    np.testing.assert_array_equal(model.transform(counts[7], return_cov=True)[1][0], covs[7])
    np.testing.assert_allclose(covs, covs.transpose(0, 2, 1), rtol=1e-4, atol=1e-6)
    assert np.linalg.eigvalsh(covs).min() > 0
    longer = model.transform(10 * counts, return_cov=True)[1]
    sizes = [np.trace(cov, axis1=1, axis2=2).mean() for cov in (longer, covs)]
    assert sizes[0] < 0.97 * sizes[1]  # the spread 1/τ of single weights stays
    prior = np.linalg.inv(joint.embedding_precision(model.state_))
    nothing = model.transform(sparse.csr_matrix((2, 60), dtype=int), return_cov=True)[1]
    np.testing.assert_allclose(nothing, [prior, prior], rtol=1e-5, atol=1e-7)
    assert np.linalg.eigvalsh(prior - covs).min() > -1e-5


def test_evidence_weighs_words_against_the_prior(make, counts):
    """Vectors move towards the prior mean; predictions stay the model's own."""
    model = make(inference="memoized", warm_sweeps=5).fit(counts)
    predictions = model.topic_proportions(counts), model.perplexity(counts)
    usual = model.transform(counts)
    lengths = []
    for evidence in ("all", 8, 0.5):
        vectors, covs = model.set_params(evidence=evidence).transform(counts, return_cov=True)
        lengths.append((np.linalg.norm(vectors, axis=1).mean(), -np.trace(covs, axis1=1, axis2=2).mean()))
        np.testing.assert_array_equal(model.topic_proportions(counts), predictions[0])
        assert model.perplexity(counts) == predictions[1]
    assert lengths == sorted(lengths, reverse=True)
    np.testing.assert_array_equal(model.set_params(evidence=8).transform(counts), usual)
    with pytest.raises(InputError, match="evidence='most' must be"):
        model.set_params(evidence="most").transform(counts)


# --- what must and must not matter ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_do_not_change_a_bit(make, model, counts, n_threads):
    other = make(n_threads=n_threads).fit(counts)
    assert bits(other) == bits(model)
    np.testing.assert_array_equal(other.transform(counts), model.transform(counts))
    assert other.score(counts) == model.score(counts)


def test_the_seed_decides_every_bit(make, model, counts):
    assert bits(make().fit(counts)) == bits(model)
    assert bits(make(random_state=1).fit(counts)) != bits(model)
    assert bits(make(random_state=None).fit(counts)) != bits(make(random_state=None).fit(counts))


@pytest.mark.parametrize("generator", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_a_seed_too(make, counts, generator):
    assert bits(make(random_state=generator(5)).fit(counts)) == bits(make(random_state=generator(5)).fit(counts))
    assert bits(make(random_state=generator(5)).fit(counts)) != bits(make(random_state=generator(6)).fit(counts))


def test_fitting_twice_begins_anew(make, model, counts):
    assert bits(make().fit(counts).fit(counts)) == bits(model)


def test_engines_agree(make, counts):
    """Of one model the engines say the same; learning separates them only by the draws that rounding tips."""
    counts = counts[:40]
    cpu = make(engine="cpu", max_sweeps=1).fit(counts)
    compiled = cpu.transform(counts), cpu.topic_proportions(counts), cpu.score(counts)
    cpu.set_params(engine="reference")
    np.testing.assert_allclose(cpu.transform(counts), compiled[0], atol=2e-3)
    np.testing.assert_allclose(cpu.topic_proportions(counts), compiled[1], atol=1e-3)
    assert cpu.score(counts) == pytest.approx(compiled[2], abs=1e-3)
    reference = make(engine="reference", max_sweeps=1).fit(counts)
    assert reference.score(counts) == pytest.approx(compiled[2], abs=0.05)


# --- when training ends -----------------------------------------------------------------------------------------


def test_training_stops_when_the_score_settles(make, counts):
    settled = make(max_sweeps=9, tol=100.0, validation_fraction=0.3).fit(counts)
    assert settled.converged_
    assert settled.n_sweeps_ == 2  # a change needs two scores
    unsettled = make(max_sweeps=3, tol=0, validation_fraction=0.3).fit(counts)
    assert not unsettled.converged_
    assert unsettled.n_sweeps_ == 3


def test_evaluate_every_spaces_the_scores_and_the_last_sweep_is_scored(make, counts):
    model = make(max_sweeps=5, tol=0, validation_fraction=0.3, evaluate_every=2).fit(counts)
    has_score = [record["heldout_score"] is not None for record in model.history_]
    assert has_score == [False, True, False, True, True]


def test_the_documents_held_out_are_not_learned_from(make, counts):
    """36 of 120 are held out: the tokens counted in topics are those of the other 84."""
    model = make(max_sweeps=1, batch_size=1000, validation_fraction=0.3).fit(counts)
    n_tokens = model.state_.topic_count.sum()
    assert 0.6 * counts.sum() < n_tokens < 0.8 * counts.sum()
    everything = make(max_sweeps=1, batch_size=1000, validation_fraction=0).fit(counts)
    assert everything.state_.topic_count.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("validation_fraction", [0.0, 0.1])
def test_too_few_to_hold_out_means_all_sweeps_and_no_score(make, counts, validation_fraction):
    model = make(max_sweeps=3, tol=100.0, validation_fraction=validation_fraction).fit(counts)
    assert model.n_sweeps_ == 3
    assert not model.converged_
    assert all(record["heldout_score"] is None for record in model.history_)


# --- streams ----------------------------------------------------------------------------------------------------


def test_a_stream_improves_the_score_of_documents_it_has_not_seen(make, planted):
    stream, heldout = planted.counts[:100], planted.counts[100:]
    model = make(total_documents=100, step_offset=5, batch_size=10).partial_fit(stream[:10])
    first = model.score(heldout)
    for epoch in range(3):
        for i in range(0, 100, 10):
            if epoch or i:
                model.partial_fit(stream[i : i + 10])
    assert model.score(heldout) > first + 0.05


def test_a_stream_in_one_call_or_in_batches_is_the_same(make, counts):
    batches = make(batch_size=40, total_documents=120).partial_fit(counts[:40])
    whole = make(batch_size=40, total_documents=120).partial_fit(counts[:40])
    whole.partial_fit(counts[40:])
    batches.partial_fit(counts[40:80]).partial_fit(counts[80:])
    assert bits(batches) == bits(whole)


def test_a_stream_goes_on_after_fit(make, counts):
    model = make().fit(counts[:80])
    before = bits(model), model.transform(counts)
    model.partial_fit(counts[80:])
    assert bits(model) != before[0]
    assert not np.array_equal(model.transform(counts), before[1])  # nothing stale is served
    assert model.n_sweeps_ == 2


def test_a_loaded_model_goes_on_as_if_it_had_not_been_saved(make, counts, tmp_path):
    model = make().fit(counts[:60]).partial_fit(counts[60:90])
    loaded = type(model).load(model.save(tmp_path / "model"))
    assert bits(loaded.partial_fit(counts[90:])) == bits(model.partial_fit(counts[90:]))
    np.testing.assert_array_equal(loaded.transform(counts), model.transform(counts))


def test_words_that_a_stream_brings_later_are_ignored(make, texts):
    model = make(n_topics=3).partial_fit(texts[:30])
    words = list(model.vocabulary_)
    model.partial_fit([*texts[30:], "entirely unheard zebras"])
    assert list(model.vocabulary_) == words


# --- what a failure leaves behind -------------------------------------------------------------------------------


def test_a_failed_fit_leaves_the_fitted_model_as_it_was(make, texts, counts):
    model = make(n_topics=3).fit(texts)
    before = bits(model), model.transform(texts)
    negative = counts.toarray()
    negative[3, 3] = -1
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="X"):
            call(negative)
    assert bits(model) == before[0]
    np.testing.assert_array_equal(model.transform(texts), before[1])


@pytest.mark.parametrize("was_fitted", [False, True])
def test_an_interrupted_fit_leaves_the_model_as_it_was(make, counts, monkeypatch, was_fitted):
    model = make()
    if was_fitted:
        model.fit(counts)
    before = dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr("asterism.model.svi.update", _interrupt)
        for call in (model.fit, model.partial_fit):
            with pytest.raises(KeyboardInterrupt):
                call(counts)
    assert vars(model) == before
    model.fit(counts)


def _interrupt(*_):
    raise KeyboardInterrupt
