"""How cost grows with the number of topics, on arXiv: sweeps, memory, transform; peers beside it; the machine's limits.

python benchmarks/scaling.py                     hours; writes results/scaling.json and results/scaling.png
python benchmarks/scaling.py --parts topics      one part; what other parts have found stays in the file

topics    a sweep's parts at 100 to 100,000 topics, exact and with candidates, each in a process of its own
iteration one batch of 500 documents by our inferences and by LDA with the same sparsity, as in the paper's Figure 5
peers     one pass beside topica's and tomotopy's correlated models, and transform beside tomotopy's infer
machine   the document step beside a float32 matrix product, LDA's walks beside random access to memory
candidates what they cost in quality: 10,000 topics trained exactly and with candidates, scored both ways
train     100,000 topics of all abstracts: peak memory and held-out score by sweep

One thread unless said otherwise, times of computation, medians of repeats taken in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from _harness import DATA, RESULTS, median, run_python, write
from _harness import seconds as elapsed
from _rivals import add_documents, bags
from asterism import TopicEmbeddingModel, sample_corpus
from asterism.baselines import LDA
from asterism.corpus.uci import read_counts
from asterism.evaluation.completion import Completion, completion_score, split_tokens
from asterism.inference.memoized import MemoizedLearner
from asterism.model import memoized, svi
from asterism.model.dirichlet import DirichletPriors, DirichletTopics
from asterism.model.state import Batch, Topics
from asterism.model.topics import optimal_document_cov

TOPICS = 100, 1000, 10_000, 100_000
CANDIDATES = 512
# LDA sweeps before anything is timed: words should have few topics, as in training.
WARM_SWEEPS, REPEATS, N_NEW = 20, 3, 500
N_FEW = 60_000
# Topics of the dense LDA, whose words and topics are an array.
MOST_DENSE = 10_000
# Of an iteration.
PARTS = "prepare", "statistics", "update"
# Documents that sweeps are timed on: enough for a second of work.
N_TIMED = {100: 4000, 1000: 4000, 10_000: 1000, 100_000: 200}


def abstracts() -> sparse.csr_matrix:
    return sparse.csr_matrix(read_counts(DATA / "arxiv" / "docword.arxiv.txt.gz"))


def cpu_seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def peak_memory() -> int:
    """Bytes that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- topics ---------------------------------------------------------------------------------------------------------


def measure_topics(n_topics: int) -> dict[str, Any]:
    """Seconds of 1,000 documents in each kind of sweep, documents a second of transform, and memory."""
    counts = abstracts()
    new, counts = counts[:N_NEW], counts[N_NEW:]
    model = TopicEmbeddingModel(n_topics, n_threads=1, warm_sweeps=WARM_SWEEPS, random_state=0)
    learner = begun(model, counts)
    found: dict[str, Any] = {"n_topics": n_topics}
    start = learner.start(len(learner.corpus))
    sum(start.sweeps(1))  # compile
    found["lda"] = cpu_seconds(partial(sum, start.sweeps(1 + REPEATS))) / REPEATS * 1000 / len(learner.corpus)
    del start
    for _ in learner.warm_up():
        pass
    model.state_ = learner.topics
    n = N_TIMED[n_topics]
    for name, candidates in (("exact", None), ("candidates", CANDIDATES)):
        if candidates is None or n_topics > candidates:
            found[name] = sweeps_of(model.set_params(candidates=candidates), learner, n)
            model._serving = {}
            model.transform(new[:10])
            found[name]["transform_per_second"] = N_NEW / median(
                [cpu_seconds(lambda: model.transform(new)) for _ in range(REPEATS)]
            )
    return found | {"peak_memory": peak_memory(), "pairs": int(learner.topics.word_topic.nnz)}


def sweeps_of(model: TopicEmbeddingModel, learner: MemoizedLearner, n: int) -> dict[str, Any]:
    """Seconds of 1,000 documents with draws and with expectations, from embeddings that are there."""
    engine, batch = model._engine(), learner.corpus[:n]
    prepared = engine.prepare(learner.topics)
    draws = learner.draws[: batch.token_offsets[-1]].copy()
    embedding = np.zeros((n, model.n_dims), dtype=np.float32)
    engine.redraw(prepared, batch, draws, embedding, 6, 0, 0)
    times: dict[str, list[float]] = {"draws": [], "expectations": []}
    for sweep in range(REPEATS):
        of_draws = lambda s=sweep: engine.redraw(prepared, batch, draws, embedding, 1, 0, s)  # noqa: E731
        softly = lambda s=sweep: engine.relax(prepared, batch, embedding.copy(), 6, s)  # noqa: E731
        times["draws"].append(cpu_seconds(of_draws) * 1000 / n)
        times["expectations"].append(cpu_seconds(softly) * 1000 / n)
    return {kind: median(taken) for kind, taken in times.items()}


