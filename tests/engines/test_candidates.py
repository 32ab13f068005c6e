"""Documents that look at some topics one by one: every engine does as the reference, which is near the exact step."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from test_contract import make_memoized, relaxed

from asterism.engines import select_engine
from asterism.engines.cpu import CpuEngine
from asterism.engines.cpu_candidates import CpuCandidateEngine
from asterism.engines.reference import ReferenceEngine
from asterism.model.candidates import Rest, choose, group_topics, take_turns, without
from asterism.model.memoized import COUNT_UNIT
from asterism.model.state import Batch, LocalSettings
from asterism.model.words import ranks_in_rows

ENGINES = {
    "reference": ReferenceEngine,
    "cpu-float64": lambda settings: CpuCandidateEngine(settings, n_threads=2, dtype=np.float64),
    "cpu-float32": lambda settings: CpuCandidateEngine(settings, n_threads=2),
}
TOLERANCE = {"reference": 1e-12, "cpu-float64": 2e-5, "cpu-float32": 1e-2}


@pytest.fixture(params=ENGINES)
def name(request):
    return request.param


def make(n_documents=40, n_topics=33, n_dims=5, candidates=6):
    counts, topics, settings = make_memoized(n_documents, n_topics, n_dims)
    # Words know some of the topics, as where topics are many.
    pairs = topics.word_topic.tocoo()
    kept = ranks_in_rows(pairs.row, pairs.col, pairs.data) < 12
    shape = topics.word_topic.shape
    word_topic = sparse.csr_matrix((pairs.data[kept], (pairs.row[kept], pairs.col[kept])), shape=shape)
    return counts, replace(topics, word_topic=word_topic), replace(settings, candidates=candidates)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n_documents", [1, 7, 150])
def test_relaxed_documents_equal_the_references(name, soft, n_documents):
    counts, topics, settings = make(n_documents)
    expected, expected_draws, expected_embedding = relaxed(ReferenceEngine(settings), counts, topics, soft)
    actual, draws, embedding = relaxed(ENGINES[name](settings), counts, topics, soft)
    tolerance = TOLERANCE[name]
    np.testing.assert_allclose(embedding, expected_embedding, atol=tolerance)
    assert np.mean(draws != expected_draws) < 0.01
    if soft:
        for part in ("weight_embedding", "embedding_outer", "weight_square", "cov_sum"):
            ours, theirs = getattr(actual.moments, part), getattr(expected.moments, part)
            np.testing.assert_allclose(ours, theirs, atol=tolerance * max(1, np.abs(theirs).max()))
        assert np.abs(actual.expected - expected.expected).sum() < 0.01 * COUNT_UNIT * counts.sum()
        assert actual.expected.sum() == pytest.approx(COUNT_UNIT * counts.sum(), rel=1e-3)


def test_inferred_documents_equal_the_references(name):
    counts, topics, settings = make()
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    expected = reference.infer(reference.prepare(topics), Batch.of(counts), with_cov=True)
    actual = engine.infer(engine.prepare(topics), Batch.of(counts), with_cov=True)
    tolerance = {"reference": 1e-12, "cpu-float64": 2e-3, "cpu-float32": 2e-2}[name]  # the solver may stop a step apart
    np.testing.assert_allclose(actual.embedding, expected.embedding, atol=tolerance)
    np.testing.assert_allclose(actual.weights, expected.weights, atol=5 * tolerance)
    np.testing.assert_allclose(actual.cov, expected.cov, atol=5 * tolerance)


def test_few_candidates_are_near_the_exact_step():
    counts, topics, settings = make(150)
    topics = replace(topics, embedding=0.5 * topics.embedding)
    exact = CpuEngine(settings, n_threads=2, dtype=np.float64)
    near = CpuCandidateEngine(settings, n_threads=2, dtype=np.float64)
    for soft, most in ((False, 0.1), (True, 0.25)):  # expected counts move with the embedding
        expected, _, expected_embedding = relaxed(exact, counts, topics, soft)
        actual, _, embedding = relaxed(near, counts, topics, soft)
        assert 0 < error(embedding, expected_embedding) < most
    # What is said of the topics that are no candidates comes from one document in so many.
    assert error(actual.moments.weight_embedding, expected.moments.weight_embedding) < 0.15


def test_new_documents_are_nearer_the_exact_step_the_more_candidates():
    counts, topics, settings = make(150)
    batch, errors = Batch.of(counts), []
    exact = CpuEngine(settings, n_threads=2)
    expected = exact.infer(exact.prepare(topics), batch).embedding
    for n_candidates in (3, 10, 20):
        near = CpuCandidateEngine(replace(settings, candidates=n_candidates), n_threads=2)
        gap = near.infer(near.prepare(topics), batch).embedding - expected
        # A few documents have two solutions and find the other one.
        errors.append(np.median(np.linalg.norm(gap, axis=1) / np.linalg.norm(expected, axis=1)))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1


def error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def test_as_many_candidates_as_topics_are_the_exact_step():
    counts, topics, settings = make(candidates=33)
    engine = select_engine("cpu", settings, 1)
    for soft in (False, True):
        result, draws, embedding = relaxed(engine, counts, topics, soft)
        expected, expected_draws, expected_embedding = relaxed(CpuEngine(settings, 1), counts, topics, soft)
        np.testing.assert_array_equal(embedding, expected_embedding)
        np.testing.assert_array_equal(draws, expected_draws)
        if soft:
            np.testing.assert_array_equal(result.moments.weight_embedding, expected.moments.weight_embedding)


@pytest.mark.parametrize("soft", [False, True])
def test_all_topics_opened_equal_the_exact_step(soft):
    counts, topics, settings = make(candidates=32)  # one group after the other, until there is none
    engine = CpuCandidateEngine(settings, 2, dtype=np.float64)
    result, _, embedding = relaxed(engine, counts, topics, soft)
    expected, _, expected_embedding = relaxed(CpuEngine(settings, 2, np.float64), counts, topics, soft)
    np.testing.assert_allclose(embedding, expected_embedding, atol=1e-3)
    if soft:
        moments = result.moments.weight_embedding
        np.testing.assert_allclose(moments, expected.moments.weight_embedding, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
@pytest.mark.parametrize("soft", [False, True])
def test_number_of_threads_changes_no_bit(n_threads, soft):
    counts, topics, settings = make(150)
    one, many = (relaxed(CpuCandidateEngine(settings, n), counts, topics, soft) for n in (1, n_threads))
    np.testing.assert_array_equal(one[1], many[1])
    np.testing.assert_array_equal(one[2], many[2])
    if soft:
        for part in ("weight_embedding", "embedding_outer", "weight_square", "cov_sum"):
            np.testing.assert_array_equal(getattr(one[0].moments, part), getattr(many[0].moments, part))
        np.testing.assert_array_equal(one[0].expected, many[0].expected)


def test_documents_without_known_words(name):
    counts, topics, settings = make(3)
    empty = counts.copy()
    empty.data[empty.indptr[1] : empty.indptr[2]] = 0
    empty.eliminate_zeros()
    engine = ENGINES[name](settings)
    documents = engine.infer(engine.prepare(topics), Batch.of(empty))
    assert not documents.embedding[1].any()
    assert documents.embedding[0].any()
    for soft in (False, True):
        result, _, embedding = relaxed(engine, empty, topics, soft)
        assert np.isfinite(embedding).all()
    assert np.isfinite(result.moments.weight_embedding).all()


def test_groups_hold_every_topic_once():
    _, topics, _ = make()
    groups = group_topics(topics)
    np.testing.assert_array_equal(np.sort(groups.members), np.arange(33))
    for g in range(len(groups.log_mass)):
        members = groups.members[groups.starts[g] : groups.starts[g + 1]]
        assert (groups.group[members] == g).all()
        if len(members):
            assert groups.log_mass[g] == pytest.approx(np.log(np.exp(topics.mean[members]).sum()))


def test_the_rest_is_what_is_left():
    """Exactly, where a group is one topic; near 0 in any case."""
    _, topics, _ = make()
    groups = group_topics(topics)
    chosen = choose(groups, np.zeros(5), np.array([3, 7]), n_candidates=4)
    assert {3, 7} <= set(chosen.tolist())
    others = np.setdiff1d(np.arange(33), chosen)
    rest, nothing = without(groups, chosen, topics), np.zeros(5)
    assert rest.log_weight(nothing) == pytest.approx(np.log(np.exp(topics.mean[others]).sum()), abs=0.02)
    share = np.exp(topics.mean[others]) / np.exp(topics.mean[others]).sum()
    np.testing.assert_allclose(rest.vector(nothing), share @ topics.embedding[others], atol=0.05)


def test_the_vector_of_the_rest_is_the_slope_of_its_weight():
    rng = np.random.default_rng(0)
    rest = Rest(rng.normal(size=4), rng.normal(size=(4, 3)), rng.uniform(size=(4, 3)))
    at = rng.normal(size=3)
    slope = [(rest.log_weight(at + e) - rest.log_weight(at - e)) / 2e-5 for e in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(rest.vector(at), slope, rtol=1e-5)


def test_every_document_speaks_once_in_all_turns():
    turns = sum(take_turns(5000, sweep).astype(int) for sweep in range(16))
    np.testing.assert_array_equal(turns, 1)
    assert take_turns(30, 3).all()


def test_settings_choose_the_engine():
    assert type(select_engine("cpu", LocalSettings(3, 5, 2), 1)) is CpuEngine
    assert type(select_engine("auto", LocalSettings(3, 5, 2, candidates=100), 1)) is CpuCandidateEngine
