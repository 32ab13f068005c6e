"""Bad input: an error that names the culprit, or a documented result; nothing in between."""

import logging

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from asterism import InputError, TextPipeline, TopicEmbeddingModel
from asterism.corpus.counts import over_vocabulary
from asterism.parameters import AT_LEAST, CHOICES, FLAGS, NOT_NEGATIVE, POSITIVE


def refused(call, *arguments, **options):
    """The message of the InputError, which has to be one line."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def with_entry(counts, value):
    dense = counts.toarray().astype(float)
    dense[7, 11] = value
    return dense


# --- counts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
@pytest.mark.parametrize(
    ("value", "shown", "why"),
    [
        (-1, "-1", "negative"),
        (0.5, "0.5", "not a whole number"),
        (np.nan, "NaN", "not a finite number"),
        (np.inf, "inf", "not a finite number"),
        (-np.inf, "-inf", "not a finite number"),
        (2**31, "2147483648", "larger than 2147483647"),
    ],
)
def test_a_bad_count_is_named_by_row_and_column(make, model, counts, form, value, shown, why):
    bad = form(with_entry(counts, value))
    for call in (make().fit, make().partial_fit, model.transform, model.score, model.topic_proportions):
        message = refused(call, bad)
        assert f"X[7, 11] = {shown}" in message
        assert why in message


def test_the_number_of_bad_counts_is_said(make, counts):
    assert "(120 such entries)" in refused(make().fit, np.where(np.arange(60) == 3, -1, counts.toarray()))


def test_rounding_does_not_let_other_bad_counts_pass(make, counts):
    for value in (-1, np.nan, np.inf, 2**31):
        assert "X[7, 11]" in refused(make(non_integer="round").fit, with_entry(counts, value))


def test_wrong_number_of_columns_says_both(model, counts):
    with pytest.raises(ValueError, match="59 features, but TopicEmbeddingModel is expecting 60"):
        model.transform(counts[:, :-1])


def test_explicit_zeros_order_and_duplicates_of_entries_do_not_matter(make, model, counts):
    """The same counts, each entry in two halves, in any order, with zeros between."""
    coo = counts.tocoo()
    half = coo.data // 2
    zeros = np.zeros(60, dtype=coo.data.dtype)
    data = np.concatenate([coo.data - half, zeros, half])
    columns = np.concatenate([coo.col, np.arange(60), coo.col])
    rows = np.concatenate([coo.row, np.full(60, 5), coo.row])
    order = np.random.default_rng(0).permutation(len(data))
    order = order[np.argsort(rows[order], kind="stable")]
    indptr = np.searchsorted(rows[order], np.arange(121))
    messy = sparse.csr_matrix((data[order], columns[order], indptr), counts.shape)
    assert not messy.has_canonical_format
    before = messy.data.copy(), messy.indices.copy()
    np.testing.assert_array_equal(make().fit(messy).transform(messy), model.transform(counts))
    np.testing.assert_array_equal(messy.data, before[0])  # the caller's matrix is left alone
    np.testing.assert_array_equal(messy.indices, before[1])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_no_documents_or_no_words_is_an_error(make, counts, form):
    for shape in ((0, 60), (10, 0)):
        with pytest.raises(ValueError, match="a minimum of 1 is required"):
            make().fit(form(np.zeros(shape)))


# --- empty documents --------------------------------------------------------------------------------------------


def test_an_empty_document_keeps_its_row_and_gets_the_prior(make, counts):
    with_empty = counts.toarray()
    with_empty[[0, 5, 119]] = 0
    model = make().fit(with_empty)
    vectors, shares = model.transform(with_empty), model.topic_proportions(with_empty)
    np.testing.assert_array_equal(vectors[[0, 5, 119]], 0)
    np.testing.assert_allclose(shares[[0, 5, 119]], 1 / 5, rtol=1e-6)
    assert (np.delete(vectors, [0, 5, 119], axis=0) != 0).any(axis=1).all()
    assert model.score(with_empty) == pytest.approx(model.score(np.delete(with_empty, [0, 5, 119], axis=0)))


def test_a_document_of_unknown_words_is_an_empty_one(text_model):
    vectors = text_model.transform(["zyzzyva quokka", "", "galaxy and star", "the of and", "\n \t"])
    np.testing.assert_array_equal(vectors[[0, 1, 3, 4]], 0)
    assert vectors[2].any()


def test_empty_token_lists_are_empty_documents(make, texts):
    model = make(n_topics=3).fit([text.split() for text in texts])
    np.testing.assert_array_equal(model.transform([[], []]), np.zeros((2, 3)))
    vectors = model.transform([[], ["galaxy", "star"]])
    assert not vectors[0].any()
    assert vectors[1].any()


def test_all_documents_empty_is_an_error_to_fit_and_zeros_to_transform(make, model, counts):
    nothing = sparse.csr_matrix(counts.shape, dtype=int)
    assert "all 120 documents are empty" in refused(make().fit, nothing)
    assert not model.transform(nothing).any()
    assert "no document has two known words" in refused(model.score, nothing)


def test_documents_of_one_word_cannot_be_scored_but_do_no_harm(model, counts):
    single = np.eye(60, dtype=int)[:1]
    assert "no document has two known words" in refused(model.score, single)
    assert model.score(np.vstack([counts.toarray(), single])) == pytest.approx(model.score(counts))


def test_no_documents_at_all(make, text_model, model):
    for call in (make().fit, make().partial_fit, text_model.transform, model.transform):
        assert refused(call, []) == "there are no documents"


# --- few documents, many topics ---------------------------------------------------------------------------------


def test_one_document_is_enough(make, counts):
    model = make(n_topics=2).fit(counts[:1])
    assert np.isfinite(model.transform(counts[:1])).all()
    assert np.isfinite(model.score(counts[:1]))


def test_one_topic_is_an_error(make, counts):
    assert refused(make(n_topics=1).fit, counts) == "n_topics=1 must be a whole number, at least 2"


def test_more_topics_than_documents_is_allowed_and_said(make, counts, caplog):
    with caplog.at_level(logging.WARNING):
        model = make(n_topics=9).fit(counts[:7])
    assert "n_topics=9 is more than the 7 document(s)" in caplog.text
    np.testing.assert_allclose(model.topic_shares_.sum(), 1)
    assert np.isfinite(model.transform(counts)).all()


def test_more_dimensions_than_topics_is_allowed_and_said(make, counts, caplog):
    with caplog.at_level(logging.WARNING):
        model = make(n_topics=3, n_dims=8).fit(counts)
    assert "n_dims=8 is more than n_topics=3" in caplog.text
    assert model.transform(counts).shape == (120, 8)
    assert np.isfinite(model.transform(counts)).all()


def test_usual_sizes_say_nothing(make, counts, texts, caplog):
    with caplog.at_level(logging.WARNING):
        make().fit(counts)
        make().fit(texts)
    assert not caplog.records


def test_a_very_long_document(make, counts):
    """200,000 tokens, of one word and of many, beside documents of forty."""
    long = np.zeros((2, 60), dtype=int)
    long[0, 3] = 200_000
    long[1] = np.random.default_rng(0).multinomial(200_000, np.full(60, 1 / 60))
    documents = sparse.vstack([counts, sparse.csr_matrix(long)]).tocsr()
    model = make().fit(documents)
    assert np.isfinite(model.transform(documents)).all()
    assert np.isfinite(model.score(documents))
    np.testing.assert_allclose(model.topic_word_.sum(axis=1), 1)


# --- texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a single string", b"bytes"])
def test_a_single_string_is_not_a_list_of_documents(make, text_model, text):
    for call in (make().fit, text_model.transform):
        assert "a single string instead of documents" in refused(call, text)


@pytest.mark.parametrize(
    ("documents", "culprit"),
    [
        (["star", None], "documents[1] is of type NoneType"),
        ([None, None], "documents[0] is of type NoneType"),
        (["star", float("nan")], "documents[1] is of type float"),
        (["star", 7], "documents[1] is of type int"),
        ([b"star"], "documents[0] is of type bytes"),
        (["star", ["star"]], "documents[1] is a list of tokens"),
        ({"text": "star"}, "not a dict"),
    ],
)
def test_what_is_not_a_text_is_named(make, text_model, documents, culprit):
    for call in (make().fit, text_model.transform):
        assert culprit in refused(call, documents)


def test_what_is_not_a_token_is_named(make):
    assert "documents[1][2] is of type int" in refused(make().fit, [["a", "b"], ["a", "b", 3]])


def test_nothing_left_after_filtering_says_why(make):
    message = refused(make().fit, ["the of and", "and the"])
    assert "no words are left of 2 documents" in message
    assert "3 are stop words" in message
    rare = make(text_pipeline=TextPipeline(min_df=3))
    assert "2 are in fewer than 3 documents" in refused(rare.fit, ["galaxy", "star", ""])


def test_texts_for_a_model_of_counts_and_tokens_for_a_model_of_texts(model, text_model):
    assert "fitted on counts and cannot read texts" in refused(model.transform, ["galaxy star"])
    assert "fitted on counts and cannot read texts" in refused(model.partial_fit, [["galaxy"], ["star"]])
    assert "documents[0] is a list of tokens" in refused(text_model.transform, [["galaxy"]])


# --- settings ---------------------------------------------------------------------------------------------------

DEFAULTS = TopicEmbeddingModel().get_params(deep=False)
NUMBERS = [*AT_LEAST, *POSITIVE, *NOT_NEGATIVE, "step_offset", "validation_fraction"]
WRONG = [
    *((name, value) for name, least in AT_LEAST.items() for value in (least - 1, 2.5)),
    *((name, value) for name in POSITIVE for value in (0, -1.0)),
    *((name, -0.1) for name in NOT_NEGATIVE),
    *((name, value) for name in CHOICES for value in ("nonsense", None, 3, np.array(["svi", "cpu"]))),
    *((name, value) for name in NUMBERS for value in ("5", True, np.nan, np.inf, [5])),
    *((name, None) for name in NUMBERS if DEFAULTS.get(name) is not None),
    *((name, value) for name in FLAGS if name in DEFAULTS for value in ("yes", 1, None)),
    ("step_offset", 0.5),
    ("evidence", 0),
    ("evidence", -1.5),
    ("evidence", "most"),
    ("evidence", [1]),
    ("validation_fraction", -0.1),
    ("validation_fraction", 1.0),
    ("random_state", "seed"),
    ("random_state", 1.5),
    ("text_pipeline", "english"),
    *(("init", value) for value in ("nonsense", None, 3, {"galaxy"})),
    ("vocabulary", "letters"),
    ("vocabulary", {"galaxy": 0}),
    ("vocabulary", {"galaxy"}),
    ("vocabulary", 7),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_setting_is_named_with_its_value_and_what_is_right(make, counts, name, value):
    for method in ("fit", "partial_fit"):
        message = refused(getattr(make(**{name: value}), method), counts)
        assert message.startswith(f"{name}=")
        assert " must be " in message


def test_every_setting_is_checked():
    """A parameter that is added and not checked makes this fail."""
    checked = {name for name, _ in WRONG}
    assert checked == set(DEFAULTS)


def test_whole_numbers_and_reals_of_numpy_are_numbers(make, counts):
    settings = {"n_topics": np.int64(3), "tol": np.float32(0.1), "max_sweeps": np.uint8(1), "random_state": np.int32(4)}
    assert make(**settings).fit(counts).topic_embeddings_.shape == (3, 3)


def test_a_vocabulary_of_the_wrong_length_says_both(make, counts):
    assert "has 2 words but X has 60 columns" in refused(make(vocabulary=["a", "b"]).fit, counts)


@pytest.mark.parametrize("inference", ["svi", "memoized"])
@pytest.mark.parametrize(
    ("init", "why"),
    [
        (np.ones((4, 60)), "init has 4 topics but n_topics=5"),
        (np.ones((5, 59)), "init has weights of 59 words but there are 60"),
        (sparse.csr_matrix((5, 61)), "init has weights of 61 words but there are 60"),
        (np.ones(60), "init has 1 topics"),
        (np.ones((5, 60, 2)), "no matrix of numbers"),
        ([["galaxy"] * 60] * 5, "no matrix of numbers"),
        (np.where(np.arange(60) == 7, -1.0, np.ones((5, 60))), "init[0, 7] = -1: weights of words must be"),
        (np.where(np.arange(60) == 7, np.nan, np.ones((5, 60))), "init[0, 7] = nan"),
        (TopicEmbeddingModel(5), "init is a model that is not fitted"),
    ],
)
def test_a_start_that_does_not_fit_says_why(make, counts, inference, init, why):
    for method in ("fit", "partial_fit"):
        assert why in refused(getattr(make(inference=inference, init=init), method), counts)


def test_columns_of_a_word_that_is_there_twice_cannot_be_matched():
    counts = sparse.csr_matrix(np.eye(3, dtype=int))
    same = over_vocabulary(counts, ["a", "b", "a"], ["a", "b", "a"])
    np.testing.assert_array_equal(same.toarray(), np.eye(3))
    assert "has 'a' twice" in refused(over_vocabulary, counts, ["b", "a", "c"], ["a", "b", "a"])


@pytest.mark.parametrize("topic", [-1, 5, 1.5, "0", None, True])
def test_a_topic_that_does_not_exist(model, topic):
    for call in (model.top_words, model.correlated, lambda t: model.correlation(t, 0)):
        message = refused(call, topic)
        assert str(topic) in message
        assert "topic" in message


@pytest.mark.parametrize("n", [-1, 1.5, None])
def test_a_number_of_answers_that_makes_no_sense(model, counts, n):
    assert f"n={n}" in refused(model.top_words, 0, n)
    assert f"n={n}" in refused(model.correlated, 0, n)
    if n is not None:
        assert f"top={n}" in refused(model.topic_proportions, counts, top=n)
    assert "top=0" in refused(model.topic_proportions, counts, top=0)


def test_before_fit_everything_says_so(make, counts, tmp_path):
    model = make()
    for method in ("transform", "topic_proportions", "score", "perplexity"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(counts)
    for call in (
        lambda: model.top_words(0),
        lambda: model.correlated(0),
        lambda: model.correlation(0, 1),
        lambda: model.save(tmp_path / "model"),
        lambda: model.topic_word_,
        lambda: model.topic_shares_,
        lambda: model.topic_embeddings_,
        model.get_feature_names_out,
    ):
        with pytest.raises(NotFittedError):
            call()
    assert not (tmp_path / "model").exists()
