"""TextPipeline: what counts as a word, the filters, the vocabulary, and the way to JSON and back."""

import json
import logging
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from asterism.corpus import TextPipeline
from asterism.errors import InputError


def plain(**changes):
    """A pipeline that only splits, unless told otherwise."""
    return TextPipeline(**{"stop_words": None, "stem": False, "min_df": 1, "max_df": 1.0, **changes})


def words_of(text, **changes):
    return plain(**changes).fit([text]).terms_


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat, the CAT!", ["cat", "the"]),
        ("don't DON’T o'reilly 'quoted' dogs'", ["dogs", "don't", "o'reilly", "quoted"]),
        ("a I x ab", ["ab"]),
        ("in 1984 the 2nd 0x1f mp3 p53 ___ __init__", ["in", "init", "mp3", "p53", "the"]),
        (
            "max_document_frequency camelCase re-entry",
            ["camelcase", "document", "entry", "frequency", "max", "re"],
        ),
        ("mail <jane.doe@example.org>, or see https://example.org/a?b=c now", ["mail", "now", "or", "see"]),
        ("meet @jane at www.example.org", ["at", "jane", "meet"]),
        ("Über ﬁeld naïve E\u0301tude", ["field", "naïve", "étude", "über"]),
        ("हिन्दी भाषा", ["भाषा", "हिन्दी"]),
        ("Привет, мир", ["мир", "привет"]),
    ],
)
def test_what_counts_as_a_word(text, words):
    assert words_of(text) == sorted(words)


def test_an_elided_article_is_cut_off_where_the_language_has_one():
    assert words_of("l'homme qu'il aime", language="french") == ["aime", "homme", "il", "qu"]
    assert words_of("l'homme", language="english") == ["l'homme"]


def test_a_long_document_without_blanks_takes_linear_time():
    assert words_of("a" * 2_000_000 + " @ b@c") == ["a" * 2_000_000]


def test_the_english_stop_list_has_the_standard_174_words():
    pipeline = TextPipeline(max_df=1.0).fit(["Don’t you think cats, which aren't dogs, should purr?"])
    assert len(pipeline.stop_words_) == 174
    assert pipeline.words_ == ["cats", "dogs", "purr", "think"]


def test_stop_words_are_removed_before_stemming():
    texts = ["other others doing does"]
    assert TextPipeline().fit(texts).words_ == ["others"]
    assert TextPipeline(stop_words=["OTHERS", "doing", "does"]).fit(texts).words_ == ["other"]
    assert TextPipeline(stop_words={"others", "doing", "does"}).fit(texts).words_ == ["other"]


def test_each_stem_is_shown_as_its_most_frequent_form():
    pipeline = TextPipeline().fit(["running runs run Runs", "cats cat"])
    assert pipeline.terms_ == ["cat", "run"]
    assert pipeline.words_ == ["cat", "runs"]  # a tie is settled alphabetically


def test_counts_are_sorted_int32_rows_in_the_order_of_the_documents():
    texts = ["bird cat cat", "", "the of 12", "dog bird bird bird"]
    counts = TextPipeline().fit_transform(texts)
    assert counts.format == "csr"
    assert counts.dtype == np.int32
    assert counts.toarray().tolist() == [[1, 2, 0], [0, 0, 0], [0, 0, 0], [3, 0, 1]]
    assert all((np.diff(counts[d].indices) > 0).all() for d in range(4))


def test_transform_repeats_the_counts_and_ignores_unknown_words():
    texts = ["the stars shine", "a star shone", "", "planets and stars"]
    pipeline = TextPipeline()
    counts = pipeline.fit_transform(iter(texts))
    assert (pipeline.transform(texts) != counts).nnz == 0
    unseen = pipeline.transform(["Stars and comets", "comets"])
    assert unseen.dtype == np.int32
    assert unseen.sum(axis=1).ravel().tolist() == [[1, 0]]
    assert pipeline.transform([]).shape == (0, len(pipeline.terms_))


def test_documents_may_be_an_array_of_strings():
    assert plain().fit(np.array(["one two", "two"])).terms_ == ["one", "two"]


def test_document_frequency_limits_count_documents_or_shares():
    texts = [" ".join(f"w{n}" for n in range(10, 10 + size)) for size in range(1, 11)]  # w10 in 10, ... w19 in 1
    assert plain(min_df=9).fit(texts).terms_ == ["w10", "w11"]
    assert plain(min_df=0.9).fit(texts).terms_ == ["w10", "w11"]
    assert plain(max_df=2).fit(texts).terms_ == ["w18", "w19"]
    assert plain(max_df=0.2).fit(texts).terms_ == ["w18", "w19"]


