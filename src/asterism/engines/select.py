"""The one place where an engine's name becomes an engine."""

from __future__ import annotations

import os

from ..errors import InputError
from ..model.dirichlet import DirichletSettings
from ..model.state import LocalSettings
from .base import Engine, TopicEngine

ENGINES = ("auto", "reference", "cpu")


def select_engine(name: str, settings: LocalSettings, n_threads: int | None = None) -> Engine:
    """The topic embedding model's engine of that name; "auto" is the fastest one that works here."""
    if _backend(name) == "reference":
        from .reference import ReferenceEngine

        return ReferenceEngine(settings)
    from .cpu import CpuEngine
    from .cpu_candidates import CpuCandidateEngine

    kind = CpuCandidateEngine if settings.candidates else CpuEngine
    return kind(settings, n_threads or available_cores())


def select_dirichlet_engine(name: str, settings: DirichletSettings, n_threads: int | None = None) -> TopicEngine:
    """LDA's engine of that name."""
    if _backend(name) == "reference":
        from .dirichlet import ReferenceDirichletEngine

        return ReferenceDirichletEngine(settings)
    from .cpu_dirichlet import CpuDirichletEngine

    return CpuDirichletEngine(settings, n_threads or available_cores())


def _backend(name: str) -> str:
    if name not in ENGINES:
        raise InputError(f"engine={name!r} is not known; choose one of {', '.join(ENGINES)}")
    return "cpu" if name == "auto" else name


def available_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
