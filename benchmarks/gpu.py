"""The GPU engine: training at PubMed's and NYTimes' size, kernels beside their floors, arXiv beside the CPU, LDA.

python benchmarks/gpu.py pubmed                  8.2 million documents, 100,000 topics; writes results/gpu-pubmed.json
python benchmarks/gpu.py nytimes --topics 1000   1.8 million documents (also --topics 10000)
python benchmarks/gpu.py kernels                 time of each kernel, and bytes and operations at measured rates
python benchmarks/gpu.py arxiv --topics 1000     seconds to the CPU engine's perplexity (also --topics 10000)
python benchmarks/gpu.py lda                     tokens a second of LDA's sweeps
python benchmarks/gpu.py all --tiny --device cpu does it run?

Corpora but arXiv are drawn from the model on the GPU, which is not counted. Training ends when it has converged, or
when --seconds have passed, and then the file says so. Parts are run one at a time; each has a file of its own.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

from _harness import DATA, median, write
from _planted import Planted, draw_corpus, planted_topics, share_recovered
from asterism.corpus.uci import read_counts
from asterism.engines import select_engine
from asterism.engines._gpu_rows import heaviest, rows_of
from asterism.engines.gpu import GpuEngine, fused_kernels
from asterism.evaluation.completion import Completion, split_tokens
from asterism.inference.memoized import MemoizedLearner, MemoizedSettings, unknown_topics
from asterism.model.state import LocalSettings, Priors
from asterism.training import Progress, Trained, TrainingSettings, train

N_HELDOUT, N_DIMS = 300, 50
# Published figures; hardware as named by the papers.
PUBLISHED = {"CuLDA_CGS": {"tokens_per_second": 686e6, "topics": 1024, "source": "Xie et al., HPDC 2019"}}


class Sizes(NamedTuple):
    documents: int
    length: float
    words: int
    topics: int


FULL = {
    "pubmed": Sizes(8_200_000, 77, 10_000, 100_000),
    "nytimes": Sizes(1_800_000, 284, 10_000, 1000),
    "lda": Sizes(1_000_000, 300, 10_000, 1024),
}
TINY = {name: Sizes(150, 12, 100, 12) for name in FULL}


class TimeIsUpError(Exception):
    """Training has to end here, converged or not."""


class Watch:
    """What happens in training, as it happens: seconds of every sweep, and of LDA's."""

    def __init__(self, seconds: float) -> None:
        self.began, self.most, self.lda, self.sweeps = time.perf_counter(), seconds, [], []
        logging.getLogger("asterism.training").addFilter(self.note)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def __call__(self, progress: Progress) -> None:
        if progress.sweep < 0:
            self.lda.append((self.seconds, progress.documents))
        if self.seconds > self.most:
            raise TimeIsUpError

    def note(self, record: logging.LogRecord) -> bool:
        found = record.args[0] if record.args else None
        if hasattr(found, "heldout_score"):
            self.sweeps.append({"sweep": found.sweep, "seconds": found.seconds, "heldout_score": found.heldout_score})
            print(self.sweeps[-1], flush=True)
        return True


def local_settings(n_topics: int, n_words: int) -> LocalSettings:
    """As the estimator's for memoized inference."""
    everything = max(n_topics, n_words)
    return LocalSettings(50, everything, everything, collapsed=True)


def trained(corpus: Any, heldout: Completion, engine: Any, n_topics: int, given: Any) -> dict[str, Any]:
    """Training from scratch: what the estimator does with its defaults, but for the sweeps that are given."""
    settings = MemoizedSettings(512, given.warm_sweeps, given.draw_sweeps, "auto")
    topics = unknown_topics(n_topics, N_DIMS, corpus.shape[1], Priors(0.1, 0.1, 1.0, 0.01))
    watch = Watch(given.seconds)
    learner = MemoizedLearner(corpus, topics, engine, settings, seed=0)
    loop = TrainingSettings(given.max_sweeps, 1e-4, 1, ("tau", "beta"))
    result: Trained | None = None
    try:
        result = train(learner, corpus.shape[0], heldout, engine, loop, watch)
    except TimeIsUpError:
        print(f"out of time after {watch.seconds:.0f} s", flush=True)
    finally:
        logging.getLogger("asterism.training").removeFilter(watch.note)
    topics = engine.fetch(learner.topics if result is None else result.topics)
    n_tokens = int(learner.corpus.token_offsets[-1])
    spent = np.diff([0.0, *(row["seconds"] for row in watch.sweeps)])
    return {
        "seconds": watch.seconds,
        "converged": result is not None and result.converged,
        "tokens": n_tokens,
        "lda_seconds": watch.lda[-1][0] if watch.lda else 0.0,
        "lda_tokens": sum(n for _, n in watch.lda) * n_tokens // corpus.shape[0],
        "seconds_per_sweep": spent[1:].tolist(),
        "tokens_per_second": [n_tokens / seconds for seconds in spent[1:]],
        "sweeps": watch.sweeps,
        "pairs": int(topics.word_topic.nnz),
        "peak_memory": peak_memory(given.device),
        "topics": topics,
    }


