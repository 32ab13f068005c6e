"""Speed of a stochastic pass, memory, import and compilation, against scikit-learn in the same run.

python benchmarks/foundation.py        about 5 minutes on 2 cores; writes results/foundation.json
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation

from _harness import DATA, in_turn, median, newsgroups, run_python, write
from asterism import TextPipeline, TopicEmbeddingModel
from asterism.evaluation.completion import split_tokens

N_TOPICS, BATCH, REPEATS = 100, 512, 3


def one_pass(counts: Any, test: Any, n_threads: int) -> dict[str, Any]:
    """One pass over 20Newsgroups: ours and scikit-learn's online LDA, in turn; held-out perplexity of both."""
    ours = TopicEmbeddingModel(
        N_TOPICS,
        inference="svi",
        max_sweeps=1,
        batch_size=BATCH,
        n_threads=n_threads,
        validation_fraction=0,
        random_state=0,
    )
    theirs = LatentDirichletAllocation(
        N_TOPICS, learning_method="online", max_iter=1, batch_size=BATCH, n_jobs=n_threads, random_state=0
    )
    times = in_turn({"asterism": lambda: ours.fit(counts), "scikit-learn": lambda: theirs.fit(counts)}, REPEATS)
    middle = {name: median(values) for name, values in times.items()}
    return {
        "threads": n_threads,
        "seconds": times,
        "documents_per_second": {name: counts.shape[0] / value for name, value in middle.items()},
        "ratio": middle["scikit-learn"] / middle["asterism"],
        "completion_perplexity": {"asterism": ours.perplexity(test), "scikit-learn": lda_perplexity(theirs, test)},
    }


def lda_perplexity(lda: LatentDirichletAllocation, test: Any) -> float:
    """Document completion with the same halves as ours."""
    observed, scored = split_tokens(test)
    topic_word = lda.components_ / lda.components_.sum(axis=1, keepdims=True)
    proportions = lda.transform(observed)
    total = 0.0
    for d in range(test.shape[0]):
        entries = slice(scored.indptr[d], scored.indptr[d + 1])
        total += scored.data[entries] @ np.log(proportions[d] @ topic_word[:, scored.indices[entries]])
    return math.exp(-total / scored.sum())


def import_times() -> dict[str, float]:
    """Median seconds of an import in a fresh process."""
    lda = "from sklearn.decomposition import LatentDirichletAllocation"
    statements = ("import asterism", "from asterism import TopicEmbeddingModel", lda)
    program = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
    return {
        statement: median([float(run_python(program.format(statement))) for _ in range(7)]) for statement in statements
    }


def compilation() -> dict[str, float]:
    """Seconds of tiny fits and scores in a fresh process, with no kernel on disk and with all of them; medians."""
    program = """
import time
from asterism import TopicEmbeddingModel, sample_corpus
import asterism.engines.cpu
counts = sample_corpus(100, 5, 50).counts
began = time.perf_counter()
for inference in ("svi", "memoized"):
    settings = dict(inference=inference, max_sweeps=2, warm_sweeps=1, draw_sweeps=1, random_state=0)
    TopicEmbeddingModel(5, 3, **settings).fit(counts).score(counts)
print(time.perf_counter() - began)
"""
    pairs = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append([float(run_python(program, NUMBA_CACHE_DIR=folder)) for _ in range(2)])
    first, second = (median(values) for values in zip(*pairs, strict=True))
    return {"first_process": first, "next_process": second, "compilation": first - second}


def peak_memory(counts: Any) -> dict[str, float]:
    """Peak resident memory of a process that loads the counts and fits them, in MB."""
    program = """
import json, re, sys
from scipy import sparse
from asterism import TopicEmbeddingModel
def peak():  # not getrusage's, which a process inherits from the one that started it
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
counts = sparse.load_npz(sys.argv[1])
TopicEmbeddingModel(5, 3, max_sweeps=1).fit(counts[:50]).transform(counts[:10])
before = peak()
TopicEmbeddingModel({}, max_sweeps=3, warm_sweeps=3, draw_sweeps=2, random_state=0).fit(counts)
print(json.dumps([before, peak()]))
"""
    with tempfile.TemporaryDirectory() as folder:
        sparse.save_npz(f"{folder}/counts.npz", counts)
        before, after = json.loads(run_python(program.format(N_TOPICS), f"{folder}/counts.npz"))
    return {
        "peak_mb": after,
        "with_everything_loaded_before_fit_mb": before,
        "added_by_fit_mb": after - before,
        "documents_times_topics_would_be_mb": counts.shape[0] * N_TOPICS * 4 / 2**20,
    }


def main() -> None:
    if not (DATA / "20newsgroups").exists():
        raise SystemExit(f"20Newsgroups is not in {DATA}; set ASTERISM_DATA")
    pipeline = TextPipeline()
    counts = pipeline.fit_transform(newsgroups("train")[0])
    test = pipeline.transform(newsgroups("test")[0][:2000])
    TopicEmbeddingModel(N_TOPICS, inference="svi", max_sweeps=1).fit(counts[:600]).score(test[:100])  # compile
    passes = [one_pass(counts, test, n_threads) for n_threads in sorted({1, min(2, os.cpu_count() or 1)})]
    figures = {
        "corpus": {"name": "20Newsgroups train", "documents": counts.shape[0], "tokens": int(counts.sum())},
        "one_pass": passes,
        "import_seconds": import_times(),
        "compilation_seconds": compilation(),
        "memory": peak_memory(counts),
    }
    report(figures)
    write("foundation", figures)


def report(figures: dict[str, Any]) -> None:
    for result in figures["one_pass"]:
        ours, theirs = (result["completion_perplexity"][name] for name in ("asterism", "scikit-learn"))
        print(
            f"one pass, {result['threads']} threads: {result['ratio']:.1f} times scikit-learn's online LDA;",
            end=" ",
        )
        print(f"held-out perplexity after it {ours:.0f} against {theirs:.0f}")
    imports = figures["import_seconds"]
    lda = imports["from sklearn.decomposition import LatentDirichletAllocation"]
    print(f"import asterism: {imports['import asterism']:.3f} s; scikit-learn's LDA {lda:.2f} s", end=" ")
    print(f"({lda / imports['import asterism']:.0f} times as long)")
    print("compilation, seconds:", figures["compilation_seconds"])
    print("memory:", figures["memory"])


if __name__ == "__main__":
    main()
