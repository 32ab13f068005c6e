"""Saved models: the same to the last bit, refused when anything is wrong, and never half-written."""

import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from asterism import InputError, ModelFileError, TextPipeline, TopicEmbeddingModel


@pytest.fixture
def saved(text_model, tmp_path):
    """A folder with the text model."""
    return text_model.save(tmp_path / "model")


def refused(folder):
    """The message of the error that loading gives, which has to be one line that names the folder."""
    with pytest.raises(ModelFileError) as error:
        TopicEmbeddingModel.load(folder)
    assert "\n" not in str(error.value)
    assert Path(folder).name in str(error.value)
    return str(error.value)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def edit_json(folder, change):
    """Apply `change` to the content of model.json."""
    path = folder / "model.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_arrays(folder, change):
    """Apply `change` to the arrays, and make the checksum fit, as a forger would."""
    path = folder / "topics.safetensors"
    arrays = load(path.read_bytes())
    change(arrays)
    write_arrays(folder, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def write_arrays(folder, content):
    (folder / "topics.safetensors").write_bytes(content)
    edit_json(folder, lambda description: description.update(sha256=hashlib.sha256(content).hexdigest()))


# --- round trip -------------------------------------------------------------------------------------------------


def test_a_model_of_counts_comes_back_bit_equal(model, counts, tmp_path):
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    for name in ("embedding", "embedding_cov", "document_cov"):
        np.testing.assert_array_equal(getattr(loaded.state_, name), getattr(model.state_, name))
    assert (loaded.state_.word_topic != model.state_.word_topic).nnz == 0
    assert loaded.state_.word_topic.indices.dtype == model.state_.word_topic.indices.dtype
    assert loaded.state_.priors == model.state_.priors
    np.testing.assert_array_equal(loaded.transform(counts), model.transform(counts))
    np.testing.assert_array_equal(loaded.topic_proportions(counts), model.topic_proportions(counts))
    assert loaded.score(counts) == model.score(counts)
    assert loaded.get_params() == model.get_params()
    assert loaded.history_ == model.history_
    assert (loaded.n_sweeps_, loaded.converged_) == (model.n_sweeps_, model.converged_)
    assert list(loaded.vocabulary_) == list(model.vocabulary_)
    assert loaded.top_words(1) == model.top_words(1)
    assert loaded.correlated(1) == model.correlated(1)


def test_a_text_pipeline_with_its_settings_comes_back(make, texts, tmp_path):
    pipeline = TextPipeline(language="german", stop_words={"moon", "star"}, stem=True, min_df=2, max_df=0.9)
    model = make(n_topics=3, text_pipeline=pipeline).fit(texts)
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    assert loaded.text_pipeline_.to_dict() == model.text_pipeline_.to_dict()
    assert sorted(loaded.text_pipeline.stop_words) == ["moon", "star"]
    assert loaded.text_pipeline.min_df == 2
    unseen = ["galaxy star moon galaxies", "proteins in cells", ""]
    np.testing.assert_array_equal(loaded.transform(unseen), model.transform(unseen))
    # Settings are those of a new fit as well.
    np.testing.assert_array_equal(loaded.fit(texts).transform(unseen), model.transform(unseen))


def test_a_model_of_tokens_comes_back(make, texts, tmp_path):
    tokens = [text.split() for text in texts]
    model = make(n_topics=3).fit(tokens)
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(tokens), model.transform(tokens))


def test_words_of_any_script_come_back(make, counts, tmp_path):
    words = [f'wörd_{v}_\u2028_\U0001f600_"\\\n' for v in range(60)]
    model = make(max_sweeps=1, vocabulary=words).fit(counts)
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "Modell ü"))
    assert list(loaded.vocabulary_) == words


def test_a_data_frames_column_names_come_back_and_are_checked(make, counts, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts.toarray(), columns=[f"w{v}" for v in range(60)])
    model = make(max_sweeps=1, vocabulary=frame.columns).fit(frame)
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="same order"):
        loaded.transform(frame[frame.columns[::-1]])


