"""One contract for every engine: agreement with the reference, additivity, independence of threads and order."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, special

from asterism import sample_corpus
from asterism.engines import cpu, select_engine
from asterism.engines.cpu import CpuEngine
from asterism.engines.reference import ReferenceEngine
from asterism.engines.select import has_gpu
from asterism.errors import InputError
from asterism.evaluation.completion import split_tokens
from asterism.model import joint, random, svi, words
from asterism.model.alias import AliasTable
from asterism.model.document import PRIOR_IN_TOKENS
from asterism.model.lda import WordWeights
from asterism.model.memoized import COUNT_UNIT
from asterism.model.state import Batch, LocalSettings, Priors, count_draws
from asterism.model.walks import Side

ENGINES = {
    "reference": ReferenceEngine,
    "cpu-float64": lambda settings: CpuEngine(settings, n_threads=2, dtype=np.float64),
    "cpu-float32": lambda settings: CpuEngine(settings, n_threads=2),
    "gpu-float64": lambda settings: gpu_engine(settings, "float64"),
    "gpu-float32": lambda settings: gpu_engine(settings, "float32"),
}
NEEDS_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: make test-all")
NAMES = [pytest.param(name, marks=NEEDS_TORCH if name.startswith("gpu") else ()) for name in ENGINES]
TOLERANCE = {"reference": 1e-12, "float64": 2e-3, "float32": 2e-2}  # the solver may stop a step apart
STATISTICS_TOLERANCE = {"reference": 1e-12, "float64": 1e-8, "float32": 2e-2}
# A document's neighbours in a batch may change its bits on a GPU, where products are laid out by the batch's shape.
NEIGHBOURS_TOLERANCE = {"gpu-float64": 1e-10, "gpu-float32": 1e-5}


def gpu_engine(settings, dtype):
    from asterism.engines.gpu import GpuEngine

    return GpuEngine(settings, "cpu", dtype)


def precision(name):
    """What tolerances are by: "reference", "float64" or "float32"."""
    return name.rpartition("-")[2]


def make(n_documents=40, n_topics=7, n_words=61, n_dims=3, sparsity=(3, 12, 2), **local):
    corpus = sample_corpus(n_documents, n_topics, n_words, n_dims, mean_length=25, seed=n_documents)
    topics = svi.start(corpus.counts, n_topics, n_dims, Priors(0.3, 0.5, 1.2, 1 / n_topics), seed=2)
    return corpus.counts, topics, LocalSettings(*sparsity, **local)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def assert_statistics_agree(actual, expected, rtol):
    assert actual.n_documents == expected.n_documents
    np.testing.assert_allclose(actual.weight_embedding, expected.weight_embedding, rtol=rtol, atol=50 * rtol)
    np.testing.assert_allclose(actual.embedding_outer, expected.embedding_outer, rtol=rtol, atol=50 * rtol)


@pytest.mark.parametrize("n_documents", [1, 7, 129])
@pytest.mark.parametrize(("n_topics", "n_dims"), [(2, 1), (7, 3), (33, 5)])
def test_statistics_equal_the_references(name, n_documents, n_topics, n_dims):
    counts, topics, settings = make(n_documents, n_topics, n_dims=n_dims)
    batch = Batch.of(counts)
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    expected = reference.statistics(reference.prepare(topics), batch, seed=3, sweep=1)
    actual = engine.statistics(engine.prepare(topics), batch, seed=3, sweep=1)
    assert_statistics_agree(actual, expected, STATISTICS_TOLERANCE[precision(name)])
    moved = abs(actual.word_topic - expected.word_topic).sum() / 2
    # In float32 a draw can fall on the other side of a boundary, and takes its document's later rounds along.
    assert moved <= (0.01 * counts.sum() if precision(name) == "float32" else 0)


@pytest.mark.parametrize("sparsity", [(1, 1, 1), (3, 12, 2), (7, 61, 7), (50, 100, 10)])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_statistics_equal_the_references_at_every_sparsity(sparsity, n_samples):
    counts, topics, settings = make(sparsity=sparsity, n_samples=n_samples)
    reference, engine = ReferenceEngine(settings), ENGINES["cpu-float64"](settings)
    batch = Batch.of(counts)
    expected = reference.statistics(reference.prepare(topics), batch, seed=0, sweep=0)
    actual = engine.statistics(engine.prepare(topics), batch, seed=0, sweep=0)
    assert_statistics_agree(actual, expected, 1e-8)
    assert abs(actual.word_topic - expected.word_topic).sum() == 0
    assert actual.n_steps == expected.n_steps


@pytest.mark.parametrize("n_documents", [1, 7, 129])
@pytest.mark.parametrize(("n_topics", "n_dims"), [(2, 1), (7, 3), (33, 5)])
def test_newton_statistics_equal_the_references(name, n_documents, n_topics, n_dims):
    counts, topics, settings = make(n_documents, n_topics, n_dims=n_dims, newton=True)
    batch = Batch.of(counts)
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    expected = reference.statistics(reference.prepare(topics), batch, seed=3, sweep=1)
    actual = engine.statistics(engine.prepare(topics), batch, seed=3, sweep=1)
    # A draw that falls on the other side of a boundary has followers.
    moved = abs(actual.word_topic - expected.word_topic).sum() / 2
    assert moved <= (0 if name == "reference" else 0.01 * counts.sum())
    assert_statistics_agree(actual, expected, {"reference": 1e-12, "float64": 1e-5, "float32": 2e-2}[precision(name)])
    assert actual.n_steps == expected.n_steps == n_documents * svi.NEWTON_ROUNDS


def test_newton_rounds_differ_from_each_other_and_stay_within_what_is_allowed():
    """Every round has draws of its own: were they shared, one more round would change nothing but ξ."""
    counts, topics, settings = make(newton=True)
    batch, drawn = Batch.of(counts), []
    for max_steps in (1, 2, 99):
        engine = ReferenceEngine(replace(settings, max_steps=max_steps))
        statistics = engine.statistics(engine.prepare(topics), batch, seed=3, sweep=1)
        assert statistics.n_steps == 40 * min(max_steps, svi.NEWTON_ROUNDS)
        drawn.append(statistics.word_topic)
    assert all(abs(drawn[i] - drawn[i + 1]).sum() > 0.2 * counts.sum() for i in range(2))


@pytest.mark.parametrize("n_dense", [0, 30, 61])
def test_inferred_documents_equal_the_references(name, n_dense):
    """Words with few topics, and words with every topic, which have a path of their own."""
    counts, topics, settings = make(129, sparsity=(3, 61, 7))
    word_topic = topics.word_topic.toarray()
    word_topic[:n_dense] += 0.1
    word_topic[n_dense:, ::2] = 0
    topics = replace(topics, word_topic=sparse.csr_matrix(word_topic))
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    expected = reference.infer(reference.prepare(topics), Batch.of(counts))
    actual = engine.infer(engine.prepare(topics), Batch.of(counts))
    np.testing.assert_allclose(actual.embedding, expected.embedding, atol=TOLERANCE[precision(name)])
    np.testing.assert_allclose(actual.weights, expected.weights, atol=TOLERANCE[precision(name)])


@pytest.mark.parametrize("embedding_cov", [0.0, 0.02])
def test_covariances_invert_the_hessian_with_weights_eliminated(name, embedding_cov):
    """The γ block of the inverse of the joint Hessian of F in (γ, ξ), by finite differences."""
    counts, topics, settings = make(5)
    topics = replace(topics, mean=np.linspace(-1, 1, 7), embedding_cov=embedding_cov * np.eye(3))
    engine = ENGINES[name](settings)
    documents = engine.infer(engine.prepare(topics), Batch.of(counts), with_cov=True)
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    step = 1e-3 * np.eye(10)
    for embedding, predictive, n_tokens, cov in zip(*documents.arrays(), lengths, documents.cov, strict=True):
        mean = topics.mean + topics.embedding @ embedding
        found = (n_tokens + PRIOR_IN_TOKENS) * special.softmax(predictive.astype(np.float64))
        found = np.maximum(found - PRIOR_IN_TOKENS * special.softmax(mean), 0)
        weights = np.log(joint.scaled_shares(mean, found, topics.priors.tau))
        topic_counts = np.full(7, n_tokens / 7)  # F is linear in them but for their sum
        x = np.concatenate([embedding, weights]).astype(np.float64)

        def f(x, topic_counts=topic_counts):
            return joint.objective(x[:3], x[3:], topic_counts, topics)

        hessian = [[(f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / 4e-6 for b in step] for a in step]
        np.testing.assert_allclose(cov, np.linalg.inv(-np.array(hessian))[:3, :3], rtol=1e-3, atol=1e-4)


def test_covariances_equal_the_references_and_are_not_there_unasked(name):
    counts, topics, settings = make(40)
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    expected = reference.infer(reference.prepare(topics), Batch.of(counts), with_cov=True)
    actual = engine.infer(engine.prepare(topics), Batch.of(counts), with_cov=True)
    np.testing.assert_allclose(actual.cov, expected.cov, atol=TOLERANCE[precision(name)])
    plain = engine.infer(engine.prepare(topics), Batch.of(counts))
    assert plain.cov is None
    np.testing.assert_array_equal(plain.embedding, actual.embedding)


def test_likelihood_equals_the_references(name):
    counts, topics, settings = make(50)
    observed, scored = split_tokens(counts)
    reference, engine = ReferenceEngine(settings), ENGINES[name](settings)
    weights = reference.infer(reference.prepare(topics), Batch.of(observed)).weights
    expected = reference.log_likelihood(reference.prepare(topics), weights, Batch.of(scored))
    actual = engine.log_likelihood(engine.prepare(topics), weights, Batch.of(scored))
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_draw_tables_keep_the_same_pairs():
    for sparsity in [(3, 1, 1), (3, 5, 2), (3, 12, 4)]:
        _, topics, settings = make(60, sparsity=sparsity)
        reference = ReferenceEngine(settings).prepare(topics).table
        table = CpuEngine(settings, 1, np.float64).prepare(topics).table
        np.testing.assert_array_equal(table.indptr, reference.indptr)
        np.testing.assert_array_equal(table.topics, reference.topics)
        np.testing.assert_allclose(table.weights, reference.weights)


@pytest.mark.parametrize("newton", [False, True])
def test_statistics_add(name, newton):
    """Those of A + B are those of A plus those of B."""
    counts, topics, settings = make(41, newton=newton)
    engine = ENGINES[name](settings)
    prepared, rows = engine.prepare(topics), np.arange(41)
    whole = engine.statistics(prepared, Batch.of(counts, rows), seed=1, sweep=2)
    parts = [engine.statistics(prepared, Batch.of(counts, part), seed=1, sweep=2) for part in (rows[:13], rows[13:])]
    summed = parts[0] + parts[1]
    assert abs(whole.word_topic - summed.word_topic).sum() == 0
    assert_statistics_agree(summed, whole, NEIGHBOURS_TOLERANCE.get(name, 1e-10))
    assert summed.n_steps == whole.n_steps


def test_order_of_documents_does_not_matter(name):
    counts, topics, settings = make(41)
    engine = ENGINES[name](settings)
    prepared, order = engine.prepare(topics), np.random.default_rng(0).permutation(41)
    straight = engine.statistics(prepared, Batch.of(counts), seed=1, sweep=2)
    shuffled = engine.statistics(prepared, Batch.of(counts, order), seed=1, sweep=2)
    assert abs(straight.word_topic - shuffled.word_topic).sum() == 0
    assert_statistics_agree(shuffled, straight, NEIGHBOURS_TOLERANCE.get(name, 1e-10))
    np.testing.assert_allclose(
        engine.infer(prepared, Batch.of(counts)).weights[order],
        engine.infer(prepared, Batch.of(counts, order)).weights,
        rtol=NEIGHBOURS_TOLERANCE.get(name, 0),
        atol=10 * NEIGHBOURS_TOLERANCE.get(name, 0),
    )


def test_every_token_is_counted_once(name):
    counts, topics, settings = make(41)
    engine = ENGINES[name](settings)
    statistics = engine.statistics(engine.prepare(topics), Batch.of(counts), seed=1, sweep=2)
    per_word = np.asarray(statistics.word_topic.sum(axis=1)).ravel()
    np.testing.assert_array_equal(per_word, np.asarray(counts.sum(axis=0)).ravel())


@pytest.mark.parametrize("newton", [False, True])
def test_empty_documents_and_unseen_words(name, newton):
    """An empty document stays at the prior mean; a word no topic knows is still drawn."""
    counts, topics, settings = make(10, newton=newton)
    unseen = int(np.argmin(topics.word_topic.sum(axis=1)))
    topics.word_topic.data[topics.word_topic.indptr[unseen] : topics.word_topic.indptr[unseen + 1]] = 0
    topics.word_topic.eliminate_zeros()
    rows = np.zeros((2, 61), dtype=np.int32)
    rows[1, unseen] = 4
    batch = Batch.of(type(counts)(rows))
    engine = ENGINES[name](settings)
    statistics = engine.statistics(engine.prepare(topics), batch, seed=0, sweep=0)
    assert statistics.word_topic.sum() == 4
    nothing = engine.statistics(engine.prepare(topics), batch[:1], seed=0, sweep=0)
    assert not nothing.embedding_outer.any()
    documents = engine.infer(engine.prepare(topics), batch)
    assert not documents.embedding[0].any()
    assert np.isfinite(documents.weights).all()


def test_empty_documents_among_many_topics(name):
    """None of the topics bears anything then; that all were heavy has been an error far beyond an array's end."""
    counts, topics, settings = make(3, n_topics=20_000, n_dims=8)
    batch = Batch.of(type(counts)(counts.toarray() * np.array([[0], [1], [0]])))
    engine = ENGINES[name](settings)
    documents = engine.infer(engine.prepare(topics), batch)
    assert not documents.embedding[[0, 2]].any()
    np.testing.assert_allclose(documents.weights[0], topics.mean, atol=1e-6)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_number_of_threads_changes_no_bit_of_memoized_inference(n_threads):
    counts, topics, settings = make_memoized(129, n_topics=33)
    for soft in (False, True):
        one, many = (relaxed(CpuEngine(settings, n), counts, topics, soft) for n in (1, n_threads))
        np.testing.assert_array_equal(one[1], many[1])
        np.testing.assert_array_equal(one[2], many[2])
        if soft:
            for part in ("weight_embedding", "embedding_outer", "weight_square"):
                np.testing.assert_array_equal(getattr(one[0].moments, part), getattr(many[0].moments, part))
            np.testing.assert_array_equal(one[0].expected, many[0].expected)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_number_of_threads_changes_no_bit(n_threads):
    counts, topics, settings = make(129, n_topics=33)
    one, many = CpuEngine(settings, 1), CpuEngine(settings, n_threads)
    a = one.statistics(one.prepare(topics), Batch.of(counts), seed=1, sweep=0)
    b = many.statistics(many.prepare(topics), Batch.of(counts), seed=1, sweep=0)
    np.testing.assert_array_equal(a.weight_embedding, b.weight_embedding)
    np.testing.assert_array_equal(a.embedding_outer, b.embedding_outer)
    assert abs(a.word_topic - b.word_topic).sum() == 0
    x = one.infer(one.prepare(topics), Batch.of(counts))
    y = many.infer(many.prepare(topics), Batch.of(counts))
    np.testing.assert_array_equal(x.weights, y.weights)
    np.testing.assert_array_equal(x.embedding, y.embedding)


