"""A thousand topics of 300,000 arXiv abstracts: test perplexity by the time spent, against tomotopy's LDA.

python benchmarks/arxiv.py             hours on one core each; writes results/arxiv.json and results/arxiv.png

Each system uses one thread, and time is that of computation, so that both may run at once (name one to run it alone).
What they have reached is kept in results/arxiv, with where it was measured; delete a file there to measure again. As
long as its state is in .cache/arxiv tomotopy goes on where it stopped, and where it is not, its curve ends there.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from _harness import DATA, RESULTS, ROOT, environment, write
from _rivals import Counts, add_documents, of_tomotopy
from _watch import timed, watched_fit
from asterism.corpus.uci import read_counts
from asterism.evaluation.completion import Completion, split_tokens
from quality import completion_perplexity, lengths, proportions_of_all

CACHE, REACHED = ROOT / "benchmarks" / ".cache" / "arxiv", RESULTS / "arxiv"
N_TOPICS, N_TEST, SEED = 1000, 3000, 0
# tomotopy is looked at every so many sweeps, and has converged when perplexity falls by less than SETTLED of itself.
SLICE, MOST_SWEEPS, SETTLED = 50, 400, 0.0025
CURVE_SWEEPS = (0, 1, 2, 4, 6, 8, 10, 11, 12, 14, 16, 20, 24, 28, 32, 36, 40)


class Corpus(NamedTuple):
    train: Counts
    halves: Completion  # of the test documents


def read_corpus() -> Corpus:
    counts = sparse.csr_matrix(read_counts(DATA / "arxiv" / "docword.arxiv.txt.gz"))
    order = np.random.default_rng(SEED).permutation(counts.shape[0])
    train = counts[np.sort(order[N_TEST:])]
    return Corpus(train[lengths(train) > 0], split_tokens(counts[np.sort(order[:N_TEST])]))


def run_asterism(corpus: Corpus) -> None:
    if not (REACHED / "asterism.json").exists():
        settings = {"n_threads": 1, "random_state": SEED}
        model, training = watched_fit(corpus.train, corpus.halves, CURVE_SWEEPS, N_TOPICS, **settings)
        model.save(CACHE / "asterism.model")
        keep("asterism", training | {"history": model.history_})


def run_tomotopy(corpus: Corpus) -> None:
    import tomotopy

    state = CACHE / "tomotopy.bin"
    curve = reached("tomotopy")["curve"] if (REACHED / "tomotopy.json").exists() else []
    if state.exists():
        model = tomotopy.LDAModel.load(str(state))
    elif curve:
        return
    else:
        model = tomotopy.LDAModel(k=N_TOPICS, seed=SEED)
        add_documents(model, corpus.train)
    while not has_converged(curve):
        done, spent = curve[-1][:2] if curve else (0, 0.0)
        _, times = timed(lambda: model.train(SLICE, workers=1))
        sweeps, seconds = done + SLICE, spent + times["train_cpu_seconds"]
        curve.append((sweeps, seconds, tomotopy_perplexity(model, corpus)))
        print(f"{time.strftime('%H:%M:%S')} tomotopy: sweep {sweeps}, {seconds:.0f} s, {curve[-1][2]:.1f}", flush=True)
        replace(state, model)
        keep("tomotopy", {"curve": curve})


def tomotopy_perplexity(model: Any, corpus: Corpus) -> float:
    rival = of_tomotopy(model, corpus.train.shape[1], n_threads=1)
    # A document of which nothing is observed is taken for the average of those that are.
    theta = proportions_of_all(rival, corpus.halves.observed, None)
    return completion_perplexity(theta, rival.topic_word, corpus.halves.scored)


def keep(system: str, figures: dict[str, Any]) -> None:
    REACHED.mkdir(parents=True, exist_ok=True)
    (REACHED / f"{system}.json").write_text(json.dumps({"environment": environment(), **figures}) + "\n")


def reached(system: str) -> dict[str, Any]:
    return dict(json.loads((REACHED / f"{system}.json").read_text()))


def replace(state: Path, model: Any) -> None:
    unfinished = state.with_suffix(".tmp")
    model.save(str(unfinished))
    unfinished.replace(state)


def has_converged(curve: list[list[float]]) -> bool:
    """The last slice brought less than SETTLED, or there were enough."""
    if len(curve) < 2:
        return False
    return curve[-1][2] > (1 - SETTLED) * curve[-2][2] or curve[-1][0] >= MOST_SWEEPS


def limit(curve: list[list[float]]) -> float:
    """Where a rival that still falls would end: a of a + b/sweeps through its curve but for the first look."""
    sweeps, _, perplexity = np.array(curve[1:]).T
    return float(np.polynomial.Polynomial.fit(1 / sweeps, perplexity, 1).convert().coef[0])


def compare(corpus: Corpus) -> None:
    ours, rival = reached("asterism"), reached("tomotopy")
    own = [(seconds, perplexity) for _, seconds, perplexity in ours["curve"]]
    theirs = [(seconds, perplexity) for _, seconds, perplexity in rival["curve"]]
    converged = own[-1][1] / theirs[-1][1]
    at_equal_time = {
        round(seconds): {"asterism": best, "tomotopy": perplexity, "ratio": best / perplexity}
        for seconds, perplexity in theirs
        if (best := min((p for s, p in own if s <= seconds), default=None)) is not None
    }
    print(
        f"converged: {own[-1][1]:.0f} after {own[-1][0]:.0f} s, tomotopy {theirs[-1][1]:.0f} after {theirs[-1][0]:.0f}"
    )
    rivals_limit = limit(rival["curve"])
    print(
        f"  ratio {converged:.3f}, and {own[-1][1] / rivals_limit:.3f} over {rivals_limit:.0f}, where its curve leads"
    )
    for seconds, row in at_equal_time.items():
        print(f"after {seconds} s: {row['asterism']:.0f} against {row['tomotopy']:.0f}, ratio {row['ratio']:.3f}")
    plot({"asterism": own, "tomotopy LDA": theirs})
    write(
        "arxiv",
        {
            "corpus": {
                "name": "arXiv abstracts",
                "train_documents": corpus.train.shape[0],
                "test_documents": N_TEST,
                "words": corpus.train.shape[1],
                "train_tokens": int(corpus.train.sum()),
            },
            "n_topics": N_TOPICS,
            "converged_ratio": converged,
            "tomotopy_limit": rivals_limit,
            "ratio_over_limit": own[-1][1] / rivals_limit,
            "at_equal_time": at_equal_time,
            "asterism": ours,
            "tomotopy": rival | {"converged": has_converged(rival["curve"])},
        },
    )


def plot(curves: dict[str, list[tuple[float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, curve in curves.items():
        panel.plot([seconds / 60 for seconds, _ in curve], [perplexity for _, perplexity in curve], "o-", label=name)
    panel.set_xlabel("minutes of computation, one thread")
    panel.set_ylabel("completion perplexity")
    panel.set_title(f"arXiv, {N_TOPICS} topics", fontsize=10)
    panel.legend()
    figure.savefig(RESULTS / "arxiv.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    systems = {"asterism": run_asterism, "tomotopy": run_tomotopy}
    parser.add_argument("--systems", nargs="+", choices=systems, default=list(systems))
    given = parser.parse_args()
    threadpool_limits(1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")  # our sweeps
    CACHE.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus()
    for system in given.systems:
        systems[system](corpus)
    if all((REACHED / f"{system}.json").exists() for system in systems):
        compare(corpus)


if __name__ == "__main__":
    main()
