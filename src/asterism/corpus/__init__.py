"""Text, files and matrices in; counts and a vocabulary out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asterism.corpus.docstrings import load_docstrings
    from asterism.corpus.files import Corpus, open_corpus
    from asterism.corpus.text import TextPipeline

__all__ = ["Corpus", "TextPipeline", "load_docstrings", "open_corpus"]

# Loaded when first asked for: scikit-learn and SciPy take seconds, and `asterism --help` needs neither.
_HOME = {
    "Corpus": "asterism.corpus.files",
    "open_corpus": "asterism.corpus.files",
    "TextPipeline": "asterism.corpus.text",
    "load_docstrings": "asterism.corpus.docstrings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