def test_seed_and_sweep_change_the_draws(name):
    counts, topics, settings = make(20)
    engine = ENGINES[name](settings)
    prepared = engine.prepare(topics)
    draws = [
        engine.statistics(prepared, Batch.of(counts), seed, sweep).word_topic
        for seed, sweep in [(0, 0), (1, 0), (0, 1)]
    ]
    assert abs(draws[0] - draws[1]).sum() > 0
    assert abs(draws[0] - draws[2]).sum() > 0


def test_errors_in_a_thread_are_not_lost():
    engine = CpuEngine(make()[2], n_threads=2)

    def fail(first, last):
        if first == 16:
            raise RuntimeError("block 1")

    with pytest.raises(RuntimeError, match="block 1"):
        engine._over_blocks(40, 16, fail)


def test_names_become_engines():
    settings = make()[2]
    assert select_engine("auto", settings).name == ("gpu" if has_gpu() else "cpu")
    assert select_engine("cpu", settings, 3).n_threads == 3
    assert select_engine("reference", settings).name == "reference"
    with pytest.raises(InputError, match="abacus"):
        select_engine("abacus", settings)


# --- memoized inference -------------------------------------------------------------------------------------------


def make_memoized(n_documents=40, n_topics=7, n_dims=3, sparsity=(3, 61, 61)):
    """Topics with a mean and point estimates, and collapsed weights, by default without truncation."""
    counts, topics, _ = make(n_documents, n_topics, n_dims=n_dims)
    topics = replace(topics, mean=np.linspace(-1, 1, n_topics), embedding_cov=np.zeros((n_dims, n_dims)))
    return counts, topics, LocalSettings(*sparsity, collapsed=True)


