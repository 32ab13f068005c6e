"""What a fit will need, told before it begins: memory by counting arrays, seconds by trying a few documents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from .engines.memory import MOST_PAIRS
from .inference.base import Learner, one_blas_thread
from .inference.memoized import MemoizedLearner
from .model import random
from .model.state import draw_type
from .model.walks import PROPOSALS

# Documents times topics that are tried, and bounds of how many documents that may be; and a quarter of them, which
# tells what a sweep costs as such and what a token adds to it.
TRIED, FEWEST_TRIED, MOST_TRIED = 2**22, 512, 2048
# Of topic embeddings that are tried.
SPREAD = 0.3
# A fit tries them, too, where it has so many times as many documents.
LONG = 20

# Bytes an entry of what training keeps and of what passes: counts of words as they come and as a batch, a token's place
# in both orders, sorting tokens to count them, a pair of word and topic while counts are exchanged, and in soft sweeps.
AN_ENTRY, A_PLACE, A_SORTED_TOKEN, AN_EXCHANGED_PAIR, A_SOFT_PAIR = 28, 12, 24, 60, 40
# The mean over sweeps with draws has pairs of all of them: so many times as many, and bytes a pair while one is added.
MORE_PAIRS, AN_AVERAGED_PAIR = 2, 24
A_DOCUMENT = 40
# Topic weights in work, of so many documents at least, and what a dimension of a topic takes in sums and copies.
A_WEIGHT, MOST_WEIGHTS, FEWEST_AT_ONCE, A_COORDINATE = 12, 2**23, 512, 40

# Where Linux tells what a group of processes, such as a container, may have and has (version 2, version 1).
GROUP = Path("/sys/fs/cgroup")
GROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


@dataclass(frozen=True)
class Size:
    """Of a corpus and of a model."""

    documents: int
    words: int
    tokens: int
    entries: int  # pairs of document and word
    pairs: int  # of word and topic, at most
    topics: int
    dims: int

    @classmethod
    def of(cls, counts: sparse.csr_matrix, n_topics: int, n_dims: int) -> Size:
        of_word = np.asarray(counts.sum(axis=0), dtype=np.int64).ravel()
        pairs = int(np.minimum(of_word, n_topics).sum())
        n_documents, n_words = counts.shape
        return cls(n_documents, n_words, int(of_word.sum()), int(counts.nnz), pairs, n_topics, n_dims)


@dataclass(frozen=True)
class Plan:
    """What training will need."""

    size: Size
    memory: dict[str, int]  # bytes at the peak of each phase
    available: int | None  # bytes, where the system tells
    seconds: dict[str, float] = field(default_factory=dict)  # a sweep of each kind; empty where nothing was tried

    @property
    def peak(self) -> int:
        return max(self.memory.values())

    @property
    def fits(self) -> bool:
        return self.available is None or self.peak <= self.available

    def __str__(self) -> str:
        needs = f"{self.size.topics:,} topics of {self.size.documents:,} documents need about {gigabytes(self.peak)}"
        has = "" if self.available is None else f" of the {gigabytes(self.available)} that are free"
        times = ", ".join(f"{name} {duration(seconds)}" for name, seconds in self.seconds.items())
        return needs + has + (f"; a sweep: {times}" if times else "")


def memory_needed(size: Size, is_memoized: bool, n_threads: int) -> dict[str, int]:
    """Bytes at the peak of each phase, without the interpreter and its libraries."""
    corpus = AN_ENTRY * size.entries + A_DOCUMENT * size.documents
    at_once = max(MOST_WEIGHTS, FEWEST_AT_ONCE * size.topics)
    topics = A_COORDINATE * size.topics * (size.dims + 1) + A_WEIGHT * at_once
    if not is_memoized:
        return {"sweeps": corpus + topics + AN_EXCHANGED_PAIR * size.pairs}
    a_draw = np.dtype(draw_type(size.topics)).itemsize
    a_walk = (2 + PROPOSALS) * a_draw + A_PLACE + A_SORTED_TOKEN
    kept = corpus + topics + a_draw * size.tokens + 4 * size.documents * size.dims
    every_pair = size.words * size.topics
    averaged_pairs = min(every_pair, MORE_PAIRS * size.pairs)
    soft_pairs = every_pair if every_pair <= MOST_PAIRS else averaged_pairs
    return {
        "LDA": corpus + a_walk * size.tokens + AN_EXCHANGED_PAIR * size.pairs,
        "draws": kept
        + A_SORTED_TOKEN * size.tokens // 4
        + AN_EXCHANGED_PAIR * size.pairs
        + AN_AVERAGED_PAIR * averaged_pairs,
        "expectations": kept + (A_SOFT_PAIR + 8 * n_threads) * soft_pairs,
    }


def lda_memory_needed(size: Size, batch_size: int, is_sparse: bool) -> dict[str, int]:
    """Of baselines.LDA: dense topics thrice, which are new, old and a step's, and a batch's words and documents."""
    corpus = AN_ENTRY * size.entries + A_DOCUMENT * size.documents
    if is_sparse:
        return {"sweeps": corpus + AN_EXCHANGED_PAIR * size.pairs}
    of_batch = min(size.words, batch_size * -(-size.entries // max(1, size.documents))) + 2 * batch_size
    return {"sweeps": corpus + 4 * size.topics * (3 * size.words + of_batch)}


def available_memory() -> int | None:
    """Bytes that this process can still have: what the machine has free, and what its group is allowed."""
    found = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        found.append(int(fields["MemAvailable"].split()[0]) * 1024)
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit, used in GROUP_FILES:
        if (GROUP / limit).exists() and (most := (GROUP / limit).read_text().strip()).isdigit():
            found.append(int(most) - int((GROUP / used).read_text()))
    return min(found) if found else None


def sweep_seconds(
    counts: sparse.csr_matrix, n_topics: int, learner_of: Callable[[sparse.csr_matrix], Learner]
) -> dict[str, float]:
    """Seconds that a sweep over all documents takes, from sweeps over a few of them: a cost of the sweep as such and
    one of every token. Words come to have more topics than in a few documents, so sweeps with draws or expectations
    take rather more."""
    n = n_tried(n_topics)
    few, more = counts[: n // 4], counts[:n]
    for _ in range(2):  # the first time compiles
        tried = [_tried(learner_of(some)) for some in (few, more)]
    tokens, of_few, of_more = counts.sum(), few.sum(), more.sum()
    found = {}
    for kind in tried[0]:
        a_token = max(0.0, tried[1][kind] - tried[0][kind]) / max(1, of_more - of_few)
        found[kind] = float(tried[1][kind] + a_token * max(0, tokens - of_more))
    return found


def n_tried(n_topics: int) -> int:
    return min(max(TRIED // n_topics, FEWEST_TRIED), MOST_TRIED)


def is_long(n_documents: int, n_topics: int) -> bool:
    """Whether training takes so long that a trial before it does not matter."""
    return n_documents >= LONG * n_tried(n_topics)


def _tried(learner: Learner) -> dict[str, float]:
    """Seconds of one sweep of each kind, with any embeddings: these are found once."""
    with one_blas_thread():
        if not isinstance(learner, MemoizedLearner):
            return {"sweeps": _seconds(learner.sweep(0))}
        start = learner.start(len(learner.corpus))
        _seconds(start.sweeps(1))
        found = {"LDA": _seconds(start.sampler.sweep(1, start.alpha))}
        n_topics, n_dims = learner.topics.n_topics, learner.topics.n_dims
        embedding = SPREAD * random.normals(random.stream(0, random.START, np.arange(n_topics)), n_dims)
        learner.draws, learner.topics = start.draws, replace(start.topics, embedding=embedding)
        learner.settings = replace(learner.settings, draw_sweeps=3)
        _seconds(learner.sweep(0))  # from no embeddings, which takes more steps
        found["draws"] = _seconds(learner.sweep(1))
        word_topic = learner.engine.with_every_pair(learner.topics.word_topic)
        learner.topics = replace(learner.topics, word_topic=word_topic)
        learner.settings = replace(learner.settings, goes_on=True)
        return found | {"expectations": _seconds(learner.sweep(2))}


def _seconds(work: Iterator[int]) -> float:
    began = time.perf_counter()
    for _ in work:
        pass
    return time.perf_counter() - began


def gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes < 1e10 else f"{n_bytes / 1e9:,.0f} GB"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
