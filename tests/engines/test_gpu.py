"""What is special about the GPU engine, on torch's CPU device; the contract holds for it as for every engine."""

import importlib.util
import logging
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="needs torch: make test-all")

from asterism import TopicEmbeddingModel, sample_corpus  # noqa: E402
from asterism.engines import _gpu_joint as joint  # noqa: E402
from asterism.engines import _gpu_lda as lda  # noqa: E402
from asterism.engines import _gpu_random as device_random  # noqa: E402
from asterism.engines import _gpu_rows as device_rows  # noqa: E402
from asterism.engines import (  # noqa: E402
    _gpu_start,
    select,
    select_engine,
)
from asterism.engines import _gpu_tokens as device_tokens  # noqa: E402
from asterism.engines._gpu_corpus import DeviceBatch, DeviceCounts  # noqa: E402
from asterism.engines._gpu_memory import draw_by_word  # noqa: E402
from asterism.engines._gpu_room import Room  # noqa: E402
from asterism.engines.cpu import CpuEngine  # noqa: E402
from asterism.engines.gpu import GpuEngine, size_of_document  # noqa: E402
from asterism.engines.memory import HostMemory  # noqa: E402
from asterism.errors import AsterismError, InputError  # noqa: E402
from asterism.model import cooccurrence, random, svi, tokens, words  # noqa: E402
from asterism.model import lda as host_lda  # noqa: E402
from asterism.model.start import draw_by_word as host_draw_by_word  # noqa: E402
from asterism.model.start import given_topics  # noqa: E402
from asterism.model.state import Batch, LocalSettings, Priors  # noqa: E402

# Triton asks whether to interpret when it is imported, when kernels are defined and when they are called.
_gpu_fused = None
if importlib.util.find_spec("triton") is not None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        from asterism.engines import _gpu_fused

# Products of numbers as large as they can be wrap around, which NumPy tells of where Triton is interpreted.
interpreted = pytest.mark.filterwarnings("ignore:overflow encountered")
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


@pytest.fixture
def kernels(monkeypatch):
    """Triton's kernels, run by its interpreter."""
    if _gpu_fused is None:
        pytest.skip("needs triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return _gpu_fused


@pytest.fixture(scope="module")
def planted():
    return sample_corpus(300, 6, 120, mean_length=60, beta=0.03, seed=5)


def settings_of(n_topics, n_top=3):
    return LocalSettings(n_top, 10**6, 10**6, collapsed=True)


def model(engine, n_topics=6, **settings):
    usual = {"warm_sweeps": 10, "draw_sweeps": 3, "max_sweeps": 5, "random_state": 0}
    return TopicEmbeddingModel(n_topics, 3, engine=engine, **{**usual, **settings})


# --- parts ----------------------------------------------------------------------------------------------------------


def test_random_numbers_are_the_hosts():
    documents = np.array([0, 5, 2**40], dtype=np.int64)
    theirs = random.stream(3, 4, documents, random.DRAWS)
    ours = device_random.substream(device_random.stream(3, 4, torch.from_numpy(documents), device="cpu"), random.DRAWS)
    np.testing.assert_array_equal(ours.numpy().view(np.uint64), theirs)
    index = torch.tensor([0, 7, 100_000])
    np.testing.assert_array_equal(device_random.uniforms(ours, index), random.uniforms(theirs, index.numpy()))
    np.testing.assert_allclose(device_random.normals(ours, 7), random.normals(theirs, 7), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 30, 31, 60])
@pytest.mark.parametrize("tile", [1, 256])
def test_heaviest_topics_are_the_hosts(n, tile, monkeypatch):
    """With ties, whole or by tiles."""
    monkeypatch.setattr(device_rows, "TILE", tile)
    weights = np.random.default_rng(n).integers(0, 6, (20, 31)).astype(np.float64)
    values = torch.from_numpy(weights)
    marks = device_rows.heaviest(values, n).marks(values).numpy()
    for row, marked in zip(weights, marks, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(marked), tokens.heaviest_topics(row, n))


