"""The one place where an engine's name becomes an engine."""

from __future__ import annotations

import os

from ..errors import InputError
from ..model.state import LocalSettings
from .base import Engine

ENGINES = ("auto", "reference", "cpu")


def select_engine(name: str, settings: LocalSettings, n_threads: int | None = None) -> Engine:
    """The engine of that name; "auto" is the fastest one that works here."""
    if name == "reference":
        from .reference import ReferenceEngine

        return ReferenceEngine(settings)
    if name in ("auto", "cpu"):
        from .cpu import CpuEngine
        from .cpu_candidates import CpuCandidateEngine

        kind = CpuCandidateEngine if settings.candidates else CpuEngine
        return kind(settings, n_threads or available_cores())
    raise InputError(f"engine={name!r} is not known; choose one of {', '.join(ENGINES)}")


def available_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
