"""open_corpus: every format, every way a file can be wrong, and the real files where they are present."""

import gzip
import io
import json
import os
import types
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_matrix

from asterism.corpus import Corpus, open_corpus
from asterism.errors import InputError

DATA = Path(os.environ.get("ASTERISM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def real_file(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in the shared data")
    return path


@pytest.fixture
def write(tmp_path):
    """Write bytes or text under a name, compressed if the name says so; returns the path."""

    def write_file(name, content):
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write_file


def refused(path, **options):
    """The message of the error, which has to be one line and to name the file."""
    with pytest.raises(InputError) as error:
        open_corpus(path, **options)
    message = str(error.value)
    assert "\n" not in message
    assert Path(path).name in message
    return message


@pytest.mark.parametrize("name", ["texts.txt", "texts.txt.gz", "TEXTS.TXT"])
def test_text_files_have_a_document_a_line(write, name):
    corpus = open_corpus(write(name, "first text\n\nthird, Ünïcode\u2028same line\r\nlast without end"))
    assert corpus.documents == ["first text", "", "third, Ünïcode\u2028same line", "last without end"]
    assert corpus.ids == ["1", "2", "3", "4"]
    assert len(corpus) == 4
    assert corpus.vocabulary is None
    assert corpus.labels is None


def test_a_byte_order_mark_is_not_part_of_the_first_document(write):
    assert open_corpus(write("texts.txt", b"\xef\xbb\xbffirst\n")).documents == ["first"]


def test_standard_input_has_a_document_a_line(monkeypatch):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"one\n\nthree\n")))
    assert open_corpus("-").documents == ["one", "", "three"]


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz"])
def test_json_lines_have_text_and_maybe_id_and_label(write, name):
    records = [{"text": "one", "id": "a", "label": "x"}, {"text": "", "id": 7}, {"text": "three", "label": 0}]
    corpus = open_corpus(write(name, "\n".join(map(json.dumps, records)) + "\n\n \n"))
    assert corpus.documents == ["one", "", "three"]
    assert corpus.ids == ["a", "7", "3"]
    assert corpus.labels == ["x", "", "0"]


def test_json_lines_without_labels_and_with_another_field(write):
    corpus = open_corpus(write("texts.jsonl", '{"body": "one"}'), text_field="body")
    assert corpus.documents == ["one"]
    assert corpus.labels is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}\n{"text": ', "line 2: is not JSON"),
        ('{"text": "a"}\n\n{"text": "b"}', "line 2: is blank"),
        ('{"text": "a"}\n["text"]', "line 2: is a JSON list"),
        ('{"text": "a"}\n{"id": 1, "body": "b"}', "line 2: has no field 'text'; its fields are 'id', 'body'"),
        ('{"text": 5}', "line 1: field 'text' is of type int"),
        ("[" * 100_000, "line 1: is not JSON"),
        (b'{"text": "\xff"}', "line 1: is not UTF-8"),
    ],
)
def test_broken_json_lines_are_named(write, content, message):
    assert message in refused(write("texts.jsonl", content))


BAG = "3\n4\n4\n1 2 5\n1 4 1\n3 1 2\n3 2 1\n"
WORDS = "ant\nbear\ncat\ndog\n"


@pytest.mark.parametrize("name", ["docword.zoo.txt", "docword.zoo.txt.gz", "docword.txt", "docword.zoo.train.txt"])
def test_a_bag_of_words_finds_its_vocabulary(write, name):
    write("vocab.txt" if name == "docword.txt" else "vocab.zoo.txt", WORDS)
    corpus = open_corpus(write(name, BAG))
    assert corpus.documents.toarray().tolist() == [[0, 5, 0, 1], [0, 0, 0, 0], [2, 1, 0, 0]]
    assert corpus.documents.format == "csr"
    assert corpus.documents.dtype == np.int32
    assert corpus.vocabulary == ["ant", "bear", "cat", "dog"]
    assert corpus.ids == ["1", "2", "3"]
    assert corpus.labels is None