def test_omega_solves_its_equation():
    from scipy.special import wrightomega

    x = np.concatenate([np.linspace(-300, 300, 5001), [-1.2, -1.19999, 5.0, 5.00001]])
    np.testing.assert_allclose(joint.omega_of(torch.from_numpy(x)), wrightomega(x), rtol=1e-7)


def test_rows_without_mass_do_not_shift_the_others():
    rows = device_rows.rows_of(torch.tensor([2, 0, 3, 2]))
    mass = torch.tensor([1.0, 3.0, 0.0, 0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    line = device_rows.running_shares(mass, rows, device_rows.row_sums(mass, rows))
    row, share = torch.tensor([0, 0, 3, 3]), torch.tensor([0.2, 0.3, 0.4, 0.6], dtype=torch.float64)
    assert device_rows.pick(line, rows.starts, row, share).tolist() == [0, 1, 5, 6]


def test_counts_add_as_matrices_do(planted):
    rng, batch = np.random.default_rng(0), Batch.of(planted.counts)
    host, draws = HostMemory(), rng.integers(0, 6, (2, planted.counts.sum()))
    first, second = (host.count_words(batch, drawn, 6) for drawn in draws)
    ours = [DeviceCounts.on(counts, "cpu") for counts in (first, second)]
    for device, expected in ((ours[0] + ours[1], first + second), (ours[0] - ours[1], first - second)):
        device.eliminate_zeros()
        expected.eliminate_zeros()
        assert (device.on_host() != expected).nnz == 0
        assert device.nnz == expected.nnz
        np.testing.assert_array_equal(device.sum(axis=0), np.asarray(expected.sum(axis=0)).ravel())


def test_memory_answers_as_the_hosts(planted):
    """First draws, the order of tokens by words, counts, and what follows from them."""
    gpu, host, order = GpuEngine(settings_of(6), "cpu"), HostMemory(), np.random.default_rng(1).permutation(300)
    ours, theirs = gpu.corpus(planted.counts, order), host.corpus(planted.counts, order)
    np.testing.assert_array_equal(ours.words, theirs.words)
    np.testing.assert_array_equal(ours.documents, theirs.documents)
    drawn, expected = (memory.first_draws(batch, 6, None, 3, 1) for memory, batch in ((gpu, ours), (host, theirs)))
    np.testing.assert_array_equal(drawn, expected)
    for a, b in zip(gpu.tokens_by_word(ours), host.tokens_by_word(theirs), strict=True):
        np.testing.assert_array_equal(a, b)
    counted, counts = gpu.count_words(ours, drawn, 6), host.count_words(theirs, expected, 6)
    assert (counted.on_host() != counts).nnz == 0
    np.testing.assert_array_equal(gpu.renewed(ours, drawn, counted, 5), host.renewed(theirs, expected, counts, 5))
    assert (gpu.renewed(ours, drawn, counted, 5) != drawn).any()  # the first draws are doubles all
    given = given_topics(counts.T.tocsr())
    uniforms = np.random.default_rng(0).uniform(size=1000)
    token_words = np.repeat(theirs.words, theirs.counts)[:1000]
    by_word = draw_by_word(gpu.given(counted), torch.from_numpy(token_words), torch.from_numpy(uniforms))
    np.testing.assert_array_equal(by_word, host_draw_by_word(given, token_words, uniforms))
    alpha = np.linspace(0.05, 0.3, 6)
    starts, tokens_of = host.tokens_by_document(theirs)
    by_document = CpuEngine(settings_of(6), 1).count(starts, tokens_of, expected, 6)
    np.testing.assert_allclose(
        gpu.optimal_alpha(DeviceCounts.on(by_document, "cpu"), alpha), host_lda.optimal_alpha(by_document, alpha)
    )
    topics = svi.start(planted.counts, 6, 3, Priors(0.1, 0.1, 1.0, 0.05), seed=0)
    assert gpu.optimal_concentration(topics) == pytest.approx(words.optimal_concentration(topics))


def test_eigenvectors_by_blocks_are_those_of_the_host(monkeypatch):
    rng = np.random.default_rng(0)
    theta = rng.dirichlet(np.full(40, 0.05), 3000)
    counts = sparse.csr_matrix(rng.poisson(20 * theta))
    ratio = cooccurrence.LogRatio(counts, 1.0)
    expected, directions = cooccurrence.leading(ratio, 40, 4, 0)
    monkeypatch.setattr(_gpu_start, "are_few", lambda *size: False)
    monkeypatch.setattr(_gpu_start, "SPARE", 3)
    monkeypatch.setattr(_gpu_start, "BLOCKS", 5)
    values, vectors = _gpu_start.leading_on("cpu")(ratio, 40, 4, 0)
    np.testing.assert_allclose(values, expected, rtol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(vectors * directions, axis=0)), 1, atol=0.05)


# --- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"sampler": "alias", "learn_beta": True}, {"inference": "svi"}])
def test_training_is_as_good_as_the_cpus(planted, settings, monkeypatch):
    """Draws are the same but for a few on the other side of a boundary."""
    monkeypatch.setenv(select.DEVICE_VARIABLE, "cpu")
    gpu, cpu = (model(engine, **settings).fit(planted.counts) for engine in ("gpu", "cpu"))
    fresh = sample_corpus(100, 6, 120, mean_length=60, topic_word=planted.topic_word, seed=9).counts
    assert gpu.score(fresh) == pytest.approx(cpu.score(fresh), abs=0.02)
    assert gpu.state_.word_topic.sum() == pytest.approx(cpu.state_.word_topic.sum(), rel=1e-3)


def test_models_go_from_one_engine_to_the_other(planted, tmp_path, monkeypatch):
    monkeypatch.setenv(select.DEVICE_VARIABLE, "cpu")
    for engine, other in (("gpu", "cpu"), ("cpu", "gpu")):
        fitted = model(engine, max_sweeps=4).fit(planted.counts)
        loaded = TopicEmbeddingModel.load(fitted.save(tmp_path / engine)).set_params(engine=other)
        some = planted.counts[:40]
        np.testing.assert_allclose(loaded.transform(some), fitted.transform(some), atol=2e-2)
        loaded.set_params(warm_start=True, max_sweeps=1).fit(planted.counts)
        assert np.isfinite(loaded.score(some))


# --- names, and where there is no room ------------------------------------------------------------------------------


def test_gpu_without_a_gpu_is_an_error_in_one_line(monkeypatch):
    monkeypatch.delenv(select.DEVICE_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="found no GPU") as found:
        select_engine("gpu", settings_of(6))
    assert "\n" not in str(found.value)
    assert select_engine("auto", settings_of(6)).name == "cpu"
    monkeypatch.setenv(select.DEVICE_VARIABLE, "cpu")
    assert select_engine("gpu", settings_of(6)).device.type == "cpu"


def test_gpu_without_torch_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install"):
        select_engine("gpu", settings_of(6))


def test_auto_takes_a_gpu_that_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv(select.DEVICE_VARIABLE, "cpu")  # which is not there after all
    assert select_engine("auto", settings_of(6)).name == "gpu"


def test_parts_are_halved_where_there_is_no_room(caplog):
    room, done = Room("topic weights", 64), []

    def work(first, last):
        if last - first > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        done.extend(range(first, last))

    with caplog.at_level(logging.WARNING, "asterism"):
        room.alike(20, 4, work)
    assert done == list(range(20))
    assert room.most == 8
    assert caplog.text.count("out of device memory: topic weights in parts of") == 3
    done.clear()
    room.each(torch.tensor([1, 2, 9, 1, 1, 1, 1, 1, 1]), work)
    assert done == list(range(9))


def test_a_row_that_never_fits_is_an_error():
    def work(first, last):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(AsterismError, match="no room for a single row of tokens"):
        Room("tokens", 8).alike(3, 4, work)


@pytest.mark.parametrize("soft", [False, True])
def test_results_do_not_depend_on_where_memory_ran_out(planted, soft, monkeypatch):
    results = []
    topics = svi.start(planted.counts, 6, 3, Priors(0.1, 0.1, 1.0, 0.05), seed=0)
    topics = replace(topics, embedding_cov=np.zeros((3, 3)))
    for fails in (False, True):
        engine = GpuEngine(settings_of(6), "cpu", "float64")
        if fails:
            failing = iter([True, False, True])
            solve = joint.solve

            def scarce(*arguments, solve=solve, failing=failing, **others):
                if next(failing, False):
                    raise torch.OutOfMemoryError("CUDA out of memory")
                return solve(*arguments, **others)

            monkeypatch.setattr("asterism.engines.gpu.solve", scarce)
            engine._weights_room.most = 200 * size_of_document(topics)
        draws = np.random.default_rng(0).integers(0, 6, planted.counts.sum()).astype(np.uint16)
        embedding = np.zeros((300, 3))
        batch, prepared = Batch.of(planted.counts), engine.prepare(topics)
        if soft:
            relaxed = engine.relax(prepared, batch, embedding, 3, sweep=2)
            results.append((embedding, relaxed.moments.weight_embedding, relaxed.expected))
        else:
            engine.redraw(prepared, batch, draws, embedding, 3, seed=1, sweep=2)
            results.append((embedding, draws))
    (of_whole, *whole), (of_parts, *parts) = results
    np.testing.assert_allclose(of_parts, of_whole, rtol=1e-8, atol=1e-8)
    if soft:
        np.testing.assert_allclose(parts[0], whole[0], rtol=1e-8, atol=1e-8)
        assert np.abs(parts[1] - whole[1]).max() <= 1
    else:
        np.testing.assert_array_equal(parts[0], whole[0])


def test_importing_it_needs_neither_numba_nor_triton():
    program = "import sys, asterism.engines.gpu; print([m for m in ('numba', 'ray', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "numba" not in done.stdout
    assert "ray" not in done.stdout


# --- Triton ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene():
    """Documents, a table in which words have some of the topics, and shares of topics."""
    generator = torch.Generator().manual_seed(0)
    n_topics, n_words = 33, 30
    batch = DeviceBatch.on(Batch.of(sample_corpus(6, 7, n_words, 3, mean_length=6, seed=1).counts), "cpu")
    is_listed = torch.rand(n_words, n_topics, generator=generator) < 0.5
    rest = 1e-2 * torch.rand(n_topics, generator=generator) + 1e-3
    topics = is_listed.nonzero()[:, 1].int()
    weights = torch.rand(len(topics), generator=generator) + rest[topics.long()]
    table = device_tokens.Table(device_rows.starts_of(is_listed.sum(dim=1)), topics, weights, rest, 0.01)
    return batch, table, 3 * torch.rand(len(batch), n_topics, generator=generator)


def pieces_of(scene):
    batch, table, shares = scene
    top = device_rows.heaviest(shares, 4)
    weighed = device_tokens.weigh(shares, top.marks(shares), table)
    return batch, table, shares, top, weighed, device_tokens.documents_of_entries(batch)


@interpreted
@pytest.mark.parametrize("is_redrawn", [False, True])
def test_kernel_draws_as_torch(kernels, scene, is_redrawn):
    batch, table, shares, top, weighed, _ = pieces_of(scene)
    streams = device_random.stream(3, 4, batch.documents, device="cpu")
    before = torch.arange(int(batch.token_offsets[-1])) % 33 if is_redrawn else None
    expected = device_tokens.draw(batch, 0, len(batch.words), weighed, table, streams, before)
    assert kernels.draw(batch, shares, top, table, streams, before).tolist() == expected.tolist()


@interpreted
@pytest.mark.parametrize(("tau", "counted"), [(0.0, 0.0), (0.4, 0.0), (0.4, 100.0)])
def test_kernel_expects_as_torch(kernels, scene, tau, counted):
    batch, table, shares, top, weighed, document = pieces_of(scene)
    expected, top_share = torch.zeros_like(shares), torch.zeros(len(batch), dtype=torch.float64)
    device_tokens.expect(batch.words.long(), batch.counts, document, weighed, table, tau, counted, expected, top_share)
    expected += top_share[:, None].float() * weighed.rest_of_top
    found = kernels.expected_counts(batch, shares, top, table, tau, counted)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(dim=1), batch.lengths, rtol=1e-5)