@pytest.mark.parametrize("random_state", [np.random.default_rng(3), np.random.RandomState(3), np.int64(3), None])
def test_every_kind_of_random_state_can_be_saved(make, counts, tmp_path, random_state):
    model = make(random_state=random_state).fit(counts[:60])
    loaded = TopicEmbeddingModel.load(model.save(tmp_path / "model"))
    after = loaded.partial_fit(counts[60:]).transform(counts)
    np.testing.assert_array_equal(after, model.partial_fit(counts[60:]).transform(counts))


def test_settings_from_numpy_can_be_saved(make, counts, tmp_path):
    model = make(n_topics=np.int64(5), tol=np.float32(0.5), vocabulary=np.array([f"w{v}" for v in range(60)]))
    loaded = TopicEmbeddingModel.load(model.fit(counts).save(tmp_path / "model"))
    assert loaded.n_topics == 5
    assert loaded.tol == 0.5


def test_a_folder_holds_two_plain_files_and_no_pickle(saved):
    assert names_in(saved) == ["model.json", "topics.safetensors"]
    assert json.loads((saved / "model.json").read_text())["format"] == "asterism model"
    assert set(load((saved / "topics.safetensors").read_bytes())) >= {"embedding", "word_topic.data"}


def test_others_may_read_a_saved_model_as_the_umask_says(text_model, tmp_path):
    before = os.umask(0o022)
    try:
        folder = text_model.save(tmp_path / "model")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "model.json").stat().st_mode & 0o777 == 0o644


# --- where a model may be written -------------------------------------------------------------------------------


def test_an_older_model_is_replaced_and_nothing_else_appears(saved, model, counts):
    assert model.save(saved) == saved
    np.testing.assert_array_equal(TopicEmbeddingModel.load(saved).transform(counts), model.transform(counts))
    assert names_in(saved.parent) == ["model"]
    assert names_in(saved) == ["model.json", "topics.safetensors"]


def test_parents_are_made_and_an_empty_folder_is_used(model, tmp_path):
    model.save(tmp_path / "a" / "b" / "model")
    (tmp_path / "empty").mkdir()
    model.save(str(tmp_path / "empty"))
    assert names_in(tmp_path / "a" / "b") == ["model"]
    assert names_in(tmp_path / "empty") == ["model.json", "topics.safetensors"]


def test_a_link_keeps_its_place_and_what_it_leads_to_is_replaced(saved, model, counts):
    link = saved.with_name("latest")
    link.symlink_to(saved)
    model.save(link)
    assert link.is_symlink()
    np.testing.assert_array_equal(TopicEmbeddingModel.load(saved).transform(counts), model.transform(counts))
    assert names_in(saved.parent) == ["latest", "model"]


@pytest.mark.parametrize("content", [{"thesis.tex": "years of work"}, {"model.json": '{"format": "other"}'}])
def test_a_folder_with_something_else_in_it_is_left_alone(model, tmp_path, content):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="is not empty and holds no model"):
        model.save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == content


def test_what_lies_beside_a_model_is_not_deleted(saved, model):
    (saved / "notes.txt").write_text("about this model")
    with pytest.raises(InputError, match=r"notes\.txt would be lost"):
        model.save(saved)
    assert (saved / "notes.txt").read_text() == "about this model"
    TopicEmbeddingModel.load(saved)


def test_a_file_or_a_path_below_one_is_refused(model, tmp_path):
    file = tmp_path / "file"
    file.write_text("content")
    with pytest.raises(InputError, match="file is a file; a model is saved as a folder"):
        model.save(file)
    with pytest.raises(InputError, match=r"below cannot be made: .*file is a file"):
        model.save(file / "below")
    assert file.read_text() == "content"


def test_the_current_folder_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is the current folder"):
        model.save(".")
    assert names_in(tmp_path) == []