def test_a_share_is_not_spoiled_by_rounding():
    texts = ["rare"] * 7 + ["filler"] * 93  # 0.07 * 100 is 7.000000000000001
    assert "rare" in plain(min_df=0.07).fit(texts).terms_


@pytest.mark.parametrize(("n_documents", "kept_from"), [(20, 1), (249, 1), (250, 2), (999, 4), (5000, 5)])
def test_the_automatic_min_df_grows_with_the_corpus(n_documents, kept_from):
    texts = [" ".join(f"w{n}" for n in range(1, 7) if d < n) for d in range(n_documents)]  # w1 in 1, w2 in 2, ...
    assert plain(min_df="auto").fit(texts).terms_ == [f"w{n}" for n in range(kept_from, 7)]


@pytest.mark.parametrize(("n_documents", "words"), [(99, ["all", "half"]), (100, [])])
def test_the_automatic_max_df_spares_small_inputs(n_documents, words):
    texts = ["all half rare"] + ["all half"] * (n_documents // 2) + ["all"] * (n_documents - 1 - n_documents // 2)
    assert plain(max_df="auto").fit(texts).terms_ == [*words, "rare"]


def test_max_words_keeps_the_most_frequent_ties_alphabetically():
    texts = ["zebra zebra zebra", "bear ant", "cat ant bear"]
    assert plain(max_words=2).fit(texts).terms_ == ["ant", "zebra"]
    # Enough words, of two frequencies, for an unstable sort to mix up the tied ones.
    words = [f"w{n:04}" for n in range(3000)]
    twice, once = words[3::7], [word for n, word in enumerate(words) if n % 7 != 3]
    kept = plain(max_words=1000).fit([" ".join(reversed(words)), " ".join(twice)]).terms_
    assert kept == sorted(twice + once[: 1000 - len(twice)])


def test_tokens_are_counted_as_they_are():
    documents = [["The", "the", "running", "a"], (), ("the", "x y", "don't", "42")]
    pipeline = TextPipeline(max_df=1.0)
    counts = pipeline.fit_transform(documents)
    assert pipeline.input_ == "tokens"
    assert pipeline.terms_ == pipeline.words_ == ["42", "The", "a", "don't", "running", "the", "x y"]
    assert counts.sum(axis=1).ravel().tolist() == [[4, 0, 4]]
    assert (pipeline.transform(documents) != counts).nnz == 0


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("one text", "list of strings"),
        (b"bytes", "list of strings"),
        (5, "not int"),
        ({"a": "text"}, "dict"),
        (np.array([["a", "b"]]), "ndarray"),
        ([], "no documents"),
        (["fine", None], r"documents\[1\].*NoneType"),
        (["fine", "fine", float("nan")], r"documents\[2\].*float"),
        ([b"bytes"], r"documents\[0\].*bytes"),
        (["text", ["token"]], r"documents\[1\] is a list of tokens.*strings"),
        ([["token"], "text"], r"documents\[1\] is a string.*lists of tokens"),
        ([["token"], ["token", 3]], r"documents\[1\]\[1\].*int"),
        ([[["nested"]]], r"documents\[0\]\[0\].*list"),
    ],
)
def test_what_is_not_a_document_is_named(documents, message):
    with pytest.raises(InputError, match=message) as error:
        TextPipeline().fit(documents)
    assert "\n" not in str(error.value)


def test_a_data_frame_is_not_read_as_its_column_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["one word", "two words"]})
    with pytest.raises(InputError, match="DataFrame"):
        TextPipeline().fit(frame)
    assert TextPipeline(max_df=1.0).fit(frame["text"]).words_ == ["one", "two", "word"]


def test_transform_wants_the_kind_of_input_it_was_fitted_on():
    with pytest.raises(InputError, match=r"documents\[0\] is a list of tokens, the pipeline was fitted on strings"):
        TextPipeline().fit(["some text"]).transform([["some"]])


def test_an_empty_vocabulary_says_what_removed_the_words():
    with pytest.raises(InputError, match=r"3 documents.*4 distinct.*1 are stop.*3 are in fewer than 2.*min_df=2"):
        TextPipeline(min_df=2).fit(["the cat", "dog", "bird"])
    with pytest.raises(InputError, match=r"1 in more than 1 \(max_df=1\)"):
        TextPipeline(max_df=1).fit(["cat", "cat"])


