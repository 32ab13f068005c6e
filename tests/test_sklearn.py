"""scikit-learn's contract: its own checks, and the tools a transformer has to work with."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from asterism import InputError, TextPipeline, TopicEmbeddingModel


# The checks fit on real numbers, hence non_integer="round". All that apply pass: none is expected to fail.
@parametrize_with_checks([TopicEmbeddingModel(n_topics=3, n_dims=2, max_sweeps=2, non_integer="round")])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_fractional_counts_are_an_error_by_default(make, counts):
    fractional = counts.toarray().astype(float)
    fractional[7, 11] = 2.5
    with pytest.raises(InputError, match=r"X\[7, 11\] = 2.5 is not a whole number.*non_integer"):
        make().fit(fractional)


def test_rounding_takes_the_nearest_whole_number(make, counts):
    near = counts.toarray() + 0.4 * (counts.toarray() > 0)
    rounded = make(non_integer="round").fit(near)
    np.testing.assert_array_equal(rounded.transform(counts), make().fit(counts).transform(counts))


def test_clone_has_the_settings_and_nothing_learned(make, texts):
    original = make(n_topics=3, alpha=0.3, text_pipeline=TextPipeline(stem=False, min_df=2)).fit(texts)
    copy = clone(original)
    with pytest.raises(NotFittedError):
        copy.transform(texts)
    settings, copied = original.get_params(), copy.get_params()
    assert copied.pop("text_pipeline").get_params() == settings.pop("text_pipeline").get_params()
    assert copied == settings
    np.testing.assert_array_equal(copy.fit(texts).transform(texts), original.transform(texts))


def test_fit_does_not_fit_the_pipeline_it_was_given(make, texts):
    given = TextPipeline()
    make(text_pipeline=given).fit(texts)
    assert not hasattr(given, "terms_")


def test_classifies_texts_in_a_pipeline(make, texts):
    labels = np.arange(len(texts)) % 2
    pipeline = make_pipeline(CountVectorizer(), make(n_dims=2, max_sweeps=5), LogisticRegression())
    pipeline.fit(texts[:40], labels[:40])
    assert pipeline.score(texts[40:], labels[40:]) >= 0.9


def test_raw_texts_go_into_a_pipeline_without_a_vectorizer(make, texts):
    labels = np.arange(len(texts)) % 2
    pipeline = make_pipeline(make(n_dims=2, max_sweeps=5), LogisticRegression()).fit(texts[:40], labels[:40])
    assert pipeline.score(texts[40:], labels[40:]) >= 0.9


def test_set_output_gives_a_data_frame(make, counts):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts.toarray(), index=[f"document {i}" for i in range(counts.shape[0])])
    frame.columns = [f"word {v}" for v in range(counts.shape[1])]
    plain = make().fit(frame)
    vectors = make().set_output(transform="pandas").fit(frame).transform(frame)
    assert list(vectors.columns) == list(plain.get_feature_names_out())
    assert list(vectors.index) == list(frame.index)
    np.testing.assert_array_equal(vectors.to_numpy(), plain.transform(frame))


def test_covariances_stay_arrays_beside_a_data_frame(make, counts):
    pytest.importorskip("pandas")
    model = make().set_output(transform="pandas").fit(counts)
    vectors, covs = model.transform(counts, return_cov=True)
    assert list(vectors.columns) == list(model.get_feature_names_out())
    assert covs.shape == (counts.shape[0], 3, 3)


def test_feature_names_out_name_the_dimensions(model):
    names = model.get_feature_names_out()
    assert list(names) == ["topicembeddingmodel0", "topicembeddingmodel1", "topicembeddingmodel2"]


def test_fit_transform_is_fit_then_transform(make, counts):
    np.testing.assert_array_equal(make().fit_transform(counts), make().fit(counts).transform(counts))


@pytest.mark.parametrize("has_served", [False, True])
def test_pickle_keeps_the_fitted_model(make, texts, has_served):
    model = make(n_topics=3).fit(texts)
    if has_served:
        model.transform(texts)  # what an engine keeps for serving must not be in the way
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.transform(texts), model.transform(texts))
    assert restored.score(texts) == model.score(texts)


def test_joblib_keeps_the_fitted_model(model, counts, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    restored = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(restored.transform(counts), model.transform(counts))
    assert restored.top_words(0) == model.top_words(0)


def test_grid_search_finds_the_better_setting_by_score(make, counts):
    # A prior on words of 100 drowns the counts: it must lose.
    search = GridSearchCV(make(max_sweeps=5), {"beta": [0.1, 100.0]}, cv=2).fit(counts)
    assert search.best_params_ == {"beta": 0.1}
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert search.transform(counts).shape == (counts.shape[0], 3)
