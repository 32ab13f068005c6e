"""Asterism: correlated topics in large text collections; topics and documents are vectors in one space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .corpus import Corpus, TextPipeline, load_docstrings, open_corpus
    from .errors import AsterismError, InputError, ModelFileError
    from .estimator import TopicEmbeddingModel
    from .model.generative import sample_corpus

# Names are imported when first used: `import asterism` and `asterism --help` answer at once.
_HOMES = {
    "TopicEmbeddingModel": "estimator",
    "TextPipeline": "corpus",
    "Corpus": "corpus",
    "open_corpus": "corpus",
    "load_docstrings": "corpus",
    "sample_corpus": "model.generative",
    "AsterismError": "errors",
    "InputError": "errors",
    "ModelFileError": "errors",
}

__all__ = [
    "AsterismError",
    "Corpus",
    "InputError",
    "ModelFileError",
    "TextPipeline",
    "TopicEmbeddingModel",
    "load_docstrings",
    "open_corpus",
    "sample_corpus",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