def begun(model: TopicEmbeddingModel, counts: Any) -> MemoizedLearner:
    """A model's learner before its first sweep."""
    model._first_counts(counts)
    model._begin(counts)
    learner = model._learner(counts, model._engine(), False)
    assert isinstance(learner, MemoizedLearner)
    return learner


def topics() -> dict[str, Any]:
    """All numbers of topics, and how cost grows: the exponent e of K^e from 1,000 to 100,000 topics."""
    rows = by_topics("measure_topics")
    growth = {}
    of = {row["n_topics"]: row for row in rows}
    low, high = of[1000], of[100_000]
    for name in ("exact", "candidates"):
        for kind in ("draws", "expectations"):
            growth[f"{name} {kind}"] = float(np.log(high[name][kind] / low[name][kind]) / np.log(100))
    for kind, exponent in growth.items():
        print(f"cost of {kind} grows like K^{exponent:.2f} from 1,000 to 100,000 topics")
    return {"rows": rows, "growth": growth}


def by_topics(measure: str) -> list[dict[str, Any]]:
    """What a function of this module measures at each number of topics, each in a process of its own."""
    program = f"import json, sys, scaling; print(json.dumps(scaling.{measure}(int(sys.argv[1]))))"
    path = os.pathsep.join([str(RESULTS.parent), os.environ.get("PYTHONPATH", "")])
    rows = []
    for n_topics in TOPICS:
        rows.append(json.loads(run_python(program, str(n_topics), PYTHONPATH=path).splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
    return rows


# --- iteration ------------------------------------------------------------------------------------------------------


def iteration() -> dict[str, Any]:
    """All numbers of topics; and the most of them on fewer documents, where words have fewer topics to draw from."""
    rows = by_topics("measure_iteration")
    few = measure_iteration(TOPICS[-1], N_FEW)
    print(json.dumps(few), flush=True)
    return {"rows": rows, "few_documents": few | {"documents": N_FEW}}


def measure_iteration(n_topics: int, n_corpus: int | None = None) -> dict[str, Any]:
    """Seconds of one iteration: topics made ready, a batch's statistics, and the topics' update.

    All begin with the same counts of words in topics, by sweeps of LDA. Stochastic inferences begin with a document
    anew and go on until it settles; memoized inference goes on from the last draws with one round, and its update is
    one of a whole sweep.
    """
    counts = abstracts()[:n_corpus]
    model = TopicEmbeddingModel(n_topics, n_threads=1, warm_sweeps=WARM_SWEEPS, random_state=0)
    learner = begun(model, counts)
    for _ in learner.warm_up():
        pass
    found: dict[str, Any] = {"n_topics": n_topics, "pairs": int(learner.topics.word_topic.nnz)}
    contestants = iterations(learner.topics, counts[:N_NEW])
    contestants["memoized"] = memoized_iteration(model, learner, None)
    if n_topics > CANDIDATES:
        contestants["memoized, candidates"] = memoized_iteration(model, learner, CANDIDATES)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for _ in range(1 + REPEATS):  # the first time compiles
        for name, run in contestants.items():
            times[name].append(run())
    seconds = {}
    for name, taken in times.items():
        found[name] = {part: median([one[part] for one in taken[1:]]) for part in taken[0]}
        seconds[name] = sum(found[name][part] for part in PARTS)
    ratios = {
        rival: {name: seconds[name] / seconds[rival] for name in seconds if not name.startswith("LDA")}
        for rival in seconds
        if rival.startswith("LDA")
    }
    return found | {"seconds": seconds, "ratio": ratios}


def memoized_iteration(
    model: TopicEmbeddingModel, learner: MemoizedLearner, candidates: int | None
) -> Callable[[], dict[str, float]]:
    """Of memoized inference in its sweeps of draws."""
    engine, batch = clone(model).set_params(candidates=candidates)._engine(), learner.corpus[:N_NEW]
    draws = learner.draws[: batch.token_offsets[-1]].copy()
    embedding = np.zeros((len(batch), model.n_dims), dtype=np.float32)
    engine.redraw(engine.prepare(learner.topics), batch, draws, embedding, memoized.STEPS_FROM_NOTHING, 0, 0)

    def iterate() -> dict[str, float]:
        times, old = [time.process_time()], draws.copy()
        prepared = engine.prepare(replace(learner.topics))
        times.append(time.process_time())
        engine.redraw(prepared, batch, draws, embedding, memoized.STEPS_WITH_DRAWS, 0, 1)
        times.append(time.process_time())
        engine.exchange(learner.topics.word_topic, batch, old, draws)
        times.append(time.process_time())
        return dict(zip(PARTS, np.diff(times).tolist(), strict=True)) | {"rounds": memoized.STEPS_WITH_DRAWS}

    return iterate


def iterations(topics: Topics, counts: sparse.csr_matrix) -> dict[str, Callable[[], dict[str, float]]]:
    """Every stochastic inference's iteration on these documents."""
    ours = TopicEmbeddingModel(topics.n_topics, inference="svi", n_threads=1)
    priors, cov = ours._priors(), svi.START_VARIANCE * np.eye(topics.n_dims)
    document_cov = optimal_document_cov(topics.embedding, cov, priors)
    mean = np.zeros(topics.n_topics)
    models: dict[str, Any] = {"svi": ours, "LDA, as sparse": LDA(topics.n_topics, sparse=True, n_threads=1)}
    ours.state_ = Topics(topics.embedding, cov, document_cov, mean, topics.word_topic, priors)
    concentrations = DirichletPriors(1 / topics.n_topics, 1 / topics.n_topics)
    models["LDA, as sparse"].state_ = DirichletTopics(topics.word_topic, concentrations)
    if topics.n_topics <= MOST_DENSE:
        models["LDA, dense"] = LDA(topics.n_topics, n_threads=1)
        dense = topics.word_topic.toarray().astype(np.float32)
        models["LDA, dense"].state_ = DirichletTopics(dense, concentrations)
    return {name: partial(iterate, model, Batch.of(counts)) for name, model in models.items()}


def iterate(model: Any, batch: Batch) -> dict[str, float]:
    """CPU seconds of an iteration's parts, and rounds a document."""
    engine, update = model._engine(), model._update()
    times = [time.process_time()]
    # A copy without what the state has computed before.
    prepared = engine.prepare(replace(model.state_))
    times.append(time.process_time())
    statistics = engine.statistics(prepared, batch, 0, 0)
    times.append(time.process_time())
    update(model.state_, statistics, 100.0, 0.1)
    times.append(time.process_time())
    return dict(zip(PARTS, np.diff(times).tolist(), strict=True)) | {"rounds": statistics.n_steps / len(batch)}


# --- peers ----------------------------------------------------------------------------------------------------------


def peers() -> dict[str, Any]:
    """Seconds of one pass over 1,000 documents of 100 tokens beside correlated models'; transform beside LDA's.

    Our passes are of two kinds, with draws and with expectations; a mean one is that of training with the defaults, by
    the clock, without plain LDA's. A rival's pass is over fewer documents where it would take hours."""
    found: dict[str, Any] = {"one_pass": [], "transform": []}
    for n_topics, n_rivals, n_samples in ((100, 1000, 3), (800, 10, 1)):
        counts = sample_corpus(1000, n_topics, 5000, 20, mean_length=100, seed=0).counts
        row = {"n_topics": n_topics, **passes(counts, n_topics, n_rivals, n_samples)}
        print(json.dumps(row), flush=True)
        found["one_pass"].append(row)
    counts = abstracts()[: 20_000 + N_NEW]
    for n_topics in (100, 1000):
        row = transforms(counts[:20_000], counts[20_000:], n_topics)
        print(json.dumps(row), flush=True)
        found["transform"].append(row)
    return found


def passes(counts: Any, n_topics: int, n_rivals: int, repeats: int) -> dict[str, Any]:
    import tomotopy
    import topica

    documents = list(bags(counts[:n_rivals]))
    scale = counts.shape[0] / n_rivals

    def topica_pass() -> float:
        """The difference of two runs, so that its start does not count."""
        taken = []
        for iters in (1, 3):
            model = topica.CTM(n_topics, seed=0)
            settings = {"iters": iters, "convergence_tol": 0, "keep_eta_cov": False, "num_threads": 1}
            taken.append(cpu_seconds(lambda m=model, s=settings: m.fit(documents, **s)))
        return scale * (taken[1] - taken[0]) / 2

    model = TopicEmbeddingModel(n_topics, n_threads=1, warm_sweeps=WARM_SWEEPS, random_state=0)
    learner = begun(model, counts)
    for _ in learner.warm_up():
        pass
    ours = [sweeps_of(model, learner, counts.shape[0]) for _ in range(repeats)]
    found = {kind: median([o[kind] for o in ours]) * counts.shape[0] / 1000 for kind in ("draws", "expectations")}
    history = clone(model).set_params(warm_sweeps=2000).fit(counts).history_
    found["mean"] = counts.shape[0] * float(np.mean([1 / sweep["documents_per_second"] for sweep in history]))
    found["topica CTM"] = median([topica_pass() for _ in range(repeats)])
    if n_topics <= 100:  # a pass of tomotopy's takes minutes beyond
        rival = tomotopy.CTModel(k=n_topics, seed=0)
        add_documents(rival, counts)
        rival.train(1, workers=1)
        found["tomotopy CTModel"] = median([cpu_seconds(lambda: rival.train(1, workers=1)) for _ in range(repeats)])
    kinds = "draws", "expectations", "mean"
    ratios = {name: {kind: value / found[kind] for kind in kinds} for name, value in found.items() if " " in name}
    return {"rival_documents": n_rivals, "passes": len(history), "seconds": found, "ratio": ratios}


def transforms(train: Any, new: Any, n_topics: int) -> dict[str, Any]:
    import tomotopy

    model = TopicEmbeddingModel(n_topics, n_threads=1, warm_sweeps=50, max_sweeps=3, draw_sweeps=2, random_state=0)
    model.fit(train).transform(new[:10])
    rival = tomotopy.LDAModel(k=n_topics, seed=0)
    add_documents(rival, train)
    rival.train(50, workers=1)
    documents = [rival.make_doc(words) for words in bags(new)]
    ours = [cpu_seconds(lambda: model.transform(new)) for _ in range(REPEATS)]
    theirs = [cpu_seconds(lambda: rival.infer(documents, workers=1)) for _ in range(REPEATS)]
    speeds = {"asterism": new.shape[0] / median(ours), "tomotopy": new.shape[0] / median(theirs)}
    return {"n_topics": n_topics, "documents_per_second": speeds, "ratio": speeds["asterism"] / speeds["tomotopy"]}


# --- machine --------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Shares of what the machine can do."""
    a, b = (np.random.default_rng(0).random(shape, dtype=np.float32) for shape in ((2000, 2000), (2000, 2000)))
    product = median([cpu_seconds(lambda: a @ b) for _ in range(7)])
    peak = 2 * 2000**3 / product
    found: dict[str, Any] = {"gemm_gflops": peak / 1e9}
    counts = abstracts()[:20_000]
    n_topics, n_dims = 10_000, 50
    model = TopicEmbeddingModel(n_topics, n_dims, n_threads=1, warm_sweeps=WARM_SWEEPS, random_state=0)
    learner = begun(model, counts)
    for _ in learner.warm_up():
        pass
    seconds = sweeps_of(model, learner, 1000)["draws"] / 1000
    # Of a step with draws: U γ before and after it, U'(n - N θ), and Σ h u of the curvature.
    products = 4 * 2 * n_topics * n_dims
    found["document_step"] = {"n_topics": n_topics, "seconds": seconds, "gemm_share": products / seconds / peak}
    start = learner.start(len(learner.corpus))
    sum(start.sweeps(2))
    n_tokens = len(start.draws)
    per_token = cpu_seconds(lambda: sum(start.sweeps(4))) / 2 / n_tokens
    memory, places = np.zeros(2**26, dtype=np.uint16), np.random.default_rng(0).integers(0, 2**26, 2**23)
    memory[:] = 1
    access = median([cpu_seconds(lambda: memory[places].sum()) for _ in range(5)]) / len(places)
    # Six bytes a token, topic and proposals, are read and written in the order of words; that of documents is memory's.
    found["walks"] = {"seconds_a_token": per_token, "random_access": access, "share": 2 * access / per_token}
    print(json.dumps(found), flush=True)
    return found


# --- candidates -----------------------------------------------------------------------------------------------------


def candidates() -> dict[str, Any]:
    """Two models from the same start, by LDA: what each phase costs and what test documents score."""
    counts = abstracts()[:32_000]
    train, halves = counts[:30_000], split_tokens(counts[30_000:])
    settings = {"warm_sweeps": 100, "draw_sweeps": 8, "max_sweeps": 10, "tol": 0, "random_state": 0}
    rows = [trained_with(some, train, halves, settings) for some in (None, CANDIDATES)]
    return {"settings": settings, "documents": train.shape[0], "n_topics": 10_000, "rows": rows}


def trained_with(candidates: int | None, train: Any, halves: Completion, settings: dict[str, Any]) -> dict[str, Any]:
    model = TopicEmbeddingModel(10_000, n_threads=1, candidates=candidates, **settings)
    learner, state = begun(model, train), {}
    times = {"LDA": cpu_seconds(lambda: sum(learner.warm_up()))}
    state["LDA"] = learner.topics
    for name, sweeps in (("draws", range(8)), ("expectations", range(8, 10))):
        times[name] = cpu_seconds(lambda s=sweeps: [sum(learner.sweep(sweep)) for sweep in s]) / len(sweeps)
        state[name] = learner.topics
    row: dict[str, Any] = {"candidates": candidates, "cpu_seconds_a_sweep": times}
    for how, inferred in (("exact", None), ("candidates", CANDIDATES)):
        engine = model.set_params(candidates=inferred)._engine()
        scores = {}
        for name, topics in state.items():
            prepared = engine.prepare(topics)
            began = time.process_time()
            scores[name] = completion_score(engine, prepared, halves)
            times[f"scored, {how}"] = time.process_time() - began
        row[f"score, {how}"] = scores
    print(json.dumps(row), flush=True)
    return row


# --- train ----------------------------------------------------------------------------------------------------------


def train() -> dict[str, Any]:
    settings = {"warm_sweeps": 100, "draw_sweeps": 4, "max_sweeps": 4, "candidates": CANDIDATES, "tol": 0}
    began = time.perf_counter()
    model = TopicEmbeddingModel(100_000, random_state=0, **settings).fit(abstracts())
    found = {
        "settings": settings,
        "seconds": time.perf_counter() - began,
        "peak_memory": peak_memory(),
        "history": model.history_,
        "dead_topics": int((model.state_.topic_count < 1).sum()),
        "questions": {
            "correlated": elapsed(lambda: model.correlated(5, 10)),
            "correlated, again": elapsed(lambda: model.correlated(6, 10)),
            "top_words, first": elapsed(lambda: model.top_words(5)),
            "top_words": elapsed(lambda: model.top_words(6)),
            "correlation_graph": elapsed(lambda: model.correlation_graph(10)),
        },
    }
    print(json.dumps(found), flush=True)
    return found


def plot(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name in ("exact", "candidates"):
        some = [row for row in rows if name in row]
        n_topics = [row["n_topics"] for row in some]
        for kind, style in (("draws", "-"), ("expectations", "--")):
            left.loglog(n_topics, [row[name][kind] for row in some], "o" + style, label=f"{kind}, {name}")
        right.loglog(n_topics, [row[name]["transform_per_second"] for row in some], "o-", label=name)
    left.loglog([row["n_topics"] for row in rows], [row["lda"] for row in rows], "o:", label="LDA's walks")
    left.set(xlabel="topics", ylabel="seconds of 1,000 documents")
    right.set(xlabel="topics", ylabel="documents a second, transform")
    left.legend()
    right.legend()
    figure.savefig(RESULTS / "scaling.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"topics": topics, "iteration": iteration, "peers": peers, "machine": machine}
    parts |= {"candidates": candidates, "train": train}
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    given = parser.parse_args()
    threadpool_limits(1)
    path, figures = RESULTS / "scaling.json", {}
    for name in given.parts:
        found = parts[name]()
        figures = json.loads(path.read_text()) if path.exists() else {}  # others may have written
        figures.pop("environment", None)
        figures[name] = found
        write("scaling", figures)
    if "topics" in figures:
        plot(figures["topics"]["rows"])


if __name__ == "__main__":
    main()
