"""Save and load: a folder of one JSON file and one safetensors file; no pickle, nothing that can run.

model.json           format version, settings, priors, vocabulary, text pipeline, history, checksum of the arrays
topics.safetensors   the state's arrays: word_topic.{indptr,indices,data} or word_topic, embedding, ...

A folder is written beside its place and moved there when complete, so a reader never sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from . import __version__
from .corpus.text import TextPipeline
from .errors import InputError, ModelFileError
from .inference.svi import Seen
from .parameters import check_parameters
from .training import SweepRecord

FORMAT_VERSION = 1
# What the models of the first files were, which do not say it.
FIRST_KIND = "TopicEmbeddingModel"
JSON_FILE, ARRAYS_FILE = "model.json", "topics.safetensors"
# Of any state: what an array is made of, and its axes: v words, k topics, m dimensions.
DTYPES = {
    "embedding": np.float64,
    "embedding_cov": np.float64,
    "document_cov": np.float64,
    "mean": np.float64,
    "word_topic": np.float32,  # where it is dense
    "word_topic.indptr": np.int64,
    "word_topic.indices": np.int32,
    "word_topic.data": np.float64,
}
AXES = {"embedding": "km", "embedding_cov": "mm", "document_cov": "mm", "mean": "k", "word_topic": "vk"}
PARTS = "indptr", "indices", "data"
Arrays = dict[str, NDArray[Any]]
Model = TypeVar("Model", bound=BaseEstimator)


def save_model(model: Any, folder: str | os.PathLike[str]) -> Path:
    """Write a fitted model; an older model in the folder is replaced when everything is written."""
    from safetensors.numpy import save

    target = check_target(folder)
    arrays = save(_arrays_of(model.state_))
    description = {**_describe(model), "sha256": hashlib.sha256(arrays).hexdigest()}
    text = json.dumps(description, indent=1, default=_plain, allow_nan=False)
    try:
        with _complete_folder(target.resolve()) as unfinished:
            _write(unfinished / ARRAYS_FILE, arrays)
            _write(unfinished / JSON_FILE, text.encode())
    except OSError as error:  # a full disk does not say for what
        raise OSError(error.errno, error.strerror, str(target)) from error
    return target


def load_model(model_class: type[Model], folder: str | os.PathLike[str]) -> Model:
    """Read a model folder; anything wrong with it is a ModelFileError that says what."""
    path = Path(folder)
    description = _read_description(path)
    if (kind := description.get("kind", FIRST_KIND)) != model_class._kind:
        raise ModelFileError(f"{path} holds a model of kind {kind!r}, not {model_class._kind!r}")
    arrays = _read_arrays(path, description)
    try:
        state = _state_from(arrays, description, model_class._state_class)
        model: Model = model_class(**_parameters_from(description))
        _restore(model, description, state)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path / JSON_FILE} is damaged: {_reason(error)}") from error
    return model


def check_target(folder: str | os.PathLike[str]) -> Path:
    """The folder's path, if a model can be written there without destroying something else."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; a model is saved as a folder")
    if target.is_dir():
        _check_replaceable(target)
    _check_writable(target)
    return target


def _check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything in it that is not a model's."""
    if folder.samefile(os.curdir):
        raise InputError(f"{folder} is the current folder; a model needs one of its own")
    names = {path.name for path in folder.iterdir()}
    if names and not _is_description(folder / JSON_FILE):
        raise InputError(f"{folder} is not empty and holds no model; choose another folder")
    if others := names - {JSON_FILE, ARRAYS_FILE}:
        raise InputError(f"{folder} holds more than a model, {min(others)} would be lost; choose another folder")