def test_the_closest_vocabulary_wins_and_a_given_one_before_all(write):
    path = write("docword.zoo.train.txt", BAG)
    write("vocab.zoo.txt", WORDS)
    write("vocab.zoo.train.txt.gz", WORDS.upper())
    assert open_corpus(path).vocabulary[0] == "ANT"
    given = write("words", WORDS.title())
    assert open_corpus(path, vocabulary=given).vocabulary[0] == "Ant"


def test_labels_beside_a_bag_of_words_are_read(write):
    path = write("docword.zoo.txt", BAG)
    write("vocab.zoo.txt", WORDS)
    labels = write("labels.zoo.txt.gz", "x\ny\nx\n")
    assert open_corpus(path).labels == ["x", "y", "x"]
    labels.write_bytes(gzip.compress(b"x\ny\n"))
    with pytest.raises(InputError, match=r"labels.zoo.txt.gz: has 2 labels for 3"):
        open_corpus(path)


def test_order_repetition_zeros_and_layout_of_entries_do_not_matter(write):
    write("vocab.zoo.txt", WORDS)
    path = write("docword.zoo.txt", "3\r\n4\r\n6\r\n3 2 1\r\n1\t4  1\r\n 1 2 2\r\n3 1 02\r\n1 2 3\r\n2 2 0\n\n\n")
    counts = open_corpus(path).documents
    assert counts.toarray().tolist() == [[0, 5, 0, 1], [0, 0, 0, 0], [2, 1, 0, 0]]
    assert counts.nnz == 4
    assert counts[2].indices.tolist() == [0, 1]


def test_a_bag_without_entries_has_empty_documents(write):
    write("vocab.zoo.txt", WORDS)
    counts = open_corpus(write("docword.zoo.txt", "2\n4\n0\n")).documents
    assert counts.shape == (2, 4)
    assert counts.nnz == 0


def random_bag(n_documents, n_words, n_entries, rng):
    documents = np.sort(rng.integers(1, n_documents + 1, n_entries))
    words, counts = rng.integers(1, n_words + 1, n_entries), rng.integers(1, 1000, n_entries)
    return np.column_stack([documents, words, counts])


def test_a_file_of_many_blocks_reads_as_a_simple_loop_would(write):
    entries = random_bag(5000, 90_000, 500_000, np.random.default_rng(1))
    lines = [f"{d} {w} {c}" for d, w, c in entries.tolist()]
    write("vocab.big.txt", "word\n" * 90_000)
    corpus = open_corpus(write("docword.big.txt", "\n".join(["5000", "90000", "500000", *lines])))
    expected = coo_matrix((entries[:, 2], (entries[:, 0] - 1, entries[:, 1] - 1)), shape=(5000, 90_000))
    assert (corpus.documents != expected.tocsr()).nnz == 0

    lines[432_100] = "77 3 x"  # far behind the first block
    path = write("docword.big.txt", "\n".join(["5000", "90000", "500000", *lines]))
    assert f"line {432_100 + 4}: expected `document word count`, found '77 3 x'" in refused(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected the number of documents, found ''"),
        ("3\nfour\n4\n", "line 2: expected the number of words, found 'four'"),
        ("3\n4\n-1\n", "line 3: expected the number of entries"),
        ("99999999999\n4\n4\n", "line 1: expected the number of documents"),
        ("3\n4\n2\n1 2 5\n1 4\n", "line 5: expected `document word count`, found '1 4'"),
        ("3\n4\n2\n1 2\n5 1 4 1\n", "line 4"),
        ("3\n4\n2\n1 2 5 6\n1 4 1\n", "line 4"),
        ("3\n4\n2\n1 2 5\n\n1 4 1\n", "line 5"),
        ("3\n4\n1\n1 2 -5\n", "line 4"),
        ("3\n4\n1\n1 2 5.0\n", "line 4"),
        ("3\n4\n1\n1 2 " + "9" * 30, "line 4"),
        ("3\n4\n1\n1 2 9999999999\n", "line 4: count 9999999999 is not between"),
        ("3\n4\n2\n1 2 5\n4 1 1\n", "line 5: document 4 is not between 1 and 3"),
        ("3\n4\n2\n1 2 5\n0 1 1\n", "line 5: document 0 is not between 1 and 3"),
        ("3\n4\n2\n1 2 5\n1 5 1\n", "line 5: word 5 is not between 1 and 4"),
        ("3\n4\n2\n1 2 5\n1 0 1\n", "line 5: word 0 is not between 1 and 4"),
        ("3\n4\n3\n1 2 5\n1 4 1\n", "promises 3 entries, the file has 2"),
        (b"3\n4\n1\n\xff\xfe\x00\n", "line 4"),
    ],
)
def test_a_broken_bag_of_words_is_named_with_its_line(write, content, message):
    write("vocab.zoo.txt", WORDS)
    assert message in refused(write("docword.zoo.txt", content))


