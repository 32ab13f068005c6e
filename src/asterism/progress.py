"""The progress bar: documents a second, the held-out score, time left. The one place that draws on a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .training import Progress, Report

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


def show(message: str, enabled: bool) -> None:
    """A line on standard error, where the bar will be."""
    if enabled:
        from rich.console import Console

        Console(stderr=True).print(message, highlight=False)


@contextmanager
def progress_bar(enabled: bool) -> Iterator[Report]:
    """A function that takes the training's progress; on standard error, gone without trace when disabled."""
    if not enabled:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(*_columns(), console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=None, sweep="starting", speed="", score="")
        began = time.perf_counter()

        def report(progress: Progress) -> None:
            nonlocal began
            if progress.sweep < 0:
                bar.update(task, sweep="warm start")
                began = time.perf_counter()  # its sweeps are faster, so they do not count
                return
            done = progress.sweep * progress.n_documents + progress.documents
            bar.update(
                task,
                completed=done,
                total=progress.max_sweeps * progress.n_documents,
                sweep=f"sweep {progress.sweep + 1}/{progress.max_sweeps}",
                speed=f"{done / (time.perf_counter() - began):,.0f} documents/s",
                score=describe_score(progress.heldout_score),
            )

        yield report
        bar.update(task, total=bar.tasks[0].completed)  # it may have settled before the last sweep


def describe_score(score: float | None) -> str:
    """A held-out score as people compare it."""
    return "" if score is None else f"held-out perplexity {math.exp(-score):,.0f}"


def _columns() -> list[ProgressColumn]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    fields = [TextColumn(f"{{task.fields[{name}]}}") for name in ("sweep", "speed", "score")]
    # All of it fits into 80 columns.
    # The time left is an upper bound: training ends earlier when the held-out score settles.
    return [BarColumn(bar_width=6), *fields, TimeRemainingColumn(compact=True), TextColumn("left")]
