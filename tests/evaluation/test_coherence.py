"""Coherence and diversity: by hand, against gensim, and on odd input."""

import math

import numpy as np
import pytest
from scipy import sparse

from asterism.errors import InputError
from asterism.evaluation import c_v, npmi, topic_diversity
from asterism.evaluation import coherence as module

N_WORDS = 17
TOP_WORDS = np.array([[0, 3, 5, 8], [1, 2, 11, 16], [4, 6, 7, 9]])


def counts_of(documents, n_words=N_WORDS):
    rows = [np.bincount(np.asarray(document, dtype=int), minlength=n_words) for document in documents]
    return sparse.csr_matrix(np.array(rows, dtype=np.int32).reshape(len(documents), n_words))


@pytest.fixture(scope="module")
def documents():
    """Forty documents of 3 to 15 tokens, by arithmetic."""
    return [[(7 * d * d + 3 * d + (2 * d + 5) * i) % N_WORDS for i in range(3 + 5 * d % 13)] for d in range(40)]


@pytest.fixture
def varied():
    """Documents of random words, some empty."""
    rng = np.random.default_rng(4)
    return [rng.integers(0, N_WORDS, rng.integers(0, 30)) for _ in range(50)]


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_npmi_by_hand():
    """Words 0 and 1 share two of four documents, 0 and 2 one, 1 and 2 one; each is in 3, 2 and 2."""
    reference = counts_of([[0, 1, 0], [0, 1, 2], [0], [2]], 3)

    def pair(joint, one, other):
        return math.log(joint / (one * other)) / -math.log(joint)

    expected = (pair(0.5, 0.75, 0.5) + pair(0.25, 0.75, 0.5) + pair(0.25, 0.5, 0.5)) / 3
    assert npmi([[0, 1, 2]], reference) == pytest.approx([expected])


def test_npmi_of_words_always_together_never_together_and_independent():
    together = counts_of([[0, 1], [0, 1], [2], [2]], 3)
    assert npmi([[0, 1]], together) == pytest.approx([1])
    assert npmi([[0, 2]], together) == pytest.approx([-1], abs=0.06)  # ε keeps it from -1
    independent = counts_of([[0, 1], [0], [1], []], 2)
    assert npmi([[0, 1]], independent) == pytest.approx([0], abs=1e-9)


def test_c_v_by_hand():
    """Two windows of two: {0, 1} and {1, 0}, then {2}: 0 and 1 always together, in 2 of 3 windows."""
    np.testing.assert_allclose(c_v([[0, 1]], [[0, 1, 0], [2]], window=2), [1])
    # 0 and 2 are never in one window: vectors (1, x) and (x, 1), with x their NPMI, and their sum (1 + x)(1, 1).
    x = math.log(1e-12 / (2 / 3 * 1 / 3)) / -math.log(1e-12)
    expected = (1 + x) / (math.sqrt(2) * math.hypot(1, x))
    np.testing.assert_allclose(c_v([[0, 2]], [[0, 1, 0], [2]], window=2), [expected])


def test_diversity_by_hand():
    assert topic_diversity([[0, 1], [2, 3]]) == 1
    assert topic_diversity([[0, 1], [1, 0]]) == 0.5
    assert topic_diversity([[0, 1, 2], [2, -1, -1]]) == 0.75


# --- against gensim ---------------------------------------------------------------------------------------------------


def test_values_that_gensim_gives(documents):
    """Computed once with gensim 4.4.0: CoherenceModel(..., coherence, window_size).get_coherence_per_topic()."""
    by_document = [0.06168719840228837, 0.23352701078082636, 0.14211213277215382]
    np.testing.assert_allclose(npmi(TOP_WORDS, counts_of(documents)), by_document)
    one_window = [0.5840148548640828, 0.7837015379761052, 0.6848457575144895]
    np.testing.assert_allclose(c_v(TOP_WORDS, documents), one_window)
    sliding = [0.4043220283339558, 0.5058708431760671, 0.47768520550464116]
    np.testing.assert_allclose(c_v(TOP_WORDS, documents, window=6), sliding)


@pytest.mark.parametrize(("kind", "window"), [("c_npmi", 1000), ("c_v", 1000), ("c_v", 7)])
def test_agrees_with_gensim(kind, window):
    gensim = pytest.importorskip("gensim.models.coherencemodel")
    dictionary = pytest.importorskip("gensim.corpora").Dictionary
    # No word twice in a document: gensim forgets a word when the first of its tokens leaves a sliding window.
    rng = np.random.default_rng(2)
    documents = [rng.permutation(N_WORDS)[: rng.integers(1, N_WORDS)] for _ in range(60)]
    texts = [[str(word) for word in document] for document in documents]
    theirs = gensim.CoherenceModel(
        topics=[[str(word) for word in topic] for topic in TOP_WORDS],
        texts=texts,
        dictionary=dictionary(texts),
        coherence=kind,
        window_size=window,
        processes=1,
    ).get_coherence_per_topic()
    ours = npmi(TOP_WORDS, counts_of(documents)) if kind == "c_npmi" else c_v(TOP_WORDS, documents, window)
    np.testing.assert_allclose(ours, theirs)


def test_windows_are_those_of_a_plain_loop(varied):
    window, columns = 5, np.array([2, 3, 11])
    seen = []
    for document in varied:
        for start in range(max(len(document) - window + 1, 1)):
            seen.append([column in document[start : start + window] for column in columns])
    present = module._windows_of(varied, columns, window)
    np.testing.assert_array_equal(present.toarray(), np.array(seen))