@interpreted
@pytest.mark.parametrize("counted", [0.0, 100.0])
def test_kernel_spreads_as_torch(kernels, scene, counted):
    batch, table, shares, _, _, document = pieces_of(scene)
    expected, found = torch.zeros((2, len(table.topics)), dtype=torch.int64)
    device_tokens.spread(batch.words.long(), batch.counts, document, shares, table, 0.4, counted, 2**16, expected)
    kernels.spread(batch, shares, table, 0.4, counted, 2**16, found)
    assert (found - expected).abs().max() <= 1


@pytest.mark.parametrize("longest", [5, 70])
def test_kernel_counts_as_torch(kernels, longest):
    rows = device_rows.rows_of(torch.tensor([3, 0, longest, 1]))
    walks = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (len(rows.row), 3)))
    expected = lda.counts_of_groups(rows, walks, 4, 10**6)
    np.testing.assert_array_equal(kernels.counts_in_groups(rows, walks), expected)
    np.testing.assert_array_equal(lda.counts_of_groups(rows, walks, 4, 0), expected)


@pytest.mark.parametrize(("n_documents", "n_topics", "n_dims"), [(3, 7, 2), (70, 130, 17)])
def test_streamed_looks_see_what_dense_ones_do(kernels, n_documents, n_topics, n_dims):
    generator = torch.Generator().manual_seed(0)
    embedding, gamma = (torch.randn(n, n_dims, generator=generator) for n in (n_topics, n_documents))
    space = joint.Space(embedding, torch.linspace(-1, 1, n_topics), None, None, None, 0.8)
    counts = (torch.rand(n_documents, n_topics, generator=generator) < 0.1) * 3.0
    counts[0] = 0
    lengths = counts.sum(dim=1).long()
    looks = [kind(space, gamma) for kind in (joint.DenseLook, kernels.StreamedLook)]
    zetas = [look.log_normaliser() for look in looks]
    np.testing.assert_allclose(*zetas, atol=1e-4)
    zetas = [look.normalised(counts, lengths, zetas[0]) for look in looks]
    np.testing.assert_allclose(*zetas, atol=1e-4)
    np.testing.assert_allclose(*(look.omega(counts, lengths, zetas[0]) for look in looks), atol=1e-4)
    for dense, streamed in zip(*(look.forces(counts, lengths, zetas[0]) for look in looks), strict=True):
        np.testing.assert_allclose(streamed, dense, atol=1e-3)