@pytest.mark.parametrize(
    "bad",
    [
        {"min_df": 0},
        {"min_df": "often"},
        {"min_df": True},
        {"max_df": 1.5},
        {"max_df": float("nan")},
        {"max_words": 0},
        {"max_words": 2.5},
        {"stem": "yes"},
        {"stop_words": "english"},
        {"stop_words": iter(["the"])},
        {"stop_words": ["the", 3]},
        {"language": 7},
    ],
)
def test_a_bad_setting_is_named(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        TextPipeline(**bad).fit(["some text"])


def test_an_unknown_language_lists_the_known_ones():
    with pytest.raises(InputError, match=r"'klingon' is unknown.*english.*german"):
        TextPipeline(language="klingon").fit(["nuqneH"])


def test_other_languages_have_their_stop_words_and_stemmer():
    by_name = TextPipeline(language="german").fit(["Die Katzen und der Hund", "eine Katze"])
    assert by_name.words_ == ["hund", "katze"]
    assert TextPipeline(language="de").fit(["Die Katzen und der Hund", "eine Katze"]).words_ == by_name.words_


def test_a_language_with_half_the_tools_works_and_says_so(caplog):
    with caplog.at_level(logging.WARNING, logger="asterism"):
        TextPipeline(language="vietnamese").fit(["ngôn ngữ"])
        assert "no stemmer for vietnamese" in caplog.text
        TextPipeline(language="basque").fit(["euskal hizkuntza"])
        assert "no standard stop words for basque" in caplog.text


def test_no_language_means_no_stop_words_and_no_stemming():
    assert TextPipeline(language=None).fit(["the cats"]).terms_ == ["cats", "the"]


TEXTS = ["The runners ran; others run.", "A runner's day", "", "day after day, doing other things"]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"stop_words": {"day", "runner"}, "min_df": np.int64(1), "max_df": np.float64(1.0), "stem": False},
        {"stop_words": None, "language": "porter", "max_words": 3},
    ],
)
def test_json_and_back_behaves_the_same(parameters):
    pipeline = TextPipeline(**parameters).fit(TEXTS)
    stored = json.loads(json.dumps(pipeline.to_dict()))
    loaded = TextPipeline.from_dict(stored)
    assert loaded.terms_ == pipeline.terms_
    assert loaded.words_ == pipeline.words_
    fresh = [*TEXTS, "others and other runners", "day"]
    assert (loaded.transform(fresh) != pipeline.transform(fresh)).nnz == 0
    assert loaded.to_dict() == stored
    assert (loaded.fit_transform(TEXTS) != pipeline.transform(TEXTS)).nnz == 0


def test_tokens_survive_json():
    pipeline = TextPipeline().fit([["The", "the"], ["running"]])
    loaded = TextPipeline.from_dict(json.loads(json.dumps(pipeline.to_dict())))
    assert loaded.transform([["The", "running", "The"]]).toarray().tolist() == [[2, 1, 0]]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"terms": None}, "terms"),
        ({"terms": "abc"}, "terms"),
        ({"terms": []}, "0 terms"),
        ({"terms": ["a", "a"], "words": ["a", "a"]}, "1 distinct"),
        ({"words": ["one"]}, "1 words"),
        ({"words": [1, 2]}, "words"),
        ({"input": ["text"]}, "input"),
        ({"stemmer": "evil"}, "stemmer"),
        ({"stemmer": ["english"]}, "stemmer"),
        ({"stop_words_used": {"the": 1}}, "stop_words_used"),
        ({"min_df": -3}, "min_df"),
        ({"language": "klingon"}, "klingon"),
        ({"language": ["english"]}, "language"),
        ({"stop_words": 5}, "stop_words"),
    ],
)
def test_a_damaged_file_is_refused(damage, message):
    stored = TextPipeline().fit(["cats dogs"]).to_dict()
    with pytest.raises(InputError, match=message):
        TextPipeline.from_dict({**stored, **damage})


@pytest.mark.parametrize("missing", ["terms", "words", "input", "stemmer", "min_df", "stop_words_used"])
def test_a_file_that_lacks_something_is_refused(missing):
    stored = TextPipeline().fit(["cats dogs"]).to_dict()
    del stored[missing]
    with pytest.raises(InputError, match=missing):
        TextPipeline.from_dict(stored)
    with pytest.raises(InputError, match="dict"):
        TextPipeline.from_dict([stored])


def test_it_is_a_scikit_learn_estimator():
    pipeline = TextPipeline(min_df=2, stop_words=["one"])
    copy = clone(pipeline)
    assert copy.get_params() == pipeline.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(["text"])
    with pytest.raises(NotFittedError):
        copy.to_dict()
    pipeline.fit(["two three", "two"])
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.transform(["two one two"]).sum() == 2
