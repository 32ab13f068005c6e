"""load_docstrings: what is read, how it is named and cleaned, and that nothing is imported."""

import gc
import os
import subprocess
import sys
from collections import Counter

import pytest

from asterism.corpus import load_docstrings
from asterism.corpus.duplicates import without_near_duplicates
from asterism.errors import InputError

PROSE = (
    "Planets move around their star on orbits that are nearly circles, and the time they need for one turn "
    "grows with the distance from the star, as every astronomer has known since Kepler wrote it down."
)
OTHER = (
    "Bread needs flour, water, salt and yeast; the baker kneads the dough, lets it rise in a warm kitchen "
    "for an hour or two, and puts it into a hot oven until the crust is brown and crisp."
)
THIRD = (
    "A sailing boat cannot go straight against the wind, so its crew steers a course of zigzags, turning the "
    "bow through the wind each time and trimming both sails again before the next long leg begins."
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make an importable package of the given files; importing it would fail."""
    counter = iter(range(100))

    def make(files):
        name = f"asterism_fake_{next(counter)}"
        for path, source in {"__init__.py": "raise RuntimeError('imported')", **files}.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(source if isinstance(source, bytes) else source.encode())
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    return make


def function(name, docstring):
    return f'def {name}():\n    r"""{docstring}"""\n'


def test_modules_classes_functions_and_methods_are_found_without_importing(package):
    source = (
        f'"""{PROSE}"""\nif True:\n    class Oven:\n        """{OTHER}"""\n'
        f'        async def sail(self):\n            """{THIRD}"""\n'
    )
    name = package({"kitchen.py": source})
    corpus = load_docstrings([name])
    assert corpus.ids == [f"{name}.kitchen", f"{name}.kitchen.Oven", f"{name}.kitchen.Oven.sail"]
    assert corpus.documents == [PROSE, OTHER, THIRD]
    assert corpus.labels == [f"{name}.kitchen"] * 3
    assert name not in sys.modules


def test_private_files_show_their_names_in_their_package(package):
    name = package(
        {
            "linalg/_linalg.py": function("norm", PROSE),
            "_core/deep/_impl.py": function("sum", OTHER),
            "__init__.py": f'"""{THIRD}"""',
        }
    )
    corpus = load_docstrings([name])
    assert corpus.ids == [name, f"{name}.core.deep.sum", f"{name}.linalg.norm"]
    assert corpus.labels == [name, f"{name}.core", f"{name}.linalg"]


def test_tests_and_copies_of_other_packages_are_left_out(package):
    files = {f"{folder}/code.py": function("code", PROSE) for folder in ("tests", "sub/test", "_vendor", "externals")}
    assert len(load_docstrings([package({**files, "good.py": function("good", OTHER)})])) == 1


def test_short_docstrings_are_left_out(package):
    words = PROSE.split()
    source = function("short", " ".join(words[:19])) + function("long", " ".join(words[:20]))
    assert [i.rsplit(".")[-1] for i in load_docstrings([package({"code.py": source})]).ids] == ["long"]


def test_files_that_do_not_parse_or_warn_do_no_harm(package):
    files = {
        "broken.py": f'"""{THIRD}"""\ndef (:',
        "binary.py": b'"""\x00\xff"""',
        "warns.py": f'def escape():\n    """{PROSE}"""\n    return "\\d", 1 is 1\n',
        "latin.py": f'# coding: latin-1\n"""{OTHER} \xe9t\xe9"""'.encode("latin-1"),
    }
    name = package(files)
    corpus = load_docstrings([name])
    assert corpus.ids == [f"{name}.latin", f"{name}.warns.escape"]
    assert corpus.documents[0].endswith("été")


def test_examples_headings_and_markup_are_cleaned_away(package):
    docstring = f"""{PROSE}

    Parameters
    ----------
    orbit : :class:`~space.Orbit`
        See :func:`the formula <space.period>`.

    .. versionadded:: 1.2

    >>> period(orbit)
    365.25
    >>> for o in orbits:
    ...     period(o)

    After the example. %(rest)s
    """
    text = load_docstrings([package({"code.py": function("period", docstring)})]).documents[0]
    assert text.split("\n")[0] == PROSE
    assert " ".join(text.removeprefix(PROSE).split()) == (
        "orbit : space.Orbit See the formula . 1.2 After the example."
    )


def test_nearly_identical_docstrings_appear_once(package):
    longer = f"{PROSE} {OTHER} {THIRD}"
    changed = longer.replace("Planets", "Comets").replace("flour", "rye")
    source = function("first", longer) + function("second", changed) + function("third", f"{THIRD} {PROSE[:60]}")
    names = [i.rsplit(".")[-1] for i in load_docstrings([package({"code.py": source})]).ids]
    assert names == ["first", "third"]


def test_near_duplicates_are_found_among_texts_of_any_length():
    text = [f"word{n}" for n in range(200)]
    slightly, very = [*text[:100], "new", *text[101:]], [*text[:100], *(f"other{n}" for n in range(100))]
    documents = [text, ["a"], slightly, very, [], list(text), ["a"], ["b", "a"], []]
    assert without_near_duplicates(documents) == [0, 1, 3, 4, 7]


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        (["no_such_package_here"], "'no_such_package_here'"),
        (["email.message"], "'email.message' is not the name of a top-level"),
        ("email", "list of names"),
        ([3], "3 is not"),
        (["sys"], "'sys'"),
    ],
)
def test_packages_that_cannot_be_read_are_named(packages, message):
    with pytest.raises(InputError, match=message):
        load_docstrings(packages)


def test_real_packages_have_the_names_users_know():
    corpus = load_docstrings(["email", "argparse", "numpy"])
    label_of = dict(zip(corpus.ids, corpus.labels, strict=True))
    assert label_of["numpy.linalg.norm"] == "numpy.linalg"
    assert label_of["email.message.Message.get_content_type"] == "email.message"
    assert {label for i, label in label_of.items() if i.startswith("argparse")} == {"argparse"}
    assert corpus.ids == sorted(label_of)
    assert not any(">>>" in text for text in corpus.documents)


def test_the_same_documents_in_every_process():
    code = (
        "import hashlib; from asterism.corpus import load_docstrings;"
        "c = load_docstrings(['email', 'logging']);"
        "print(hashlib.md5(repr((c.ids, c.documents)).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != b""


def test_importing_the_package_is_light():
    code = (
        "import sys, asterism; before = set(sys.modules); import asterism.corpus;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted({'sklearn', 'scipy', 'numpy', 'Stemmer', 'stop_words'} & new))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(package, enabled):
    name = package({"code.py": function("code", PROSE)})
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        load_docstrings([name])
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.slow
def test_the_whole_corpus_is_large_and_varied():
    corpus = load_docstrings()
    labels = Counter(corpus.labels)
    assert len(corpus) > 8000
    assert len(labels) > 300
    assert labels.most_common(1)[0][1] < 0.15 * len(corpus)
    assert len(set(corpus.ids)) == len(corpus)