def _is_description(path: Path) -> bool:
    """Whether a file begins as model.json does; a truncated one may be replaced as well."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"asterism model"' in file.read(100)


def _check_writable(target: Path) -> None:
    """Refuse before the work what would fail after it, and leave nothing behind."""
    parent = next(path for path in target.resolve().parents if path.exists())
    if not parent.is_dir():
        raise InputError(f"{target} cannot be made: {parent} is a file")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=parent):
            pass
    except OSError as error:
        raise InputError(f"{target} cannot be made in {parent}: {error.strerror}") from error


# --- writing --------------------------------------------------------------------------------------------------


def _arrays_of(state: Any) -> Arrays:
    arrays: Arrays = {}
    for name in _array_names(type(state)):
        value = getattr(state, name)
        if sparse.issparse(value):
            arrays |= {f"{name}.{part}": getattr(value, part) for part in PARTS}
        else:
            arrays[name] = value
    return {name: np.ascontiguousarray(array, DTYPES[name]) for name, array in arrays.items()}


def _array_names(state_class: type) -> list[str]:
    return [field.name for field in fields(state_class) if field.name != "priors"]


def _describe(model: Any) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = model._seed
    if not isinstance(parameters.get("init", ""), str):
        parameters["init"] = "lda"  # topics to begin with have done their service
    if parameters["text_pipeline"] is not None:
        parameters["text_pipeline"] = parameters["text_pipeline"].get_params(deep=False)
    if parameters["vocabulary"] is not None:
        parameters["vocabulary"] = [str(word) for word in parameters["vocabulary"]]
    pipeline = model.text_pipeline_
    return {
        "format": "asterism model",
        "format_version": FORMAT_VERSION,
        "asterism_version": __version__,
        "kind": model._kind,
        "n_topics": model.state_.n_topics,
        "parameters": parameters,
        "priors": vars(model.state_.priors),
        "vocabulary": list(model.vocabulary_),
        "feature_names": list(getattr(model, "feature_names_in_", [])),
        "text_pipeline": None if pipeline is None else pipeline.to_dict(),
        "history": model.history_,
        "n_sweeps": model.n_sweeps_,
        "converged": model.converged_,
        "seed": model._seed,
        "seen": model._seen._asdict(),
    }


def _plain(value: Any) -> Any:
    """What JSON does not know, as what it knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | set | frozenset | tuple):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise InputError(f"a setting of type {type(value).__name__} cannot be saved: {value!r}")


