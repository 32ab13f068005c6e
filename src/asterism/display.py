"""What the command line prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from .planning import Plan, duration, gigabytes

if TYPE_CHECKING:
    from .demo import Demonstration
    from .estimator import TopicEmbeddingModel

SHOWN_TOPICS = 15


def show_topics(model: TopicEmbeddingModel, n_words: int, limit: int | None, as_json: bool) -> None:
    """Topics by share of tokens, largest first."""
    order = np.argsort(-model.topic_shares_, kind="stable")[:limit]
    if as_json:
        _print_json([_topic_record(model, int(k), n_words) for k in order])
        return
    n_topics = len(model.topic_shares_)
    title = f"{n_topics} topics" if len(order) == n_topics else f"the {len(order)} largest of {n_topics} topics"
    table = Table("topic", "tokens", "top words", title=title)
    for k in order:
        table.add_row(str(k), f"{model.topic_shares_[k]:.2%}", _words(model, int(k), n_words))
    Console().print(table)


def show_correlated(model: TopicEmbeddingModel, topic: int, n: int, as_json: bool) -> None:
    """The topics most correlated with one."""
    found = model.correlated(topic, n)
    if as_json:
        records = [{**_topic_record(model, k, 10), "correlation": value} for k, value in found]
        _print_json({"topic": topic, "correlated": records})
        return
    table = Table("topic", "correlation", "top words", title=f"topic {topic}: {_words(model, topic, 6)}")
    for k, value in found:
        table.add_row(str(k), f"{value:+.2f}", _words(model, k, 8))
    Console().print(table)


def show_fit(model: TopicEmbeddingModel, folder: Path, as_json: bool) -> None:
    """How training ended and where the model is."""
    if as_json:
        _print_json({**_description(model), "folder": str(folder)})
        return
    end = "settled after" if model.converged_ else "stopped at the limit of"
    score = _best_score(model)
    heldout = "" if score is None else f", held-out perplexity {math.exp(-score):,.0f}"
    typer.echo(f"{end} {model.n_sweeps_} sweeps{heldout}")
    typer.echo(f"model saved to {folder}; to see its topics: asterism topics {folder}")


def show_score(score: float, n_documents: int, as_json: bool) -> None:
    """Document-completion perplexity."""
    perplexity = math.exp(-score)
    if as_json:
        _print_json({"documents": n_documents, "log_likelihood_per_token": score, "perplexity": perplexity})
        return
    typer.echo(f"perplexity {perplexity:,.1f} (document completion, {n_documents:,} documents)")
    typer.echo(f"log-likelihood per token {score:.4f}")


def show_info(model: TopicEmbeddingModel, as_json: bool) -> None:
    """Sizes, settings and training."""
    description = _description(model)
    if as_json:
        _print_json(description)
        return
    table = Table(show_header=False)
    for name, value in description.items():
        table.add_row(name.replace("_", " "), _shown(value))
    Console().print(table)


def show_plan(plan: Plan, as_json: bool) -> None:
    """What a fit would need."""
    if as_json:
        _print_json(asdict(plan) | {"peak": plan.peak, "fits": plan.fits})
        return
    size = plan.size
    typer.echo(f"{size.documents:,} documents, {size.words:,} words, {size.tokens:,} tokens; {size.topics:,} topics")
    table = Table("phase", "memory", "a sweep")
    for phase, n_bytes in plan.memory.items():
        table.add_row(phase, gigabytes(n_bytes), duration(plan.seconds[phase]) if phase in plan.seconds else "")
    Console().print(table)
    verdict = "it fits" if plan.fits else "it does not fit"
    free = "" if plan.available is None else f", {gigabytes(plan.available)} are free: {verdict}"
    typer.echo(f"needs about {gigabytes(plan.peak)}{free}")


def show_demo(demonstration: Demonstration) -> None:
    """Everything the demonstration found."""
    model, folder = demonstration.model, demonstration.folder
    typer.echo(
        f"\n{demonstration.n_documents:,} docstrings of Python and its scientific libraries, "
        f"{len(model.vocabulary_):,} words\n"
    )
    show_topics(model, 8, SHOWN_TOPICS, as_json=False)
    for topic in np.argsort(-model.topic_shares_, kind="stable")[:3]:
        show_correlated(model, int(topic), 4, as_json=False)
    typer.echo(
        f"held-out perplexity {demonstration.perplexity:,.0f}: document completion, "
        f"{demonstration.n_test:,} documents not trained on\n"
        f"model saved to {folder}; now try\n"
        f"  asterism topics {folder}\n"
        f"  asterism correlated {folder} 0"
    )


def _description(model: TopicEmbeddingModel) -> dict[str, Any]:
    score = _best_score(model)
    parameters = {
        k: v for k, v in model.get_params(deep=False).items() if k not in ("vocabulary", "text_pipeline", "verbose")
    }
    return {
        "topics": model.state_.n_topics,
        "dimensions": model.state_.n_dims,
        "words": model.state_.n_words,
        "input": "counts" if model.text_pipeline_ is None else model.text_pipeline_.input_,
        "sweeps": model.n_sweeps_,
        "converged": model.converged_,
        "heldout_perplexity": None if score is None else math.exp(-score),
        "training_seconds": model.history_[-1]["seconds"] if model.history_ else None,
        "priors": vars(model.state_.priors),
        "parameters": parameters,
    }


def _best_score(model: TopicEmbeddingModel) -> float | None:
    """Of the state that training returned."""
    return max((score for record in model.history_ if (score := record["heldout_score"]) is not None), default=None)


def _topic_record(model: TopicEmbeddingModel, topic: int, n_words: int) -> dict[str, Any]:
    words = [{"word": word, "probability": p} for word, p in model.top_words(topic, n_words)]
    return {"topic": topic, "token_share": float(model.topic_shares_[topic]), "words": words}


def _words(model: TopicEmbeddingModel, topic: int, n: int) -> str:
    return " ".join(word for word, _ in model.top_words(topic, n))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items())
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1))
