"""The one place where an engine's name becomes an engine."""

from __future__ import annotations

import importlib.util
import os

from ..errors import InputError
from ..model.dirichlet import DirichletSettings
from ..model.state import LocalSettings
from .base import Engine, TopicEngine

ENGINES = ("auto", "reference", "cpu", "gpu")
# The device of the GPU engine, as torch calls it: "cuda:1", or "cpu" to try it without a GPU.
DEVICE_VARIABLE = "ASTERISM_GPU"


def select_engine(name: str, settings: LocalSettings, n_threads: int | None = None) -> Engine:
    """The topic embedding model's engine of that name; "auto" is the fastest one that works here."""
    if _backend(name) == "reference":
        from .reference import ReferenceEngine

        return ReferenceEngine(settings)
    if name == "gpu" or (name == "auto" and has_gpu()):
        device = gpu_device()
        from .gpu import GpuEngine

        return GpuEngine(settings, device)
    from .cpu import CpuEngine
    from .cpu_candidates import CpuCandidateEngine

    kind = CpuCandidateEngine if settings.candidates else CpuEngine
    return kind(settings, n_threads or available_cores())


def select_dirichlet_engine(name: str, settings: DirichletSettings, n_threads: int | None = None) -> TopicEngine:
    """LDA's engine of that name."""
    if name == "gpu":
        raise InputError("engine='gpu' is not made for LDA; choose one of auto, cpu, reference")
    if _backend(name) == "reference":
        from .dirichlet import ReferenceDirichletEngine

        return ReferenceDirichletEngine(settings)
    from .cpu_dirichlet import CpuDirichletEngine

    return CpuDirichletEngine(settings, n_threads or available_cores())


def _backend(name: str) -> str:
    if name not in ENGINES:
        raise InputError(f"engine={name!r} is not known; choose one of {', '.join(ENGINES)}")
    return "cpu" if name == "auto" else name


def has_gpu() -> bool:
    """Whether torch is installed and sees a GPU of CUDA's."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def gpu_device() -> str:
    """The device of the GPU engine; an error in one line where there is none."""
    if importlib.util.find_spec("torch") is None:
        raise InputError("engine='gpu' needs PyTorch, which is not installed: pip install 'asterism[gpu]'")
    device = os.environ.get(DEVICE_VARIABLE, "cuda")
    if device.startswith("cuda") and not has_gpu():
        raise InputError("engine='gpu' found no GPU: torch.cuda.is_available() is False; engine='cpu' needs none")
    return device


def available_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