def test_a_truncated_model_may_be_replaced(saved, model):
    content = (saved / "model.json").read_bytes()
    (saved / "model.json").write_bytes(content[: len(content) // 2])
    model.save(saved)
    np.testing.assert_array_equal(TopicEmbeddingModel.load(saved).topic_embeddings_, model.topic_embeddings_)


# --- failure while writing --------------------------------------------------------------------------------------


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(*_, **__):
    raise KeyboardInterrupt


def fail_at(n, function, failure):
    """`function`, until its n-th call, which fails."""
    calls = iter(range(1, 100))

    def failing(*arguments, **options):
        return failure() if next(calls) == n else function(*arguments, **options)

    return failing


@pytest.mark.parametrize("failure", [full_disk, interrupt])
@pytest.mark.parametrize(
    ("target", "n"), [("os.fsync", 1), ("os.fsync", 2), ("pathlib.Path.rename", 1), ("pathlib.Path.rename", 2)]
)
def test_a_failed_save_leaves_the_old_model_and_nothing_else(
    saved, text_model, texts, model, monkeypatch, failure, target, n
):
    owner, name = (os, "fsync") if target == "os.fsync" else (Path, "rename")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail_at(n, getattr(owner, name), failure))
        with pytest.raises(KeyboardInterrupt if failure is interrupt else OSError) as error:
            model.save(saved)
    if failure is full_disk:
        assert error.value.errno == errno.ENOSPC
        assert error.value.filename == str(saved)
    assert names_in(saved.parent) == ["model"]
    np.testing.assert_array_equal(TopicEmbeddingModel.load(saved).transform(texts), text_model.transform(texts))


@pytest.mark.parametrize("failure", [full_disk, interrupt])
def test_a_failed_first_save_leaves_nothing(model, tmp_path, monkeypatch, failure):
    monkeypatch.setattr(os, "fsync", failure)
    with pytest.raises((OSError, KeyboardInterrupt)):
        model.save(tmp_path / "model")
    assert names_in(tmp_path) == []


# --- damaged folders --------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_or_not_a_folder(tmp_path):
    assert "does not exist" in refused(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    assert "is not a model folder" in refused(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == f"{tmp_path / 'empty'} holds no complete model: model.json is missing"


@pytest.mark.parametrize("name", ["model.json", "topics.safetensors"])
def test_a_missing_or_unreadable_file(saved, name):
    (saved / name).unlink()
    assert f"{name} is missing" in refused(saved)
    (saved / name).mkdir()
    assert f"{name} cannot be read" in refused(saved)


@pytest.mark.parametrize("share", [0, 0.3, 0.99])
@pytest.mark.parametrize("name", ["model.json", "topics.safetensors"])
def test_a_truncated_file(saved, name, share):
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: int(share * len(content))])
    assert f"{name} is damaged" in refused(saved)


@pytest.mark.parametrize("position", [0, 8, 100, -1])
def test_a_flipped_bit_in_the_arrays(saved, position):
    content = bytearray((saved / "topics.safetensors").read_bytes())
    content[position] ^= 1
    (saved / "topics.safetensors").write_bytes(content)
    assert "topics.safetensors is damaged or truncated: its checksum differs" in refused(saved)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b'{"format": "x"}', b"[" * 100_000, b"\x80\x04pickle"]
)
def test_a_model_json_that_is_none(saved, content):
    (saved / "model.json").write_bytes(content)
    assert "model.json" in refused(saved)


@pytest.mark.parametrize("version", [2, 99, 0, -1, "1", None, 1.5])
def test_a_format_of_another_version(saved, version):
    edit_json(saved, lambda description: description.update(format_version=version))
    assert f"format version {version!r}; asterism" in refused(saved)


KEYS = [
    "parameters",
    "priors",
    "vocabulary",
    "feature_names",
    "text_pipeline",
    "history",
    "n_sweeps",
    "converged",
    "seed",
    "seen",
    "sha256",
]


@pytest.mark.parametrize("key", KEYS)
def test_every_part_of_the_description_is_needed(saved, key):
    edit_json(saved, lambda description: description.pop(key))
    refused(saved)