def at_size(name: str, given: argparse.Namespace) -> None:
    """Training on a corpus of this size with as many planted topics as there are to be learned."""
    sizes = (TINY if given.tiny else FULL)[name]
    n_topics = given.topics if given.topics and not given.tiny else sizes.topics
    planted = planted_topics(n_topics, sizes.words, min(N_DIMS, n_topics), given.device)
    began = time.perf_counter()
    corpus = draw_corpus(planted, sizes.documents, sizes.length)
    heldout = heldout_of(planted, sizes)
    print(f"corpus drawn in {time.perf_counter() - began:.0f} s: {int(corpus.counts.sum()):,} tokens", flush=True)
    engine = GpuEngine(local_settings(n_topics, sizes.words), given.device)
    found = trained(corpus, heldout, engine, n_topics, given)
    found["recovered"] = share_recovered(planted, found.pop("topics").word_topic)
    save(f"gpu-{name}-{n_topics}", given, {"sizes": sizes._replace(topics=n_topics)._asdict(), **found})


def heldout_of(planted: Planted, sizes: Sizes) -> Completion:
    batch = draw_corpus(planted, N_HELDOUT, sizes.length, seed=1)
    arrays = (part.cpu().numpy() for part in (batch.counts, batch.words, batch.indptr))
    return split_tokens(sparse.csr_matrix(tuple(arrays), shape=(N_HELDOUT, sizes.words)))