def relaxed(engine, counts, topics, soft):
    """What the engine says of the whole corpus after soft steps, and the draws and embeddings that it leaves."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, topics.n_topics, counts.sum()).astype(np.uint16)
    embedding = 0.3 * rng.normal(size=(counts.shape[0], topics.n_dims)).astype(getattr(engine, "dtype", np.float64))
    batch = Batch.of(counts)
    prepared, n_steps = engine.prepare(topics, whole=soft), 6 if soft else 1
    if soft:
        return engine.relax(prepared, batch, embedding, n_steps, sweep=2), draws, embedding
    engine.redraw(prepared, batch, draws, embedding, n_steps, seed=1, sweep=2)
    return None, draws, embedding


@pytest.mark.parametrize("sparsity", [(3, 61, 61), (3, 4, 1)])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("n_documents", "n_topics", "n_dims"), [(1, 2, 1), (7, 7, 3), (40, 33, 5)])
def test_relaxed_documents_equal_the_references(name, soft, n_documents, n_topics, n_dims, sparsity):
    counts, topics, settings = make_memoized(n_documents, n_topics, n_dims, sparsity)
    expected, expected_draws, expected_embedding = relaxed(ReferenceEngine(settings), counts, topics, soft)
    actual, draws, embedding = relaxed(ENGINES[name](settings), counts, topics, soft)
    tolerance = {"reference": 1e-12, "float64": 2e-5, "float32": 1e-2}[precision(name)]
    np.testing.assert_allclose(embedding, expected_embedding, atol=tolerance)
    assert np.mean(draws != expected_draws) < 0.01
    if soft:
        for part in ("weight_embedding", "embedding_outer", "weight_square"):
            ours, theirs = getattr(actual.moments, part), getattr(expected.moments, part)
            np.testing.assert_allclose(ours, theirs, atol=tolerance * max(1, np.abs(theirs).max()))
        # Of every pair, whatever is kept for drawing.
        assert len(actual.expected) == topics.word_topic.nnz
        assert np.abs(actual.expected - expected.expected).sum() < 0.01 * COUNT_UNIT * counts.sum()
        assert actual.expected.sum() == pytest.approx(COUNT_UNIT * counts.sum(), rel=1e-3)


@pytest.mark.parametrize("dense", [True, False])
def test_lda_draws_equal_the_references(name, dense):
    counts, topics, settings = make_memoized(40, 33, 5)
    rng, batch = np.random.default_rng(0), Batch.of(counts)
    start = rng.integers(0, 33, counts.sum()).astype(np.uint16)
    word_topic = count_draws(np.repeat(batch.words, batch.counts), start, topics.n_words, 33).astype(float)
    topics = replace(topics, word_topic=word_topic)
    table = words.draw_table(topics, np.ones(word_topic.nnz, dtype=bool), collapsed=True)
    weights = WordWeights(words.word_probabilities(topics).T if dense else table, 1 / topics.topic_total)
    alpha = rng.uniform(0.05, 0.5, 33)
    results, logs = [], []
    for engine in (ReferenceEngine(settings), ENGINES[name](settings)):
        draws = start.copy()
        logs.append(engine.draw_lda(weights, batch, draws, alpha, seed=3, sweep=4))
        results.append(draws)
    assert np.mean(results[0] != start) > 0.5
    assert np.mean(results[0] != results[1]) <= (0.02 if precision(name) == "float32" else 0)
    np.testing.assert_allclose(logs[0].sum(), logs[1].sum(), rtol=1e-3 if precision(name) == "float32" else 1e-9)


@pytest.mark.parametrize("n_topics", [1, 33])
def test_walks_equal_the_references(name, n_topics):
    counts, _, settings = make_memoized(40, n_topics, 1)
    rng, batch = np.random.default_rng(0), Batch.of(counts)
    token_words = np.repeat(batch.words, batch.counts)
    by_word = np.argsort(token_words, kind="stable").astype(np.int32)
    word_starts = np.searchsorted(token_words[by_word], np.arange(counts.shape[1] + 1))
    start = rng.integers(0, n_topics, (counts.sum(), 3)).astype(np.uint16)
    alpha, beta = rng.uniform(0.05, 0.5, n_topics), np.full(n_topics, 0.1)
    documents = batch.token_offsets[batch.indptr], np.arange(len(start), dtype=np.int32), alpha, AliasTable.of(alpha)
    of_words = word_starts, by_word, beta, AliasTable.of(beta)
    inverse_total = 1 / rng.uniform(20, 50, n_topics)
    results = []
    for engine in (ReferenceEngine(settings), ENGINES[name](settings)):
        walks = start.copy()
        for starts, *side in (documents, of_words, documents):
            streams = random.stream(5, np.arange(len(starts) - 1))
            totals = engine.walk(Side(starts, *side, streams), walks, inverse_total)
            np.testing.assert_array_equal(totals, np.bincount(walks[:, 0], minlength=n_topics))
        results.append(walks)
    if n_topics > 1:
        assert np.mean(results[0] != start) > 0.5
    assert np.mean(results[0] != results[1]) <= (0.02 if precision(name) == "float32" else 0)


@pytest.mark.parametrize("n_groups", [1, 60])
@pytest.mark.parametrize("name", NAMES)
def test_topics_of_groups_are_counted(name, n_groups):
    """Of groups in any order of the tokens, some of them empty, against a table of all pairs."""
    _, _, settings = make_memoized(40, 7, 1)
    rng = np.random.default_rng(0)
    topics, order = rng.integers(0, 7, 500).astype(np.uint16), rng.permutation(500).astype(np.int32)
    inner = np.sort(rng.integers(0, 500, n_groups - 1)) // 20 * 20
    starts = np.concatenate([[0], inner, [500]]).astype(np.int64)
    counted = ENGINES[name](settings).count(starts, order, topics, 7)
    expected = np.zeros((n_groups, 7), dtype=np.int64)
    np.add.at(expected, (np.repeat(np.arange(n_groups), np.diff(starts)), topics[order]), 1)
    np.testing.assert_array_equal(counted.toarray(), expected)
    assert counted.nnz == np.count_nonzero(expected)
    assert counted.has_sorted_indices


@pytest.mark.parametrize("soft", [False, True])
def test_relaxing_some_documents_at_a_time_changes_nothing(soft, monkeypatch):
    counts, topics, settings = make_memoized(200)
    whole, *states = relaxed(CpuEngine(settings, n_threads=2, dtype=np.float64), counts, topics, soft)
    monkeypatch.setattr(cpu, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(cpu, "FEWEST_AT_ONCE", 70)
    parts, *states_of_parts = relaxed(CpuEngine(settings, n_threads=2, dtype=np.float64), counts, topics, soft)
    for state, state_of_parts in zip(states, states_of_parts, strict=True):
        np.testing.assert_array_equal(state_of_parts, state)
    if soft:
        for part in ("weight_embedding", "embedding_outer", "weight_square", "cov_sum"):
            np.testing.assert_allclose(getattr(parts.moments, part), getattr(whole.moments, part), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(parts.expected, whole.expected)


@pytest.mark.parametrize("soft", [False, True])
def test_relaxing_does_not_depend_on_the_batch(name, soft):
    counts, topics, settings = make_memoized(30)
    engine = ENGINES[name](settings)
    whole, draws, embedding = relaxed(engine, counts, topics, soft)
    rng = np.random.default_rng(0)
    part_draws = rng.integers(0, 7, counts.sum()).astype(np.uint16)
    part_embedding = 0.3 * rng.normal(size=(30, 3)).astype(getattr(engine, "dtype", np.float64))
    corpus, prepared, total = Batch.of(counts), engine.prepare(topics, whole=soft), None
    offsets = corpus.token_offsets[corpus.indptr]
    for first, last in ((0, 16), (16, 30)):
        part, drawn = corpus[first:last], part_draws[offsets[first] : offsets[last]]
        if soft:
            result = engine.relax(prepared, part, part_embedding[first:last], 6, sweep=2)
            total = result.moments if total is None else total + result.moments
        else:
            engine.redraw(prepared, part, drawn, part_embedding[first:last], 1, seed=1, sweep=2)
    np.testing.assert_array_equal(part_draws, draws)
    np.testing.assert_array_equal(part_embedding, embedding)
    if soft:  # one mean H^-1 serves a batch, so moments agree to second order
        np.testing.assert_allclose(total.embedding_outer, whole.moments.embedding_outer, rtol=1e-6)
        np.testing.assert_allclose(total.weight_embedding, whole.moments.weight_embedding, rtol=0.05, atol=0.5)
