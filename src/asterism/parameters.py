"""Checks of the estimator's settings, each with a message that says what is wrong and what is right."""

from __future__ import annotations

import inspect
import math
import numbers
import reprlib
from collections.abc import Hashable
from functools import cache
from typing import Any, cast

import numpy as np
from scipy import sparse

from .corpus.text import TextPipeline
from .engines.select import ENGINES
from .errors import InputError

INFERENCES = ("memoized", "svi")
LOCAL_SOLVERS = ("adagrad", "newton")
STARTS = ("lda", "random")
SAMPLERS = ("auto", "sparse", "alias")

AT_LEAST = {
    "n_topics": 2,
    "n_dims": 1,
    "n_threads": 1,
    "max_sweeps": 1,
    "evaluate_every": 1,
    "batch_size": 1,
    "topics_per_document": 1,
    "words_per_topic": 1,
    "topics_per_word": 1,
    "candidates": 1,
    "n_samples": 1,
    "max_local_steps": 1,
    "total_documents": 1,
    "warm_sweeps": 0,
    "draw_sweeps": 1,
}
POSITIVE = ("alpha", "rho", "tau", "beta", "local_rate")
NOT_NEGATIVE = ("tol", "local_tol", "step_exponent")
FLAGS = ("learn_alpha", "learn_tau", "learn_beta", "warm_start", "sparse", "verbose")
CHOICES = {
    "inference": INFERENCES,
    "engine": ENGINES,
    "local_solver": LOCAL_SOLVERS,
    "sampler": SAMPLERS,
    "non_integer": ("error", "round"),
}


def check_parameters(model: Any) -> None:
    """Raise InputError for the first setting of the model that makes no sense. None does where it is the default."""
    for name, least in AT_LEAST.items():
        _check(model, name, f"a whole number, at least {least}", lambda x, low=least: _is_whole(x) and x >= low)
    for name in POSITIVE:
        _check(model, name, "a positive number", lambda x: _is_number(x) and x > 0)
    for name in NOT_NEGATIVE:
        _check(model, name, "a number, 0 or more", lambda x: _is_number(x) and x >= 0)
    check_evidence(model)
    _check(model, "step_offset", "a number, 1 or more", lambda x: _is_number(x) and x >= 1)
    _check(model, "validation_fraction", "a number in [0, 1)", lambda x: _is_number(x) and 0 <= x < 1)
    for name in FLAGS:
        _check(model, name, "True or False", lambda x: isinstance(x, bool | np.bool_))
    for name, choices in CHOICES.items():
        must_be = " or ".join(map(repr, choices))
        _check(model, name, must_be, lambda x, known=choices: isinstance(x, str) and x in known)
    must_be = "'lda', 'random', weights of words [n_topics, n_words] or a fitted TopicEmbeddingModel"
    _check(model, "init", must_be, _is_start)
    _check(model, "random_state", "a whole number, a NumPy generator or None", _is_random_state)
    _check(model, "text_pipeline", "a TextPipeline or None", lambda x: isinstance(x, TextPipeline))
    _check(model, "vocabulary", "a list of words in the order of the columns", _is_list)


def given_weights(init: Any, n_topics: int, n_words: int) -> sparse.csr_matrix | None:
    """Weights of words in topics [k, v] that training is to begin with, checked; None where none are given."""
    if isinstance(init, str):
        return None
    if _is_model(init):
        if not hasattr(init, "state_"):
            raise InputError("init is a model that is not fitted (a clone has learned nothing): pass its topic_word_")
        init = init.state_.word_topic.T
    try:
        weights = sparse.csr_matrix(init if sparse.issparse(init) else np.atleast_2d(np.asarray(init)), dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"init is no matrix of numbers: {str(error).splitlines()[0]}") from error
    if weights.shape[0] != n_topics:
        raise InputError(f"init has {weights.shape[0]} topics but n_topics={n_topics}")
    if weights.shape[1] != n_words:
        raise InputError(f"init has weights of {weights.shape[1]} words but there are {n_words}")
    entries = weights.tocoo()
    if (is_bad := ~(np.isfinite(entries.data) & (entries.data >= 0))).any():
        topic, word, value = next(zip(entries.row[is_bad], entries.col[is_bad], entries.data[is_bad], strict=True))
        raise InputError(f"init[{topic}, {word}] = {value:g}: weights of words must be finite, 0 or more")
    return weights


def check_evidence(model: Any) -> None:
    """Raise InputError for an `evidence` that makes no sense; it can be set after `fit`."""
    _check(model, "evidence", "a number above 0 or 'all'", lambda x: x > 0 if _is_number(x) else _is_all(x))


def check_whole(name: str, value: Any, least: int | None = None) -> None:
    """Raise InputError for what is no whole number or too small a one."""
    if not _is_whole(value) or (least is not None and value < least):
        at_least = "" if least is None else f", at least {least}"
        raise InputError(f"{name}={value!r} must be a whole number{at_least}")


@cache
def _defaults(kind: Hashable) -> dict[str, Any]:
    """Of a model's settings."""
    return {name: parameter.default for name, parameter in inspect.signature(cast(type, kind)).parameters.items()}


def _check(model: Any, name: str, must_be: str, is_fine: Any) -> None:
    defaults = _defaults(cast(Hashable, type(model)))
    if name not in defaults:  # not a setting of this model
        return
    value = getattr(model, name)
    if value is None and defaults[name] is None:
        return
    if not is_fine(value):
        shown = reprlib.repr(value).replace("\n", " ")
        raise InputError(f"{name}={shown} must be {must_be}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_all(value: Any) -> bool:
    return isinstance(value, str) and value == "all"


def _is_random_state(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, np.random.RandomState | np.random.Generator)


def _is_start(value: Any) -> bool:
    return value in STARTS if isinstance(value, str) else sparse.issparse(value) or _is_model(value) or _is_list(value)


def _is_model(value: Any) -> bool:
    """By what it has: the estimator itself imports this module."""
    return hasattr(type(value), "topic_word_")


def _is_list(value: Any) -> bool:
    """A dict or set has no order of columns, and a string would be taken for its letters."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | dict)