def test_a_vocabulary_has_to_exist_and_to_fit(write):
    path = write("docword.zoo.train.txt", BAG)
    assert "tried vocab.zoo.train.txt, vocab.zoo.txt, vocab.txt" in refused(path)
    vocabulary = write("vocab.zoo.txt", "ant\nbear\n")
    with pytest.raises(InputError, match=r"vocab.zoo.txt: has 2 words.* 4"):
        open_corpus(path)
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        open_corpus(path, vocabulary=vocabulary.with_name("nowhere"))
    assert "no vocabulary can be given" in refused(write("a.txt", "text"), vocabulary=vocabulary)


def test_files_that_are_not_what_their_name_says(write, tmp_path):
    good = gzip.compress(b"some text\n" * 1000)
    for name, content, message in [
        ("garbage.txt", b"fine\n\xff\xfe\x00\x01", "line 2: is not UTF-8"),
        ("zeros.txt", b"fine\nzero\0byte", "line 2: holds a zero byte"),
        ("compressed.txt", good, "line 1"),
    ]:
        assert message in refused(write(name, content))
    for name, content, message in [
        ("plain.txt.gz", b"some text", "is not a gzip file"),
        ("plain.jsonl.gz", b"{}", "is not a gzip file"),
        ("docword.plain.txt.gz", b"1\n1\n1\n1 1 1\n", "is not a gzip file"),
        ("cut.txt.gz", good[:-20], "middle of its gzip data"),
        ("damaged.txt.gz", good[:12] + b"\xff" * 9 + good[21:], "gzip"),
    ]:
        write("vocab.plain.txt", "word\n")
        (tmp_path / name).write_bytes(content)
        assert message in refused(tmp_path / name)


def test_files_that_cannot_be_opened(write, tmp_path):
    assert "is a directory" in refused(tmp_path)
    assert "no such file" in refused(tmp_path / "missing.txt")
    message = refused(write("letters.docx", "text"))
    assert all(pattern in message for pattern in ("docword*.txt", "*.txt", "*.jsonl", ".gz"))
    assert "unknown kind" in refused(write("noname", "text"))
    assert "unknown kind" in refused(write("texts.gz", "text"))


def test_a_corpus_cannot_be_changed_by_accident():
    corpus = Corpus(["a"], None, ["1"], None)
    with pytest.raises(AttributeError):
        corpus.ids = []


def test_the_nips_files_share_a_vocabulary():
    train = open_corpus(real_file("uci_nips/docword.nips_gt20.train.txt.gz"))
    test = open_corpus(real_file("uci_nips/docword.nips_gt20.test.txt.gz"))
    assert train.documents.shape == (1350, 7605)
    assert test.documents.shape == (150, 7605)
    assert train.vocabulary == test.vocabulary
    with gzip.open(real_file("uci_nips/docword.nips_gt20.train.txt.gz"), "rt") as lines:
        entries = np.array([[int(n) for n in line.split()] for line in list(lines)[3:]])
    assert train.documents.nnz == len(entries) == 637_909
    assert train.documents.sum() == entries[:, 2].sum()
    document, word, count = entries[400_000]
    assert train.documents[document - 1, word - 1] == count


def test_the_ap_texts_and_the_ap_counts():
    texts = open_corpus(real_file("ap/docs.jsonl.gz"))
    counts = open_corpus(real_file("ap/docword.ap.txt.gz"))
    assert len(texts) == len(counts) == 2246
    assert texts.ids[0] == "AP881218-0003"
    assert "student" in texts.documents[0]
    student = counts.vocabulary.index("student")
    assert counts.documents[0, student] == texts.documents[0].lower().split().count("student") > 0
