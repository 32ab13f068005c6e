"""Save and load: a folder of one JSON file and one safetensors file; no pickle, nothing that can run.

model.json           format version, settings, priors, vocabulary, text pipeline, history, checksum of the arrays
topics.safetensors   embedding, embedding_cov, document_cov, word_topic.{indptr,indices,data}

A folder is written beside its place and moved there when complete, so a reader never sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import __version__
from .corpus.text import TextPipeline
from .errors import InputError, ModelFileError
from .model.state import Priors, Topics
from .training import Seen

FORMAT_VERSION = 1
JSON_FILE, ARRAYS_FILE = "model.json", "topics.safetensors"
Arrays = dict[str, NDArray[Any]]
Model = TypeVar("Model")


def save_model(model: Any, folder: str | os.PathLike[str]) -> Path:
    """Write a fitted model; an older model in the folder is replaced when everything is written."""
    from safetensors.numpy import save

    target = check_target(folder)
    arrays = save(_arrays_of(model.state_))
    description = {**_describe(model), "sha256": hashlib.sha256(arrays).hexdigest()}
    text = json.dumps(description, indent=1, default=_plain, allow_nan=False)
    with _complete_folder(target) as unfinished:
        _write(unfinished / ARRAYS_FILE, arrays)
        _write(unfinished / JSON_FILE, text.encode())
    return target


def load_model(model_class: Callable[..., Model], folder: str | os.PathLike[str]) -> Model:
    """Read a model folder; anything wrong with it is a ModelFileError that says what."""
    path = Path(folder)
    description = _read_description(path)
    arrays = _read_arrays(path, description)
    try:
        state = _state_from(arrays, description)
        model = model_class(**_parameters_from(description))
        _restore(model, description, state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path / JSON_FILE} is damaged: {_reason(error)}") from error
    return model


def check_target(folder: str | os.PathLike[str]) -> Path:
    """The folder's path, if a model can be written there without destroying something else."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; a model is saved as a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / JSON_FILE).exists():
        raise InputError(f"{target} is not empty and holds no model; choose another folder")
    return target


# --- writing --------------------------------------------------------------------------------------------------


def _arrays_of(state: Topics) -> Arrays:
    word_topic = state.word_topic
    return {
        "embedding": np.ascontiguousarray(state.embedding),
        "embedding_cov": np.ascontiguousarray(state.embedding_cov),
        "document_cov": np.ascontiguousarray(state.document_cov),
        "word_topic.indptr": word_topic.indptr.astype(np.int64),
        "word_topic.indices": word_topic.indices.astype(np.int32),
        "word_topic.data": word_topic.data,
    }


def _describe(model: Any) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = model._seed
    if parameters["text_pipeline"] is not None:
        parameters["text_pipeline"] = parameters["text_pipeline"].get_params(deep=False)
    pipeline = model.text_pipeline_
    return {
        "format": "asterism model",
        "format_version": FORMAT_VERSION,
        "asterism_version": __version__,
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
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield unfinished
        unfinished.chmod(0o777 & ~_umask())  # mkdtemp's folders are private
        replaced = None
        if target.exists():
            replaced = unfinished.with_name(unfinished.name + ".replaced")
            target.rename(replaced)
        unfinished.rename(target)
        if replaced is not None:
            shutil.rmtree(replaced)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    try:
        description = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelFileError(f"{folder} holds no model: {JSON_FILE} is missing") from None
    except ValueError as error:
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
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{folder} is incomplete: {ARRAYS_FILE} is missing") from None
    if hashlib.sha256(content).hexdigest() != description.get("sha256"):
        raise ModelFileError(f"{path} is damaged or truncated: its checksum differs from {JSON_FILE}")
    try:
        arrays: Arrays = load(content)
    except SafetensorError as error:
        raise ModelFileError(f"{path} is damaged: {_reason(error)}") from error
    return arrays


def _state_from(arrays: Arrays, description: dict[str, Any]) -> Topics:
    n_topics, n_dims = arrays["embedding"].shape
    n_words = len(description["vocabulary"])
    for name in ("embedding_cov", "document_cov"):
        if arrays[name].shape != (n_dims, n_dims):
            raise ValueError(f"{name} is not {n_dims} x {n_dims}")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("an array holds numbers that are not finite")
    parts = [arrays[f"word_topic.{part}"] for part in ("data", "indices", "indptr")]
    word_topic = sparse.csr_matrix(tuple(parts), shape=(n_words, n_topics))
    word_topic.check_format(full_check=True)
    priors = Priors(**{name: float(value) for name, value in description["priors"].items()})
    return Topics(arrays["embedding"], arrays["embedding_cov"], arrays["document_cov"], word_topic, priors)


def _parameters_from(description: dict[str, Any]) -> dict[str, Any]:
    parameters = dict(description["parameters"])
    if parameters["text_pipeline"] is not None:
        parameters["text_pipeline"] = TextPipeline(**parameters["text_pipeline"])
    return parameters


def _restore(model: Any, description: dict[str, Any], state: Topics) -> None:
    pipeline = description["text_pipeline"]
    model.state_ = state
    model.text_pipeline_ = None if pipeline is None else TextPipeline.from_dict(pipeline)
    model.vocabulary_ = np.array(description["vocabulary"], dtype=object)
    model.n_features_in_ = len(model.vocabulary_)
    if description["feature_names"]:
        model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    model.history_ = list(description["history"])
    model.n_sweeps_, model.converged_ = int(description["n_sweeps"]), bool(description["converged"])
    model._seed = int(description["seed"])
    model._seen = Seen(**{name: int(value) for name, value in description["seen"].items()})
    model._serving = {}


def _reason(error: Exception) -> str:
    missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return missing.splitlines()[0] if missing else type(error).__name__
