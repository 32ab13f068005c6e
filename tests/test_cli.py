"""The command line: what it prints, its exit code, and what it leaves on the disk.

Every command is run as a process; a process takes two seconds to import everything, so the many small cases call
`main` in this one. That both give the same is a test as well.
"""

import contextlib
import csv
import gzip
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import asterism
from asterism import TopicEmbeddingModel, cli
from asterism.progress import progress_bar
from asterism.training import Progress

QUICK = ["--topics", "3", "--dims", "2", "--max-sweeps", "2", "--quiet"]
COMMANDS = ["demo", "fit", "topics", "correlated", "embed", "evaluate", "info"]


TERMINAL = {"COLUMNS": "80", "TERM": "dumb"}


def call(*arguments):
    """What comes of `asterism` with these arguments, in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["asterism", *map(str, arguments)]),
        mock.patch.dict(os.environ, TERMINAL),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    return subprocess.CompletedProcess(arguments, ended.value.code, output.getvalue(), errors.getvalue())


def run(*arguments, **options):
    """What comes of `asterism` with these arguments, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "asterism", *map(str, arguments)],
        env={**os.environ, **TERMINAL},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def done(*arguments, by=call, **options):
    """Standard output of a command that must succeed."""
    result = by(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments, by=call, **options):
    """The one line of a command that must fail, without its prefix."""
    result = by(*arguments, **options)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("asterism: ")
    return lines[0].removeprefix("asterism: ")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def sources(texts, tmp_path_factory):
    """The same documents as .txt, .jsonl, .jsonl.gz and as counts, these also with the words turned around."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    lines = "".join(json.dumps({"id": f"d{i}", "body": text}) + "\n" for i, text in enumerate(texts))
    (folder / "texts.jsonl").write_text(lines)
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    counts = asterism.TextPipeline(stem=False, stop_words=None).fit(texts)
    write_counts(folder, "texts", counts.transform(texts), counts.terms_)
    write_counts(folder, "turned", counts.transform(texts)[:, ::-1], counts.terms_[::-1])
    return folder


def write_counts(folder, name, counts, words):
    counts = counts.tocoo()
    entries = zip(counts.row + 1, counts.col + 1, counts.data, strict=True)
    lines = [*map(str, (*counts.shape, counts.nnz)), *(f"{d} {w} {n}" for d, w, n in entries)]
    (folder / f"docword.{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / f"vocab.{name}.txt").write_text("\n".join(words) + "\n")


@pytest.fixture(scope="module")
def text_folder(sources, tmp_path_factory):
    """A model of texts, made by the command line."""
    folder = tmp_path_factory.mktemp("models") / "texts"
    done("fit", sources / "texts.txt", *QUICK, "--out", folder, by=run)
    return folder


@pytest.fixture(scope="module")
def counts_folder(sources, tmp_path_factory):
    """A model of counts, made by the command line."""
    folder = tmp_path_factory.mktemp("models") / "counts"
    done("fit", sources / "docword.texts.txt", *QUICK, "--out", folder, by=run)
    return folder


# --- help and options -------------------------------------------------------------------------------------------


def test_help_of_every_command_fits_the_terminal():
    general = done("--help")
    for command in COMMANDS:
        assert command in general
    for command in ([], *([command] for command in COMMANDS)):
        shown = done(*command, "-h")
        assert "Usage: " in shown
        assert max(map(len, shown.splitlines())) <= 80
        assert "…" not in shown  # nothing cut off
        assert "Traceback" not in shown


def test_the_version_is_the_packages():
    assert done("--version").strip() == asterism.__version__


def test_the_installed_command_is_this_one():
    command = Path(sys.executable).with_name("asterism")
    if not command.exists():
        pytest.skip("asterism is not installed as a command")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == asterism.__version__


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "x.txt", "--topics", "many"], ["nonsense"], ["topics"]])
def test_wrong_usage_is_exit_code_2(arguments):
    result = call(*arguments)
    assert result.returncode == 2
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.stderr


RENAMED = {
    "n_topics": "topics",
    "n_dims": "dims",
    "n_threads": "threads",
    "n_samples": "samples",
    "random_state": "seed",
}
NOT_FOR_THE_COMMAND_LINE = {"vocabulary", "text_pipeline", "verbose", "total_documents", "warm_start"}
OF_EMBED = {"evidence"}  # it matters there only


def test_fit_takes_what_the_estimator_takes_with_the_same_defaults():
    options = inspect.signature(cli.fit).parameters
    for name, default in TopicEmbeddingModel().get_params(deep=False).items():
        if name in NOT_FOR_THE_COMMAND_LINE | OF_EMBED:
            continue
        option = options[RENAMED.get(name, name)]
        if name in ("n_topics", "random_state"):  # required, and 0: what is run again should repeat itself
            continue
        assert getattr(option.default, "value", option.default) == default, name


def test_choices_are_those_of_the_library():
    from asterism.parameters import CHOICES, STARTS

    assert {kind.value for kind in cli.EngineName} == set(CHOICES["engine"])
    assert {kind.value for kind in cli.Inference} == set(CHOICES["inference"])
    assert {kind.value for kind in cli.LocalSolver} == set(CHOICES["local_solver"])
    assert {kind.value for kind in cli.Start} == set(STARTS)
    assert {kind.value for kind in cli.Sampler} == set(CHOICES["sampler"])
    assert {kind.value for kind in cli.NonInteger} == set(CHOICES["non_integer"])


def test_every_option_arrives_at_the_model(sources, tmp_path):
    given = {
        "dims": 2, "max_sweeps": 1, "tol": 0.25, "evaluate_every": 2, "validation_fraction": 0.4, "batch_size": 9,
        "inference": "svi", "engine": "cpu", "threads": 2, "alpha": 0.3, "rho": 0.4, "tau": 1.5, "beta": 0.6,
        "topics_per_document": 2, "words_per_topic": 7, "topics_per_word": 3, "samples": 2, "local_rate": 0.7,
        "local_solver": "newton", "init": "random", "sampler": "alias", "candidates": 3,
        "max_local_steps": 8, "local_tol": 0.2, "step_offset": 3.0, "step_exponent": 0.8, "seed": 5,
        "non_integer": "round", "language": "german", "min_df": "2", "max_df": "0.75", "max_words": 12,
    }  # fmt: skip
    options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    flags = ["--no-stem", "--no-stop-words", "-q", "--learn-alpha", "--learn-tau"]
    done("fit", sources / "texts.txt", "-k", 4, "-o", tmp_path / "model", *options, *flags)
    model = TopicEmbeddingModel.load(tmp_path / "model")
    back = {renamed: name for name, renamed in RENAMED.items()}
    for name in {*given} - {"language", "min_df", "max_df", "max_words"}:
        assert getattr(model, back.get(name, name)) == given[name], name
    assert model.n_topics == 4
    assert (model.learn_alpha, model.learn_tau, model.learn_beta) == (True, True, False)
    pipeline = model.text_pipeline.get_params()
    assert pipeline == {
        "language": "german",
        "stop_words": None,
        "stem": False,
        "min_df": 2,
        "max_df": 0.75,
        "max_words": 12,
    }
    assert len(model.vocabulary_) == 12


# --- every command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "MODEL"],
        ["correlated", "MODEL", "1", "--json"],
        ["info", "MODEL"],
        ["evaluate", "MODEL", "SOURCE"],
        ["embed", "MODEL", "SOURCE", "-o", "OUT"],
        ["embed", "MODEL", "nowhere.txt", "-o", "OUT"],
        ["fit"],
    ],
)
def test_a_process_does_what_a_call_does(sources, text_folder, tmp_path, arguments):
    places = {"MODEL": text_folder, "SOURCE": sources / "texts.txt", "OUT": tmp_path / "v.csv"}
    arguments = [places.get(argument, argument) for argument in arguments]
    found, written = [], []
    for way in (run, call):
        result = way(*arguments)
        found.append((result.returncode, result.stdout, result.stderr))
        written.append([(path.name, path.read_bytes()) for path in tmp_path.iterdir()])
    assert found[0] == found[1]
    assert written[0] == written[1]


def test_fit_says_how_it_ended_and_where_the_model_is(sources, tmp_path):
    shown = done("fit", sources / "texts.txt", *QUICK, "--out", tmp_path / "model")
    assert "stopped at the limit of 2 sweeps" in shown
    assert f"model saved to {tmp_path / 'model'}" in shown
    assert names_in(tmp_path) == ["model"]


def test_fit_is_what_the_library_does(sources, texts, text_folder):
    here = TopicEmbeddingModel(3, 2, max_sweeps=2, random_state=0).fit(texts)
    np.testing.assert_array_equal(TopicEmbeddingModel.load(text_folder).transform(texts), here.transform(texts))


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz"])
def test_json_lines_are_the_same_documents(sources, texts, text_folder, tmp_path, name):
    shown = done("fit", sources / name, "--text-field", "body", *QUICK, "-o", tmp_path / "model", "--json")
    description = json.loads(shown)
    assert description["topics"] == 3
    assert description["folder"] == str(tmp_path / "model")
    assert description["parameters"]["max_sweeps"] == 2
    vectors = TopicEmbeddingModel.load(tmp_path / "model").transform(texts)
    np.testing.assert_array_equal(vectors, TopicEmbeddingModel.load(text_folder).transform(texts))


def test_standard_input_is_read_as_lines(texts, text_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    done("fit", "-", *QUICK, "-o", tmp_path / "model")
    vectors = TopicEmbeddingModel.load(tmp_path / "model").transform(texts)
    np.testing.assert_array_equal(vectors, TopicEmbeddingModel.load(text_folder).transform(texts))


def test_progress_goes_to_standard_error_only(sources, tmp_path):
    loud = [option for option in QUICK if option != "--quiet"]
    result = call("fit", sources / "texts.txt", *loud, "-o", tmp_path / "model", "--json")
    assert result.returncode == 0
    json.loads(result.stdout)
    assert "sweep 2/2" in result.stderr
    assert "documents/s" in result.stderr
    quiet = call("fit", sources / "texts.txt", *QUICK, "-o", tmp_path / "model")
    assert quiet.stderr == ""


def test_the_progress_bar_fits_80_columns_with_all_it_has_to_say(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar(True) as report:
        report(Progress(sweep=199, max_sweeps=1000, documents=1, n_documents=1, heldout_score=-8.6))
    line = capsys.readouterr().err.rstrip("\n")
    assert "\n" not in line
    assert len(line) <= 80
    assert re.search(r"sweep 200/1000 [\d,]+ documents/s held-out perplexity 5,432 \d+:\d+ left", line)


def test_topics_are_listed_largest_first(text_folder):
    model = TopicEmbeddingModel.load(text_folder)
    shown = done("topics", text_folder)
    shares = [float(share) for share in re.findall(r"(\d+\.\d+)%", shown)]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    for k in range(3):
        assert model.top_words(k, 1)[0].word in shown
    assert max(map(len, shown.splitlines())) <= 80
    records = json.loads(done("topics", text_folder, "--json", "-n", 4, "--limit", 2))
    assert len(records) == 2
    first = records[0]
    assert first["topic"] == int(np.argmax(model.topic_shares_))
    assert first["token_share"] == pytest.approx(model.topic_shares_.max())
    words = [(word["word"], word["probability"]) for word in first["words"]]
    assert words == [tuple(word) for word in model.top_words(first["topic"], 4)]


def test_correlated_topics_are_those_of_the_model(text_folder):
    model = TopicEmbeddingModel.load(text_folder)
    shown = done("correlated", text_folder, 1)
    assert "correlation" in shown
    for _, value in model.correlated(1):
        assert f"{value:+.2f}" in shown
    answer = json.loads(done("correlated", text_folder, 1, "-n", 1, "--json"))
    assert answer["topic"] == 1
    found = [(record["topic"], record["correlation"]) for record in answer["correlated"]]
    assert found == [tuple(entry) for entry in model.correlated(1, 1)]


def test_evaluate_is_the_models_perplexity(sources, texts, text_folder):
    expected = TopicEmbeddingModel.load(text_folder).perplexity(texts)
    assert f"perplexity {expected:,.1f}" in done("evaluate", text_folder, sources / "texts.txt")
    answer = json.loads(done("evaluate", text_folder, sources / "texts.txt", "--json"))
    assert answer["perplexity"] == pytest.approx(expected)
    assert answer["documents"] == len(texts)
    assert np.exp(-answer["log_likelihood_per_token"]) == pytest.approx(expected)


def test_info_describes_the_model(text_folder):
    shown = done("info", text_folder)
    assert "topics_per_document=50" in shown
    description = json.loads(done("info", text_folder, "--json"))
    assert (description["topics"], description["dimensions"], description["sweeps"]) == (3, 2, 2)
    assert description["input"] == "text"
    assert description["parameters"]["n_topics"] == 3


def test_vectors_are_written_in_every_form_in_the_documents_order(sources, texts, text_folder, tmp_path):
    expected = TopicEmbeddingModel.load(text_folder).transform(texts)
    source = [sources / "texts.jsonl", "--text-field", "body"]
    for suffix in ("npy", "csv", "jsonl"):
        done("embed", text_folder, *source, "-o", tmp_path / f"vectors.{suffix}")
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), expected)
    with (tmp_path / "vectors.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "dim_0", "dim_1"]
    records = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text().splitlines()]
    ids = [f"d{i}" for i in range(len(texts))]
    assert [row[0] for row in rows] == [record["id"] for record in records] == ids
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], dtype=np.float32), expected)
    np.testing.assert_array_equal(np.array([r["embedding"] for r in records], dtype=np.float32), expected)
    assert names_in(tmp_path) == ["vectors.csv", "vectors.jsonl", "vectors.npy"]


def test_search_vectors_are_written_on_request(sources, texts, text_folder, tmp_path):
    done("embed", text_folder, sources / "texts.jsonl", "--text-field", "body", "-o", tmp_path / "v.npy", "--search")
    expected = TopicEmbeddingModel.load(text_folder).search_vectors(texts)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)


def test_evidence_of_words_is_given_on_request(sources, texts, text_folder, tmp_path):
    command = "embed", text_folder, sources / "texts.jsonl", "--text-field", "body", "-o", tmp_path / "v.npy"
    done(*command, "--evidence", "0.5")
    expected = TopicEmbeddingModel.load(text_folder).set_params(evidence=0.5).transform(texts)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    done(*command, "--evidence", "all")
    expected = TopicEmbeddingModel.load(text_folder).set_params(evidence="all").transform(texts)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    assert "evidence=-7" in refused(*command, "--evidence", "-7")
    assert "--evidence" in refused(*command, "--evidence", "some")


def test_counts_may_have_their_words_in_another_order(sources, counts_folder, tmp_path):
    for name in ("texts", "turned"):
        done("embed", counts_folder, sources / f"docword.{name}.txt", "-o", tmp_path / f"{name}.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "turned.npy"), np.load(tmp_path / "texts.npy"))
    scores = [done("evaluate", counts_folder, sources / f"docword.{n}.txt") for n in ("texts", "turned")]
    assert "perplexity" in scores[0]
    same_order = ["--vocabulary", sources / "vocab.texts.txt"]
    assert done("evaluate", counts_folder, sources / "docword.texts.txt", *same_order) == scores[0]


def test_unknown_words_of_counts_are_left_out_and_said(counts_folder, sources, tmp_path, caplog):
    known = (sources / "vocab.texts.txt").read_text().split()
    counts = np.zeros((2, len(known) + 1), dtype=int)
    counts[0, 3], counts[1, -1] = 2, 5
    write_counts(tmp_path, "new", csr_matrix(counts), [*known, "zyzzyva"])
    done("embed", counts_folder, tmp_path / "docword.new.txt", "-o", tmp_path / "v.npy")
    assert "1 of 19 words are not in the model's vocabulary" in caplog.text
    vectors = np.load(tmp_path / "v.npy")
    assert vectors[0].any()
    assert not vectors[1].any()


# --- errors -----------------------------------------------------------------------------------------------------


def test_a_missing_file_or_one_of_no_known_kind(sources, tmp_path):
    out = ["-o", tmp_path / "model"]
    assert "nowhere.txt: there is no such file" in refused("fit", "nowhere.txt", *QUICK, *out)
    (tmp_path / "table.xls").write_text("x")
    assert "table.xls: unknown kind of file" in refused("fit", tmp_path / "table.xls", *QUICK, *out)
    (tmp_path / "empty.txt").write_text("")
    assert "empty.txt holds no documents" in refused("fit", tmp_path / "empty.txt", *QUICK, *out)
    assert not (tmp_path / "model").exists()


def test_a_broken_line_of_json_is_numbered(tmp_path):
    (tmp_path / "broken.jsonl").write_text('{"text": "fine"}\n{"text": "cut off\n')
    assert "broken.jsonl, line 2" in refused("fit", tmp_path / "broken.jsonl", *QUICK, "-o", tmp_path / "model")


def test_a_file_that_is_not_what_its_name_says(text_folder, tmp_path):
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert "picture.txt, line 1" in refused("evaluate", text_folder, tmp_path / "picture.txt")
    (tmp_path / "plain.txt.gz").write_text("not compressed")
    assert "plain.txt.gz: is not a gzip file" in refused("evaluate", text_folder, tmp_path / "plain.txt.gz")


@pytest.mark.parametrize("command", [["topics"], ["info"], ["correlated"], ["evaluate"], ["embed"]])
def test_a_folder_that_holds_no_model(sources, tmp_path, command):
    more = {"correlated": [0], "evaluate": [sources / "texts.txt"]}
    more["embed"] = [sources / "texts.txt", "-o", tmp_path / "v.npy"]
    message = refused(*command, tmp_path, *more.get(command[0], []))
    assert message == f"{tmp_path} holds no complete model: model.json is missing"


def test_a_damaged_model(text_folder, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in ("model.json", "topics.safetensors"):
        (damaged / name).write_bytes((text_folder / name).read_bytes()[:-10])
    assert "damaged/model.json is damaged" in refused("topics", damaged)


def test_one_topic_no_such_topic_and_no_such_number(text_folder, tmp_path):
    # Settings are checked before anything is read, so the source need not even exist.
    out = ["-o", tmp_path / "model"]
    assert refused("fit", "nowhere.txt", "-k", 1, *out) == "n_topics=1 must be a whole number, at least 2"
    assert "alpha=-1.0 must be" in refused("fit", "nowhere.txt", "-k", 3, "--alpha", -1, *out)
    assert "--min-df few" in refused("fit", "nowhere.txt", "-k", 3, "--min-df", "few", *out)
    assert refused("correlated", text_folder, 3) == "topic 3 does not exist; topics are 0 to 2"


def test_a_place_where_nothing_can_be_written(sources, text_folder, tmp_path):
    file = tmp_path / "file"
    file.write_text("content")
    source = sources / "texts.txt"
    assert "file is a file; a model is saved as a folder" in refused("fit", source, *QUICK, "-o", file)
    assert "cannot be made" in refused("fit", source, *QUICK, "-o", file / "below")
    assert "cannot be made" in refused("fit", source, *QUICK, "-o", "/proc/model")
    assert "not empty and holds no model" in refused("fit", source, *QUICK, "-o", tmp_path)
    assert "vectors.xls: vectors are written as" in refused("embed", text_folder, source, "-o", "vectors.xls")
    below = refused("embed", text_folder, source, "-o", file / "v.npy")
    assert "v.npy cannot be written" in below
    assert "v.npy cannot be written" in refused("embed", text_folder, source, "-o", tmp_path / "no" / "v.npy")
    assert names_in(tmp_path) == ["file"]
    assert file.read_text() == "content"


def test_texts_for_counts_and_counts_for_texts(sources, text_folder, counts_folder, tmp_path):
    counts, texts = sources / "docword.texts.txt", sources / "texts.txt"
    for command, more in (("evaluate", []), ("embed", ["-o", tmp_path / "v.npy"])):
        assert "trained on texts; it cannot read counts" in refused(command, text_folder, counts, *more)
        assert "fitted on counts and cannot read texts" in refused(command, counts_folder, texts, *more)
    assert names_in(tmp_path) == []


def test_warnings_of_the_library_are_shown(sources, tmp_path):
    result = run("fit", sources / "texts.txt", "-k", 3, "--dims", 9, "--max-sweeps", 1, "-q", "-o", tmp_path / "m")
    assert result.returncode == 0
    assert result.stderr == "WARNING: n_dims=9 is more than n_topics=3 can use\n"


def test_a_pipe_that_closes_early_is_no_error_message(text_folder):
    command = f"{sys.executable} -m asterism topics {text_folder} --json | head -c 10"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == '[\n {\n  "to'
    assert "Traceback" not in result.stderr


# --- interrupted, and no space ----------------------------------------------------------------------------------


def test_ctrl_c_during_a_fit_leaves_nothing(sources, tmp_path):
    fit = ["fit", sources / "texts.txt", "-k", 3, "--max-sweeps", 1_000_000, "-o", tmp_path / "new" / "model"]
    process = subprocess.Popen(
        [sys.executable, "-m", "asterism", "--verbose", *map(str, fit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for line in process.stderr:
            if "SweepRecord" in line:  # it is training
                break
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()  # or it would go on for ever if Ctrl-C did not work
    assert time.monotonic() - began < 10
    assert process.returncode not in (0, 2)
    assert output == ""
    assert "Traceback" not in errors
    assert names_in(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_line_and_leaves_nothing(sources, text_folder, texts, small_disk, tmp_path):
    (tmp_path / "many.txt").write_text("\n".join(texts * 200))
    model, vectors = small_disk / "model", small_disk / "v.csv"
    # Words enough that the arrays do not fit into 64 KiB.
    words = "\n".join(" ".join(f"w{chr(97 + i % 26)}{i}x{j}" for j in range(30)) for i in range(100))
    (tmp_path / "words.txt").write_text(words)
    message = refused("fit", tmp_path / "words.txt", *QUICK, "--min-df", 1, "-o", model, by=run)
    assert message == f"{model}: No space left on device"
    message = refused("embed", text_folder, tmp_path / "many.txt", "-o", vectors)
    assert message == f"{vectors}: No space left on device"
    assert names_in(small_disk) == []


def test_a_full_standard_output_is_one_line(text_folder):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "asterism", "topics", str(text_folder), "--json"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "asterism: No space left on device\n"
