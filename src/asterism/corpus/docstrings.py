"""A corpus of real text on every machine: the docstrings of Python and of what Asterism depends on.

The source files are parsed, never imported.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib.util
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from asterism.corpus.duplicates import without_near_duplicates
from asterism.corpus.files import Corpus
from asterism.errors import InputError

# Direct and indirect dependencies; what is not installed is skipped.
_DEPENDENCIES = (
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "llvmlite",
    "joblib",
    "narwhals",
    "threadpoolctl",
    "safetensors",
    "rich",
    "pygments",
    "markdown_it",
    "mdurl",
    "typer",
    "click",
    "shellingham",
    "typing_extensions",
    "stop_words",
)
_SKIPPED_MODULES = {"idlelib", "turtledemo", "lib2to3", "test", "antigravity", "this", "__phello__"}
# Tests are no prose, and copies of other packages would stand under a wrong label.
_SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "externals", "_vendor", "_external", "array_api_compat", "array_api_extra"}
)
_FEWEST_WORDS = 20

_ROLE = re.compile(r":[a-z:]+:`[~!]?([^`<]*)(?:<[^`]*>)?`")  # :func:`~numpy.sum`
_DIRECTIVE = re.compile(r"^\s*\.\. [\w:-]+::|%\(\w+\)s")  # .. versionadded:: 1.2, and templates: %(example)s
# A line with its underline: "Parameters", "Returns" and "Notes" would be in half of the documents.
_HEADING = re.compile(r"^[^\n]+\n[ \t]*([-=~^*])\1{2,}[ \t]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class _Docstring:
    id: str
    label: str
    text: str


def load_docstrings(packages: Sequence[str] | None = None) -> Corpus:
    """Docstrings of modules, classes and functions with at least 20 words; near-identical ones appear once.

    `packages` are top-level names; by default the standard library and Asterism's dependencies. An id is the
    qualified name ("numpy.linalg.norm"), a label the package and its first submodule ("numpy.linalg").
    Documents are sorted by id; what is in the corpus depends on the versions that are installed.
    """
    if isinstance(packages, str):
        raise InputError(f"packages must be a list of names, not the string {packages!r}")
    roots = _default_roots() if packages is None else [_root_of(name) for name in packages]
    found: dict[str, _Docstring] = {}
    with _garbage_collector_paused():
        for root in roots:
            for docstring in _docstrings_below(root):
                found.setdefault(docstring.id, docstring)
    ordered = sorted(found.values(), key=lambda docstring: docstring.id)
    kept = [ordered[i] for i in without_near_duplicates([_WORD.findall(d.text.lower()) for d in ordered])]
    return Corpus([d.text for d in kept], None, [d.id for d in kept], [d.label for d in kept])


@contextlib.contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """Syntax trees hold no cycles, and looking for some in millions of nodes takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _default_roots() -> list[Path]:
    names = sorted(sys.stdlib_module_names - _SKIPPED_MODULES)
    roots = [*map(_in_standard_library, names), *map(_installed, _DEPENDENCIES)]
    return [root for root in roots if root is not None]


def _root_of(package: str) -> Path:
    if not isinstance(package, str) or not package.isidentifier():
        raise InputError(f"{package!r} is not the name of a top-level package")
    root = _in_standard_library(package) or _installed(package)
    if root is None:
        raise InputError(f"no source files of a package {package!r} were found")
    return root


def _in_standard_library(name: str) -> Path | None:
    """The folder or file of a module of Python's own; None for compiled ones."""
    library = Path(sysconfig.get_path("stdlib"))
    candidates = (library / name, library / f"{name}.py") if name in sys.stdlib_module_names else ()
    return next((path for path in candidates if path.exists()), None)


def _installed(package: str) -> Path | None:
    """The folder or file of an installed package; looking up a top-level name does not import it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    path = Path(spec.origin or "")
    return path if path.suffix == ".py" and path.is_file() else None


def _docstrings_below(root: Path) -> Iterator[_Docstring]:
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    for file in files:
        module = file.relative_to(root.parent).with_suffix("").parts
        if _SKIPPED_FOLDERS.isdisjoint(module):
            tree = _parse(file)
            if tree is not None:
                yield from _docstrings_of(tree, module)


def _parse(file: Path) -> ast.Module | None:
    """The syntax tree, or None for a file without long strings or one this Python cannot read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's invalid escape sequences
        try:
            source = file.read_bytes()
            return ast.parse(source) if b'"""' in source or b"'''" in source else None
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            return None


def _docstrings_of(tree: ast.Module, module: tuple[str, ...]) -> Iterator[_Docstring]:
    label = _label(module)
    for names, node in _documented(tree, ()):
        docstring = ast.get_docstring(node) or ""
        # Cleaning is the slow part: most docstrings are known to be too short before it.
        text = _clean(docstring) if len(docstring) > 2 * _FEWEST_WORDS else ""
        if len(_WORD.findall(text)) >= _FEWEST_WORDS:
            yield _Docstring(".".join((*_public_parts(module), *names)), label, text)


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Documented]]:
    """The node and everything defined in it, also under `if` and `try`, with the names that lead there."""
    if isinstance(node, _Documented):
        yield names, node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _documented(child, (*names, child.name))
        elif isinstance(child, (ast.If, ast.Try, ast.ExceptHandler)):
            yield from _documented(child, names)


def _label(module: tuple[str, ...]) -> str:
    """Package and first submodule: numpy.core for numpy/_core/fromnumeric.py."""
    parts = [part.strip("_") for part in module[:2] if part != "__init__"]
    return ".".join(parts)


def _public_parts(module: tuple[str, ...]) -> list[str]:
    """Where users find it: a private file shows its names in its package (numpy/linalg/_linalg.py)."""
    *folders, file = module
    shown = [folder.strip("_") for folder in folders]
    return shown if folders and file.startswith("_") else [*shown, file.strip("_")]


def _clean(docstring: str) -> str:
    """Prose only: without doctests and their output, section headings and reStructuredText markup."""
    lines: list[str] = []
    in_example = False
    for line in docstring.splitlines():
        # The output of an example ends at a blank line.
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if not in_example:
            lines.append(_DIRECTIVE.sub("", line))
    return _ROLE.sub(r"\1", _HEADING.sub("", "\n".join(lines))).strip()
