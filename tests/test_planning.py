"""What a fit will need, told beforehand."""

import logging
import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

from asterism import TopicEmbeddingModel, planning, sample_corpus
from asterism.cli import app
from asterism.errors import InputError
from asterism.planning import Plan, Size

GB = 10**9


@pytest.fixture(scope="module")
def counts():
    return sample_corpus(600, 8, 500, 3, mean_length=60, seed=0).counts


def test_sizes_are_counted(counts):
    size = Size.of(counts, n_topics=50, n_dims=7)
    assert (size.documents, size.words) == counts.shape
    assert (size.tokens, size.entries) == (counts.sum(), counts.nnz)
    assert (size.topics, size.dims) == (50, 7)
    draws = np.random.default_rng(0).integers(0, 50, counts.sum())
    token_words = np.repeat(counts.indices, counts.data)
    assert len(np.unique(token_words * 50 + draws)) <= size.pairs <= min(counts.sum(), 500 * 50)


@pytest.mark.parametrize(("n_topics", "n_dims"), [(20, 5), (700, 40)])
def test_memory_is_what_a_fit_takes(counts, n_topics, n_dims):
    """At most, and no more than twice: what is too much would refuse what could be done."""
    model = TopicEmbeddingModel(
        n_topics, n_dims, warm_sweeps=20, draw_sweeps=2, max_sweeps=3, n_threads=2, random_state=0
    )
    model.fit(counts)  # compiles
    tracemalloc.start()
    model.fit(counts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    needed = max(planning.memory_needed(Size.of(counts, n_topics, n_dims), True, 2).values())
    work = planning.A_WEIGHT * planning.MOST_WEIGHTS  # of which so few documents take a part
    assert needed - work < peak < needed


def test_memory_grows_with_everything():
    small = Size(10_000, 5_000, 10**6, 600_000, 10**6, 100, 50)
    needed = max(planning.memory_needed(small, True, 1).values())
    for larger in (
        Size(10**6, 5_000, 10**8, 6 * 10**7, 500_000, 100, 50),
        Size(10_000, 5_000, 10**6, 600_000, 10**6, 100_000, 50),
        Size(10_000, 5_000, 10**6, 600_000, 10**6, 100, 50_000),
    ):
        assert max(planning.memory_needed(larger, True, 1).values()) > needed
    many_threads = planning.memory_needed(small, True, 64)["expectations"]
    assert many_threads > planning.memory_needed(small, True, 1)["expectations"]
    assert max(planning.memory_needed(small, False, 1).values()) < needed


def test_a_hundred_thousand_topics_of_300_000_abstracts_take_less_than_8_gb():
    """Of arXiv's size: 20 million tokens, 20,000 words."""
    size = Size(300_000, 20_000, 20 * 10**6, 17 * 10**6, 19 * 10**6, 100_000, 50)
    assert 2 * GB < max(planning.memory_needed(size, True, 2).values()) < 8 * GB


def test_fit_refuses_what_cannot_fit_with_the_numbers(counts, monkeypatch, caplog):
    monkeypatch.setattr("asterism.topic_model.available_memory", lambda: 10**6)
    model = TopicEmbeddingModel(20, 5)
    with pytest.raises(InputError, match=r"20 topics of 600 documents need about 0\.\d+ GB of the 0\.001 GB that are"):
        model.fit(counts)
    assert not hasattr(model, "state_")
    monkeypatch.setattr("asterism.topic_model.available_memory", lambda: None)
    with caplog.at_level(logging.INFO, "asterism"):
        model.set_params(warm_sweeps=1, max_sweeps=1).fit(counts)
    assert "20 topics of 600 documents need about" in caplog.text


def test_a_long_fit_tells_its_seconds_beforehand_and_learns_the_same(counts, monkeypatch, caplog, capsys):
    model = TopicEmbeddingModel(20, 5, warm_sweeps=2, draw_sweeps=1, max_sweeps=2, random_state=0, verbose=True)
    with caplog.at_level(logging.INFO, "asterism.topic_model"):
        short = model.fit(counts).topic_embeddings_
        assert "a sweep:" not in caplog.text
        monkeypatch.setattr(planning, "TRIED", 20 * 100)
        monkeypatch.setattr(planning, "FEWEST_TRIED", 32)
        monkeypatch.setattr(planning, "LONG", 2)
        model.fit(counts)
    assert "a sweep: LDA " in caplog.text
    assert "20 topics of 600 documents need about" in capsys.readouterr().err
    np.testing.assert_array_equal(model.topic_embeddings_, short)


def test_available_memory_is_what_the_group_may_have(tmp_path, monkeypatch):
    assert planning.available_memory() > 10**7
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(planning, "GROUP", tmp_path)
    assert planning.available_memory() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert planning.available_memory() > 10**7


@pytest.mark.parametrize("inference", ["memoized", "svi"])
def test_a_plan_tells_seconds_and_learns_nothing(counts, inference):
    model = TopicEmbeddingModel(20, 5, inference=inference, random_state=0)
    plan = model.plan(counts)
    assert not hasattr(model, "state_")
    assert set(plan.seconds) == set(plan.memory)
    assert all(0 < seconds < 60 for seconds in plan.seconds.values())
    assert plan.fits
    assert "a sweep:" in str(plan)


def test_seconds_grow_with_the_documents(monkeypatch):
    """Of a sweep that costs 2 s as such and 1 s a token."""
    counts = sample_corpus(900, 4, 30, 2, mean_length=10, seed=0).counts
    monkeypatch.setattr(planning, "TRIED", 4 * 200)
    monkeypatch.setattr(planning, "_tried", lambda some: {"sweeps": 2.0 + some.sum()})
    found = planning.sweep_seconds(counts, 4, lambda some: some)
    assert found["sweeps"] == pytest.approx(2 + counts.sum())


def test_durations_and_sizes_read_well():
    assert [planning.duration(s) for s in (0.0123, 5.0, 600.0, 86400.0)] == ["0.012 s", "5 s", "10 min", "24.0 h"]
    assert [planning.gigabytes(int(b)) for b in (3e7, 2.54e9, 1.234e11)] == ["0.03 GB", "2.5 GB", "123 GB"]


def test_the_command_prints_the_plan(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(f"topic models find {word} in documents" for word in ("cats", "dogs", "birds") * 9))
    shown = CliRunner().invoke(app, ["plan", str(source), "--topics", "3", "--dims", "2"])
    assert shown.exit_code == 0, shown.output
    for part in ("27 documents", "3 topics", "LDA", "draws", "expectations", "needs about", "it fits"):
        assert part in shown.output
    as_json = CliRunner().invoke(app, ["plan", str(source), "--topics", "3", "--json"])
    assert '"fits": true' in as_json.output


def test_what_does_not_fit_is_said():
    plan = Plan(Size(1, 1, 1, 1, 1, 2, 2), {"LDA": 9 * GB}, 3 * GB)
    assert not plan.fits
    assert str(plan) == "2 topics of 1 documents need about 9 GB of the 3 GB that are free"