# --- kernels --------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], Any], device: torch.device, repeats: int = 7) -> float:
    """Median seconds of a call, after one that compiles."""
    work()
    taken = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        taken.append(time.perf_counter() - began)
    return median(taken)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ceilings(device: torch.device, tiny: bool) -> dict[str, float]:
    """Bytes a second of a copy, read and written; operations a second of a product in float32 and in TF32."""
    n, side = (2**20, 256) if tiny else (2**31, 8192)
    source = torch.rand(n, device=device)
    target = torch.empty_like(source)
    found = {"bytes": 8 * n / timed(lambda: target.copy_(source), device)}
    a, b = torch.randn((2, side, side), device=device)
    for name, allowed in (("float32", False), ("tf32", True)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        found[name] = 2 * side**3 / timed(lambda: a @ b, device)
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def kernels(given: argparse.Namespace) -> None:
    """On documents of PubMed's kind, and topics of which each word has so many."""
    device, tiny = torch.device(given.device), given.tiny
    n_documents, n_topics, n_words, of_word = (20, 300, 100, 30) if tiny else (4096, 100_000, 10_000, 3000)
    rates = ceilings(device, tiny)
    fused = fused_kernels(device, "float32")
    if fused is None:
        raise SystemExit("kernels need Triton, and a GPU or TRITON_INTERPRET=1")
    planted = planted_topics(n_topics, n_words, N_DIMS, device)
    batch = draw_corpus(planted, n_documents, 10 if tiny else 77)
    engine = GpuEngine(local_settings(n_topics, n_words), given.device)
    prepared = engine.prepare(random_topics(n_topics, n_words, of_word))
    table, space = prepared.table, prepared.space
    generator = torch.Generator(device).manual_seed(0)
    gamma = 0.3 * torch.randn((n_documents, N_DIMS), device=device, generator=generator)
    draws = torch.randint(n_topics, (int(batch.token_offsets[-1]),), device=device, generator=generator)
    counts = torch.zeros((n_documents, n_topics), device=device)
    counts.view(-1).index_add_(
        0, rows_of(batch.lengths).row * n_topics + draws, torch.ones_like(draws, dtype=counts.dtype)
    )
    look = fused.StreamedLook(space, gamma)
    zeta = look.normalised(counts, batch.lengths, look.log_normaliser())
    omega = look.omega(counts, batch.lengths, zeta)
    shares = counts + look.prior_shares(look.log_normaliser())
    top, streams = heaviest(shares, 50), engine._streams(batch, 0, 0)
    walks = draws[:, None].repeat(1, 3)
    expected = torch.zeros(len(table.topics), dtype=torch.int64, device=device)
    n_pairs, cells = int(table.indptr.diff()[batch.words.long()].sum()), n_documents * n_topics
    product = 2 * cells * N_DIMS
    works = {  # work, bytes, operations of products (three TF32 ones each)
        "log_sum": (look.log_normaliser, 0, 3 * product),
        "sum_omega": (lambda: look._sums(counts, batch.lengths, zeta, False), 4 * cells, 3 * product),
        "sum_omega, forces": (lambda: look._sums(counts, batch.lengths, zeta, True), 4 * cells, 6 * product),
        "fill_omega": (lambda: look.omega(counts, batch.lengths, zeta), 8 * cells, 3 * product),
        "heaviest": (lambda: heaviest(shares, 50), 4 * cells, 0),
        "draw_entries": (lambda: fused.draw(batch, shares, top, table, streams, draws), 72 * n_pairs, 0),
        "expect_entries": (lambda: fused.expected_counts(batch, shares, top, table, 1.0, 0.0), 168 * n_pairs, 0),
        "spread_entries": (lambda: fused.spread(batch, omega, table, 1.0, 0.0, 2**16, expected), 168 * n_pairs, 0),
        "count_in_groups": (lambda: fused.counts_in_groups(rows_of(batch.lengths), walks), 36 * len(draws), 0),
        "count_words": (lambda: engine.count_words(batch, draws, n_topics), 24 * len(draws), 0),
    }
    rows = {}
    for name, (work, n_bytes, operations) in works.items():
        seconds = timed(work, device)
        floor = max(n_bytes / rates["bytes"], operations / rates["tf32"])
        rows[name] = {"seconds": seconds, "bytes": n_bytes, "operations": operations, "floor": floor}
        print(
            f"{name:20} {1e3 * seconds:9.3f} ms, floor {1e3 * floor:9.3f} ms, {seconds / floor:6.1f} times", flush=True
        )
    sizes = {"documents": n_documents, "topics": n_topics, "tokens": len(draws), "pairs": n_pairs}
    save("gpu-kernels", given, {"ceilings": rates, "sizes": sizes, "kernels": rows})


def random_topics(n_topics: int, n_words: int, of_word: int) -> Any:
    """Topics of which each word has `of_word`, at random."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, n_topics, (n_words, of_word), dtype=np.int32), axis=1)
    word_topic = sparse.csr_matrix(
        (rng.integers(1, 20, columns.size).astype(float), columns.ravel(), np.arange(n_words + 1) * of_word),
        (n_words, n_topics),
    )
    word_topic.sum_duplicates()
    topics = unknown_topics(n_topics, N_DIMS, n_words, Priors(0.1, 0.1, 1.0, 0.01))
    return replace(topics, embedding=0.3 * rng.normal(size=(n_topics, N_DIMS)), word_topic=word_topic)


# --- arXiv, and LDA ---------------------------------------------------------------------------------------------------


def arxiv(given: argparse.Namespace) -> None:
    """Both engines with the estimator's defaults, on the same machine; seconds until the CPU's best score."""
    if given.tiny:
        planted = planted_topics(30, 200, 30, given.device)
        counts = heldout_of(planted, Sizes(0, 30, 200, 0)).whole
    else:
        counts = sparse.csr_matrix(read_counts(DATA / "arxiv" / "docword.arxiv.txt.gz"))
    n_topics = 30 if given.tiny else given.topics or 1000
    order = np.random.default_rng(0).permutation(counts.shape[0])
    n_heldout = min(N_HELDOUT, len(order) // 5)
    heldout, corpus = split_tokens(counts[order[:n_heldout]]), counts[np.sort(order[n_heldout:])]
    found = {}
    for name in given.engines:
        settings = local_settings(n_topics, counts.shape[1])
        engine = GpuEngine(settings, given.device) if name == "gpu" else select_engine(name, settings)
        found[name] = trained(corpus, heldout, engine, n_topics, given)
        del found[name]["topics"]
    if len(found) == 2:
        best = max(row["heldout_score"] for row in found["cpu"]["sweeps"])
        seconds = {name: seconds_until(run, best) for name, run in found.items()}
        found["seconds_to_the_cpus_best"] = seconds
        print(seconds)
    save(f"gpu-arxiv-{n_topics}-{'-'.join(given.engines)}", given, {"n_topics": n_topics, **found})


def seconds_until(run: dict[str, Any], score: float) -> float | None:
    before = run["lda_seconds"]
    reached = [row["seconds"] for row in run["sweeps"] if row["heldout_score"] >= score]
    return max(before, reached[0]) if reached else None


def lda(given: argparse.Namespace) -> None:
    """Tokens a second of LDA's sweeps over documents of NYTimes' kind, beside what others have published."""
    sizes = (TINY if given.tiny else FULL)["lda"]
    n_topics = sizes.topics
    corpus = draw_corpus(planted_topics(n_topics, sizes.words, N_DIMS, given.device), sizes.documents, sizes.length)
    engine = GpuEngine(local_settings(n_topics, sizes.words), given.device)
    topics = unknown_topics(n_topics, N_DIMS, sizes.words, Priors(0.1, 0.1, 1.0, 0.01))
    found = {}
    for sampler in ("alias", "sparse"):
        learner = MemoizedLearner(corpus, topics, engine, MemoizedSettings(512, 1, 1, sampler), seed=0)
        start = learner.start(len(learner.corpus))
        seconds = [timed_sweep(start, sweep, engine.device) for sweep in range(1 if sampler == "sparse" else 6)]
        found[sampler] = int(learner.corpus.token_offsets[-1]) / median(seconds[1:] or seconds)
        print(f"{sampler}: {found[sampler] / 1e6:,.0f} million tokens a second", flush=True)
    save("gpu-lda", given, {"sizes": sizes._asdict(), "tokens_per_second": found, "published": PUBLISHED})


def timed_sweep(start: Any, sweep: int, device: torch.device) -> float:
    wait(device)
    began = time.perf_counter()
    for _ in start.sampler.sweep(sweep, start.alpha):
        pass
    wait(device)
    return time.perf_counter() - began


# --- all ------------------------------------------------------------------------------------------------------------


def peak_memory(device: Any) -> int | None:
    return int(torch.cuda.max_memory_allocated(device)) if torch.device(device).type == "cuda" else None


def save(name: str, given: argparse.Namespace, figures: dict[str, Any]) -> None:
    is_gpu = torch.device(given.device).type == "cuda"
    gpu = torch.cuda.get_device_name(given.device) if is_gpu else None
    if given.tiny:
        print(f"{name}: a trial, not written")
        return
    write(name, {"gpu": gpu, "torch": torch.__version__, **figures})


def main() -> None:
    parts: dict[str, Callable[[argparse.Namespace], None]] = {
        "pubmed": lambda given: at_size("pubmed", given),
        "nytimes": lambda given: at_size("nytimes", given),
        "kernels": kernels,
        "arxiv": arxiv,
        "lda": lda,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*parts, "all"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--topics", type=int)
    parser.add_argument("--engines", nargs="+", default=["gpu", "cpu"])
    parser.add_argument("--seconds", type=float, default=480.0, help="of training, at most")
    parser.add_argument("--warm-sweeps", type=int, default=200)
    parser.add_argument("--draw-sweeps", type=int, default=6)
    parser.add_argument("--max-sweeps", type=int, default=20)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    logging.getLogger("asterism").setLevel(logging.INFO)
    if given.tiny:
        given.warm_sweeps, given.draw_sweeps, given.max_sweeps = 2, 2, 3
    for name in parts if given.part == "all" else [given.part]:
        print(f"--- {name}", flush=True)
        parts[name](given)


if __name__ == "__main__":
    main()