# --- invariances ------------------------------------------------------------------------------------------------------


def test_order_of_documents_words_and_topics_does_not_matter(varied):
    counts = counts_of(varied)
    for measure, reference, turned in ((npmi, counts, counts[::-1]), (c_v, varied, varied[::-1])):
        values = measure(TOP_WORDS, reference)
        np.testing.assert_allclose(measure(TOP_WORDS, turned), values)
        np.testing.assert_allclose(measure(TOP_WORDS[::-1, ::-1], reference), values[::-1])


def test_a_topics_value_does_not_depend_on_other_topics(varied):
    counts = counts_of(varied)
    np.testing.assert_allclose(npmi(TOP_WORDS[1:2], counts), npmi(TOP_WORDS, counts)[1:2])
    np.testing.assert_allclose(c_v(TOP_WORDS[1:2], varied, 5), c_v(TOP_WORDS, varied, 5)[1:2])


def test_repeated_documents_change_nothing(varied):
    np.testing.assert_allclose(npmi(TOP_WORDS, counts_of(varied * 3)), npmi(TOP_WORDS, counts_of(varied)))
    np.testing.assert_allclose(c_v(TOP_WORDS, varied * 3, 5), c_v(TOP_WORDS, varied, 5))


def test_how_often_a_word_is_in_a_document_does_not_matter(varied):
    counts = counts_of(varied)
    np.testing.assert_array_equal(npmi(TOP_WORDS, counts * 3), npmi(TOP_WORDS, counts))


def test_c_v_does_not_depend_on_blocks(varied, monkeypatch):
    whole = c_v(TOP_WORDS, varied, 5)
    monkeypatch.setattr(module, "ENTRIES_A_BLOCK", 20)
    np.testing.assert_allclose(c_v(TOP_WORDS, varied, 5), whole)


def test_unknown_words_only_take_their_place(varied):
    """Words of no topic may have any number."""
    others = [np.where(np.isin(document, TOP_WORDS), document, -1) for document in varied]
    np.testing.assert_array_equal(c_v(TOP_WORDS, others, 5), c_v(TOP_WORDS, varied, 5))


def test_planted_topics_are_more_coherent_than_shuffled_ones():
    rng = np.random.default_rng(0)
    subjects = np.arange(40).reshape(4, 10)
    documents = [rng.choice(subjects[d % 4], 30) for d in range(200)]
    shuffled = rng.permutation(40).reshape(4, 10)
    counts = counts_of(documents, 40)
    assert npmi(subjects, counts).min() > npmi(shuffled, counts).max()
    assert c_v(subjects, documents).min() > c_v(shuffled, documents).max()


# --- odd input --------------------------------------------------------------------------------------------------------


def test_a_word_that_never_occurs(documents):
    counts = counts_of(documents, 20)
    assert npmi([[18, 19]], counts) == [-1]
    assert c_v([[18, 19]], documents) == [0]
    with_unseen, without = [[0, 3, 19]], [[0, 3, -1]]
    assert -1 < npmi(with_unseen, counts)[0] < npmi(without, counts)[0]
    assert 0 < c_v(with_unseen, documents)[0] < c_v(without, documents)[0]


def test_topics_of_fewer_words(documents):
    counts = counts_of(documents)
    padded = np.array([[0, 3, 5, 8], [1, 2, -1, -1], [4, -1, -1, -1], [-1, -1, -1, -1]])
    for measure, reference in ((npmi, counts), (c_v, documents)):
        values = measure(padded, reference)
        np.testing.assert_allclose(values[0], measure(TOP_WORDS[:1], reference)[0])
        np.testing.assert_allclose(values[1], measure([[1, 2]], reference)[0])
        assert np.isnan(values[2:]).all()
    assert np.isnan(topic_diversity(padded[3:]))


def test_a_corpus_of_one_document():
    """Every word is in every document: nothing can be told."""
    assert npmi([[0, 1]], counts_of([[0, 1, 2]])) == [0]
    assert c_v([[0, 1]], [[0, 1, 2]]) == [0]


def test_no_documents_no_topics_no_words(documents):
    assert np.isnan(npmi([[0, 1]], counts_of([]))).all()
    assert np.isnan(c_v([[0, 1]], [])).all()
    nothing = np.empty((0, 10), dtype=int)
    assert npmi(nothing, counts_of(documents)).shape == c_v(nothing, documents).shape == (0,)
    for no_words in (np.empty((2, 0), dtype=int), np.full((2, 3), -1)):
        assert np.isnan(npmi(no_words, counts_of(documents))).all()
        assert np.isnan(c_v(no_words, documents)).all()
    assert np.isnan(topic_diversity(nothing))


def test_empty_documents_count_as_documents():
    assert npmi([[0, 1]], counts_of([[0, 1], []])) == pytest.approx([1])
    np.testing.assert_allclose(c_v([[0, 1]], [[0, 1], []]), [1])


@pytest.mark.parametrize("words", [[[0, 99]], [[0, -2]], [[0.5, 1]], [0, 1], [[0, 1], [2, 2]]])
def test_bad_words_are_refused(words):
    with pytest.raises(InputError):
        npmi(words, counts_of([[0, 1]]))


def test_a_window_without_tokens_is_refused():
    with pytest.raises(InputError, match="window=0"):
        c_v([[0, 1]], [[0, 1]], window=0)