@contextmanager
def _complete_folder(target: Path) -> Iterator[Path]:
    """A new folder that takes the target's place if the block succeeds, and vanishes if it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        unfinished.mkdir()  # not by tempfile, whose folders are private
        yield unfinished
        _take_place(unfinished, target)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _take_place(unfinished: Path, target: Path) -> None:
    """Move the folder to the target; what is there goes when that has worked, and comes back when not."""
    replaced = unfinished.with_name(unfinished.name + ".replaced")
    try:
        if target.exists():
            target.rename(replaced)
        unfinished.rename(target)
    finally:
        if replaced.exists() and not target.exists():
            replaced.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# --- reading --------------------------------------------------------------------------------------------------


def _read_description(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is not a model folder" if folder.exists() else f"{folder} does not exist")
    path = folder / JSON_FILE
    content = _content(path)
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: {_reason(error)}") from error
    if not isinstance(description, dict) or description.get("format") != "asterism model":
        raise ModelFileError(f"{path} does not describe an asterism model")
    version = description.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
        raise ModelFileError(
            f"{folder} has format version {version!r}; asterism {__version__} reads 1 to {FORMAT_VERSION}"
        )
    return description


def _read_arrays(folder: Path, description: dict[str, Any]) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / ARRAYS_FILE
    content = _content(path)
    if hashlib.sha256(content).hexdigest() != description.get("sha256"):
        raise ModelFileError(f"{path} is damaged or truncated: its checksum differs from {JSON_FILE}")
    try:
        arrays: Arrays = load(content)
    except SafetensorError as error:
        raise ModelFileError(f"{path} is damaged: {_reason(error)}") from error
    return arrays


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path.parent} holds no complete model: {path.name} is missing") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error


def _state_from(arrays: Arrays, description: dict[str, Any], state_class: type) -> Any:
    n_words = len(_words(description, "vocabulary"))
    n_topics = _whole(description, "n_topics") if "n_topics" in description else len(arrays["embedding"])
    parts = {}
    for name in _array_names(state_class):
        if name in arrays:
            parts[name] = _checked(arrays, name)
        else:
            parts[name] = _matrix_from(arrays, name, (n_words, n_topics))
    _check_shapes(parts, {"v": n_words, "k": n_topics})
    if parts["word_topic"].min() < 0:
        raise ValueError("word_topic holds a negative number")
    return state_class(**parts, priors=_priors_from(description, get_type_hints(state_class)["priors"]))


def _matrix_from(arrays: Arrays, name: str, shape: tuple[int, int]) -> sparse.csr_matrix:
    indptr, indices, data = (_checked(arrays, f"{name}.{part}") for part in PARTS)
    matrix = sparse.csr_matrix((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _checked(arrays: Arrays, name: str) -> NDArray[Any]:
    if arrays[name].dtype != DTYPES[name]:
        raise ValueError(f"{name} holds {arrays[name].dtype}, not {np.dtype(DTYPES[name])}")
    if not np.isfinite(arrays[name]).all():
        raise ValueError(f"{name} holds a number that is not finite")
    return arrays[name]


def _check_shapes(parts: dict[str, Any], sizes: dict[str, int]) -> None:
    """That arrays are as large as the model is; the first one with an axis that is not known yet says its size."""
    for name, array in parts.items():
        axes = AXES[name]
        if array.ndim == len(axes):
            sizes = dict(zip(axes, array.shape, strict=True)) | sizes
        if array.shape != tuple(sizes.get(axis) for axis in axes):
            raise ValueError(f"{name} is of shape {array.shape}")


def _priors_from(description: dict[str, Any], priors_class: type) -> Any:
    priors = {name: float(value) for name, value in description["priors"].items()}
    if not all(0 < value < np.inf for value in priors.values()):
        raise ValueError("a prior is not a positive number")
    return priors_class(**priors)


def _words(description: dict[str, Any], name: str) -> list[str]:
    words = description[name]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name} is not a list of words")
    return words


def _parameters_from(description: dict[str, Any]) -> dict[str, Any]:
    parameters = dict(description["parameters"])
    if parameters["text_pipeline"] is not None:
        parameters["text_pipeline"] = TextPipeline(**parameters["text_pipeline"])
    return parameters


def _restore(model: Any, description: dict[str, Any], state: Any) -> None:
    check_parameters(model)
    model.state_ = state
    model.vocabulary_ = np.array(description["vocabulary"], dtype=object)
    model.n_features_in_ = state.n_words
    if names := _words(description, "feature_names"):
        model.feature_names_in_ = np.array(names, dtype=object)
    model.text_pipeline_ = _pipeline_from(description["text_pipeline"])
    terms = names or (model.text_pipeline_.terms_ if model.text_pipeline_ else model.vocabulary_)
    if len(terms) != state.n_words:
        raise ValueError(f"{len(terms)} columns are named for {state.n_words} words")
    model.history_ = [_record_from(record) for record in description["history"]]
    model.n_sweeps_, model.converged_ = _whole(description, "n_sweeps"), bool(description["converged"])
    model._seed = _whole(description, "seed")
    model._seen = Seen(*(_whole(description["seen"], name) for name in Seen._fields))
    model._serving = {}


def _pipeline_from(stored: Any) -> TextPipeline | None:
    return None if stored is None else TextPipeline.from_dict(stored)


def _record_from(stored: dict[str, Any]) -> dict[str, Any]:
    if not all(value is None or isinstance(value, int | float) for value in stored.values()):
        raise ValueError("the history holds something that is not a number")
    return asdict(SweepRecord(**stored))


def _whole(stored: dict[str, Any], name: str) -> int:
    value = stored[name]
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{name} is {value!r}, not a whole number")
    return value


def _reason(error: Exception) -> str:
    missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return missing.splitlines()[0] if missing else type(error).__name__
