"""Document vectors out: a file for people and programs, complete or not at all."""

from __future__ import annotations

import csv
import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

SUFFIXES = (".npy", ".csv", ".jsonl")


def check_vector_file(path: Path) -> None:
    """Refuse before the work what could not be written after it."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: vectors are written as {', '.join(SUFFIXES)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be written: {path.parent}: {error.strerror}") from error


def write_vectors(path: Path, ids: Sequence[str], vectors: NDArray[Any]) -> None:
    """Write vectors [d, m] in the form that the suffix says; .csv and .jsonl carry the documents' ids."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # not by tempfile: its files are private
    try:
        with _opened(unfinished, path.suffix) as file:
            _write(file, path.suffix, ids, vectors)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:  # a full disk does not say for what
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:  # Ctrl-C too
        unfinished.unlink(missing_ok=True)


def _opened(path: Path, suffix: str) -> IO[Any]:
    return path.open("wb") if suffix == ".npy" else path.open("w", encoding="utf-8", newline="")


def _write(file: IO[Any], suffix: str, ids: Sequence[str], vectors: NDArray[Any]) -> None:
    if suffix == ".npy":
        np.save(file, vectors)
        return
    rows = zip(ids, vectors.tolist(), strict=True)
    if suffix == ".jsonl":
        file.writelines(json.dumps({"id": name, "embedding": row}) + "\n" for name, row in rows)
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["id", *(f"dim_{m}" for m in range(vectors.shape[1]))])
    writer.writerows([name, *row] for name, row in rows)
