"""What every benchmark shares: corpora, repeated timing, the machine's description, and the JSON file."""

from __future__ import annotations

import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DATA = Path(os.environ.get("ASTERISM_DATA", ROOT.parent / "shared" / "data"))
PACKAGES = ("asterism", "numpy", "scipy", "scikit-learn", "numba")


def newsgroups(part: str) -> tuple[list[str], list[str]]:
    """Texts and labels of 20Newsgroups by date ("train" or "test"), headers, footers and quotes removed."""
    from sklearn.datasets._twenty_newsgroups import (
        strip_newsgroup_footer,
        strip_newsgroup_header,
        strip_newsgroup_quoting,
    )

    with gzip.open(DATA / "20newsgroups" / f"{part}.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    texts = [
        strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(record["text"]))) for record in records
    ]
    return texts, [record["label"] for record in records]


def seconds(work: Callable[[], Any]) -> float:
    """Wall-clock time of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Times of each contestant, run one after the other `repeats` times, so that noise falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, work in contestants.items():
            times[name].append(seconds(work))
    return times


def run_python(program: str, *arguments: str, **environment: str) -> str:
    """Output of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def write(name: str, figures: dict[str, Any]) -> Path:
    """benchmarks/results/NAME.json, with where and when it was measured."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **figures}, indent=1) + "\n")
    print(f"written to {path.relative_to(ROOT)}")
    return path


def environment() -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