COMPILED = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from asterism.engines import _gpu_kernels as kernels, _gpu_streams as streams

f, i, l, d, n = "*fp32", "*i32", "*i64", "*fp64", "i32"
table, tile = [l, i, f, f], {"DOCUMENTS": 64, "TOPICS": 64, "DIMS": 64}
drawn = [l, i, l, l, l, *table, f, f, l, d]
todo = [
    (kernels.draw_entries, [*drawn, l, i, n, "fp32"], {"IS_REDRAWN": True, "BLOCK": 512}),
    (kernels.expect_entries, [l, i, i, l, *table, f, f, l, d, i, d, n, "fp32", "fp32"], {"LEAVES": True, "BLOCK": 512}),
    (kernels.spread_entries, [l, i, i, *table, f, l, n, "fp32", "fp32", n], {"BLOCK": 512}),
    (kernels.count_in_groups, [l, l, i], {"N_WALKS": 3, "TILE": 32}),
    (streams.log_sum, [f, f, f, f, f, n, n, n, n], tile),
    (streams.sum_omega, [f] * 8 + [n, n, n, n, "fp32"], {"HAS_PULL": True, **tile}),
    (streams.fill_omega, [f] * 6 + [n, n, n, "fp32"], tile),
]
for kernel, types, constants in todo:
    names = [name for name in kernel.arg_names if name not in constants]
    signature = dict(zip(names, types, strict=True)) | dict.fromkeys(constants, "constexpr")
    compile(ASTSource(kernel, signature=signature, constexprs=constants), target=GPUTarget("cuda", 90, 32))
"""


@needs_triton
@pytest.mark.slow
def test_kernels_compile_for_a_gpu_that_is_not_there(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run([sys.executable, "-c", COMPILED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