@pytest.mark.parametrize("value", [7, "text", [1], {"a": 1}, 1e999, [[]], [{}], -1])
@pytest.mark.parametrize("key", [key for key in KEYS if key != "converged"])
def test_a_part_of_the_wrong_type(saved, key, value):
    if key in ("n_sweeps", "seed") and value == 7:
        value = "7"
    edit_json(saved, lambda description: description.update({key: value}))
    refused(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["parameters"].update(n_topics="many"),
        lambda d: d["parameters"].update(n_topics=-5),
        lambda d: d["parameters"].update(batch_size=1e400),
        lambda d: d["parameters"].update(engine="__import__('os')"),
        lambda d: d["parameters"].update(unheard_of=1),
        lambda d: d["parameters"].update(text_pipeline={"unheard_of": 1}),
        lambda d: d["parameters"].update(text_pipeline=[1]),
        lambda d: d["parameters"].update(random_state={"seed": 1}),
        lambda d: d["priors"].update(rho=0),
        lambda d: d["priors"].update(rho=float("nan")),
        lambda d: d["priors"].update(rho="high"),
        lambda d: d["priors"].pop("tau"),
        lambda d: d["vocabulary"].append("one more"),
        lambda d: d["vocabulary"].pop(),
        lambda d: d["vocabulary"].__setitem__(0, 7),
        lambda d: d["text_pipeline"]["terms"].pop(),
        lambda d: (d["text_pipeline"]["terms"].pop(), d["text_pipeline"]["words"].pop()),
        lambda d: d["text_pipeline"].update(stemmer="../../etc/passwd"),
        lambda d: d["history"][0].update(heldout_score="good"),
        lambda d: d["history"][0].pop("sweep"),
        lambda d: d["seen"].update(batches=-3),
        lambda d: d["seen"].update(documents=1e999),
        lambda d: d["seen"].pop("sweeps"),
        lambda d: d.update(seed=2**64),
        lambda d: d.update(feature_names=["only one"]),
    ],
)
def test_hostile_values_in_the_description(saved, change):
    edit_json(saved, change)
    assert "model.json is damaged" in refused(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.pop("embedding"),
        lambda a: a.pop("word_topic.data"),
        lambda a: a.update({"embedding": a["embedding"].T}),
        lambda a: a.update({"embedding": a["embedding"].ravel()}),
        lambda a: a.update({"embedding": a["embedding"].astype(np.float16)}),
        lambda a: a.update({"embedding": a["embedding"] * np.nan}),
        lambda a: a.update({"embedding": a["embedding"][:2]}),
        lambda a: a.update({"embedding": a["embedding"][:, :1]}),
        lambda a: a.update({"embedding_cov": a["embedding_cov"][:1]}),
        lambda a: a.update({"document_cov": np.zeros((9, 9))}),
        lambda a: a.update({"word_topic.data": -a["word_topic.data"]}),
        lambda a: a.update({"word_topic.data": a["word_topic.data"][:-1]}),
        lambda a: a.update({"word_topic.indices": a["word_topic.indices"] + 99}),
        lambda a: a.update({"word_topic.indices": a["word_topic.indices"] - 9}),
        lambda a: a.update({"word_topic.indptr": a["word_topic.indptr"] + 2**40}),
        lambda a: a.update({"word_topic.indptr": a["word_topic.indptr"][::-1]}),
        lambda a: a.update({"word_topic.indptr": a["word_topic.indptr"][:-1]}),
    ],
)
def test_arrays_that_do_not_fit_are_refused_though_their_checksum_does(saved, change):
    edit_arrays(saved, change)
    assert "damaged" in refused(saved)


HUGE = b'{"embedding":{"dtype":"F64","shape":[1000000000,1000000000],"data_offsets":[0,8]}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x95pickle",
        (2**62).to_bytes(8, "little") + b"{}",
        len(HUGE).to_bytes(8, "little") + HUGE + bytes(8),
    ],
)
def test_huge_declared_sizes_and_no_safetensors_at_all(saved, content):
    write_arrays(saved, content)
    assert "topics.safetensors is damaged" in refused(saved)
