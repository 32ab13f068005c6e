"""What quality.py measured, compared: tables over the number of topics, ratios to the best rival, a plot."""

from __future__ import annotations

from typing import Any

import numpy as np

from _harness import RESULTS
from _rivals import RIVALS
from asterism.evaluation import RECALL_LEVELS

MEASURES = {
    "perplexity": "completion perplexity",
    "svm": "accuracy of a linear SVM",
    "map": "retrieval: mean average precision",
    "p_at_10": "retrieval: precision at 10",
    "npmi": "NPMI of ten words",
    "c_v": "C_v of ten words",
    "diversity": "diversity of ten words",
    "train_cpu_seconds": "training, CPU seconds",
}
LOWER_IS_BETTER = ("perplexity", "train_cpu_seconds")
PLOTTED = ("perplexity", "svm", "map", "p_at_10", "npmi", "c_v", "diversity")

Rows = dict[str, dict[str, Any]]  # of a table: by row, by measure
Table = dict[str, dict[int, float]]  # of one measure: by row, by number of topics


def rows(figures: dict[str, Any]) -> Rows:
    """A cell's figures as they are compared.

    A rival is judged by its topic proportions and, in each measure of retrieval, by the similarity that suits it best.
    We are judged by document embeddings and the similarity that we recommend; beside it the paper's choice, the inner
    product of the model's own posterior, and our topic proportions judged as a rival's.
    """
    name, rankings, svm = figures["system"], figures["retrieval"], figures["svm"]
    common = {measure: figures[measure] for measure in ("perplexity", "npmi", "c_v", "diversity", "train_cpu_seconds")}
    by_theta = best_ranking([ranking for how, ranking in rankings.items() if how.startswith("theta")])
    by_theta["svm"] = svm["theta"]["accuracy"]
    if "embedding" not in svm:
        return {name: common | by_theta}
    papers = "posterior" if "posterior" in svm else "embedding"
    return {
        name: common | rankings["similarity inner"] | {"svm": svm["embedding"]["accuracy"]},
        f"{name}, paper's vectors": rankings[f"{papers} inner"] | {"svm": svm[papers]["accuracy"]},
        f"{name}, proportions": by_theta,
    }


def best_ranking(rankings: list[dict[str, Any]]) -> dict[str, Any]:
    best = max(rankings, key=lambda ranking: ranking["map"])
    return best | {"p_at_10": max(ranking["p_at_10"] for ranking in rankings)}


def tables(measured: list[dict[str, Any]]) -> dict[str, Table]:
    """Means over seeds."""
    found: dict[str, dict[str, dict[int, list[float]]]] = {measure: {} for measure in MEASURES}
    for figures in measured:
        for name, values in rows(figures).items():
            for measure in MEASURES.keys() & values.keys():
                found[measure].setdefault(name, {}).setdefault(figures["n_topics"], []).append(values[measure])
    return {
        measure: {name: {k: float(np.mean(v)) for k, v in sorted(row.items())} for name, row in table.items()}
        for measure, table in found.items()
    }


def ratios(table: Table, lower_is_better: bool) -> Table:
    """Every row over the best rival, where there is one."""
    best: dict[int, float] = {}
    for name in RIVALS.keys() & table.keys():
        for k, value in table[name].items():
            best[k] = (min if lower_is_better else max)(best.get(k, value), value)
    return {name: {k: value / best[k] for k, value in row.items() if k in best} for name, row in table.items()}


def race(measured: list[dict[str, Any]], ours: str, rival: str) -> dict[int, dict[str, float]]:
    """Seconds of computation until our test perplexity is the rival's last one, over the rival's whole training; means
    over the seeds that both have, by number of topics."""
    by_cell = {(figures["system"], figures["n_topics"], figures["seed"]): figures for figures in measured}
    found: dict[int, list[tuple[float, float]]] = {}
    for (system, n_topics, seed), theirs in by_cell.items():
        curve = by_cell.get((ours, n_topics, seed), {}).get("curve")
        if system == rival and curve is not None:
            reached = [seconds for _, seconds, perplexity in curve if perplexity <= theirs["perplexity"]]
            found.setdefault(n_topics, []).append((min(reached, default=np.inf), theirs["train_cpu_seconds"]))
    means = {k: np.mean(pairs, axis=0) for k, pairs in sorted(found.items())}
    return {k: {"ours": float(a), "rival": float(b), "ratio": float(a / b)} for k, (a, b) in means.items()}


def report(measured: list[dict[str, Any]]) -> None:
    for measure, table in tables(measured).items():
        lower_is_better = measure in LOWER_IS_BETTER
        over_best = ratios(table, lower_is_better)
        topics = sorted({k for row in table.values() for k in row})
        print(f"\n{MEASURES[measure]}; in brackets over the best rival, {'<' if lower_is_better else '>'} 1 is better")
        print(f"{'K':<30}" + "".join(f"{k:>17}" for k in topics))
        for name, row in table.items():
            pairs = ((row.get(k), over_best[name].get(k)) for k in topics)
            print(f"{name:<30}" + "".join(f"{shown(*pair):>17}" for pair in pairs))

    print("\nseconds of computation until tomotopy LDA's perplexity is reached; in brackets over its whole training")
    for k, times in race(measured, "asterism", "tomotopy-lda").items():
        print(f"K = {k:<26}{times['ours']:>10.0f} of {times['rival']:.0f} ({times['ratio']:.2f})")


def shown(value: float | None, ratio: float | None) -> str:
    if value is None:
        return "-"
    return (f"{value:.0f}" if value > 10 else f"{value:.3f}") + ("" if ratio is None else f" ({ratio:.3f})")


def plot(measured: list[dict[str, Any]]) -> None:
    """A panel a measure over the number of topics, and precision over recall at the largest number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = tables(measured)
    style = styles(list(dict.fromkeys(name for table in found.values() for name in table)))
    figure, axes = pyplot.subplots(2, 4, figsize=(15, 7), layout="constrained")
    for panel, measure in zip(axes.flat, PLOTTED, strict=False):
        panel.set_title(MEASURES[measure], fontsize=10)
        panel.set_xlabel("topics")
        for name, row in found[measure].items():
            panel.plot(list(row), list(row.values()), marker="o", markersize=3, **style[name])
    plot_curves(axes.flat[-1], measured, style)
    handles = [pyplot.Line2D([], [], label=name, **style[name]) for name in style]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "quality.png", dpi=100)


def plot_curves(panel: Any, measured: list[dict[str, Any]], style: Rows) -> None:
    largest = max(figures["n_topics"] for figures in measured)
    curves: dict[str, list[list[float]]] = {}
    for figures in measured:
        if figures["n_topics"] == largest:
            for name, values in rows(figures).items():
                curves.setdefault(name, []).append(values["precision_at_recall"])
    for name, of_seeds in curves.items():
        panel.plot(RECALL_LEVELS, np.mean(of_seeds, axis=0), **style[name])
    panel.set_title(f"precision over recall, {largest} topics", fontsize=10)
    panel.set_xlabel("recall")


def styles(names: list[str]) -> Rows:
    """A colour a system, a dash a way of looking at it."""
    systems = list(dict.fromkeys(name.split(",")[0] for name in names))
    dashes = {"paper's vectors": "--", "proportions": ":"}
    return {
        name: {"color": f"C{systems.index(name.split(',')[0])}", "linestyle": dashes.get(name.split(", ")[-1], "-")}
        for name in names
    }
