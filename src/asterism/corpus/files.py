"""Corpora from files: the name of a file decides how it is read."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asterism.corpus.streams import STANDARD_INPUT, numbered_lines
from asterism.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents in order, texts or counts (documents x vocabulary), with an id and maybe a label each."""

    documents: list[str] | csr_matrix
    vocabulary: list[str] | None  # the columns of the counts; None for texts
    ids: list[str]
    labels: list[str] | None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class _Options:
    text_field: str
    vocabulary: str | os.PathLike[str] | None


def open_corpus(
    source: str | os.PathLike[str],
    *,
    text_field: str = "text",
    vocabulary: str | os.PathLike[str] | None = None,
) -> Corpus:
    """Read a corpus; each format may be compressed (`.gz` added to the name).

    `*.txt`            one document a line, an empty line is an empty document; "-" reads standard input so
    `*.jsonl`          one object a line with `text_field`, and optionally "id" and "label"
    `docword*.txt`     UCI bag of words; `vocab*.txt` is looked for beside it unless given as `vocabulary`,
                       and `labels*.txt` (a label a line) is read if it is there
    """
    options = _Options(text_field, vocabulary)
    if os.fspath(source) == STANDARD_INPUT:
        return _read_lines(Path(STANDARD_INPUT), options)
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    return _choose_reader(path)(path, options)


def _choose_reader(path: Path) -> Callable[[Path, _Options], Corpus]:
    name = path.name.lower().removesuffix(".gz")
    for pattern, reader in _READERS.items():
        if fnmatch.fnmatchcase(name, pattern):
            return reader
    raise InputError(
        f"{path}: unknown kind of file; supported are {', '.join(_READERS)}, each also with .gz, and - "
        "for standard input"
    )


def _refuse_vocabulary(path: Path, options: _Options) -> None:
    if options.vocabulary is not None:
        raise InputError(f"{path}: holds text, so no vocabulary can be given for it")


def _read_lines(path: Path, options: _Options) -> Corpus:
    _refuse_vocabulary(path, options)
    texts = [text for _, text in numbered_lines(path)]
    return Corpus(texts, None, _numbered_ids(len(texts)), None)


def _numbered_ids(n_documents: int) -> list[str]:
    return [str(number) for number in range(1, n_documents + 1)]


def _read_json_lines(path: Path, options: _Options) -> Corpus:
    _refuse_vocabulary(path, options)
    texts, ids, labels = [], [], []
    for number, record in _json_records(path):
        texts.append(_text_of(record, options.text_field, f"{path}, line {number}"))
        ids.append(str(_present(record.get("id"), number)))
        labels.append(str(_present(record.get("label"), "")))
    return Corpus(texts, None, ids, labels if any(labels) else None)


def _present(value: Any, default: object) -> Any:
    return default if value is None else value


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line; blank lines are allowed at the end only."""
    first_blank = None
    for number, line in numbered_lines(path):
        if not line.strip():
            first_blank = first_blank or number
            continue
        if first_blank is not None:
            raise InputError(f"{path}, line {first_blank}: is blank, a JSON object was expected")
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: is not JSON ({error})") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: is a JSON {type(record).__name__}, not an object")
        yield number, record


def _text_of(record: dict[str, Any], field: str, place: str) -> str:
    if field not in record:
        fields = ", ".join(map(repr, record)) or "none"
        raise InputError(f"{place}: has no field {field!r}; its fields are {fields}")
    text = record[field]
    if not isinstance(text, str):
        raise InputError(f"{place}: field {field!r} is of type {type(text).__name__}, not a string")
    return text


def _read_bag_of_words(path: Path, options: _Options) -> Corpus:
    from asterism.corpus import uci

    # Looked for first: reading the counts may take a minute.
    vocabulary = options.vocabulary or uci.find_vocabulary(path)
    counts = uci.read_counts(path)
    n_documents, n_words = counts.shape
    labels = uci.find_labels(path)
    return Corpus(
        counts,
        uci.read_vocabulary(vocabulary, n_words),
        _numbered_ids(n_documents),
        uci.read_labels(labels, n_documents) if labels else None,
    )


# The first pattern that fits the name, without .gz, decides.
_READERS: dict[str, Callable[[Path, _Options], Corpus]] = {
    "docword*.txt": _read_bag_of_words,
    "*.txt": _read_lines,
    "*.jsonl": _read_json_lines,
}
