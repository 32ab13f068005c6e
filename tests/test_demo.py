"""The demonstration, run whole: what a newcomer sees first."""

import os
import re
import subprocess
import sys

import numpy as np

from asterism import TopicEmbeddingModel


def test_the_demo_trains_shows_and_saves(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "asterism", "demo", "--topics", "12", "--dims", "5", "--out", "stars"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    shown = result.stdout
    assert max(map(len, shown.splitlines())) <= 80

    model = TopicEmbeddingModel.load(tmp_path / "stars")
    assert (model.n_topics, model.n_dims) == (12, 5)
    shares = [float(share) for share in re.findall(r"(\d+\.\d+)%", shown)]
    np.testing.assert_allclose(shares, 100 * np.sort(model.topic_shares_)[::-1], atol=0.006)

    largest = int(np.argmax(model.topic_shares_))
    assert f"topic {largest}: " in shown
    for _, correlation in model.correlated(largest, 4):
        assert f"{correlation:+.2f}" in shown
    # Several thousand words to choose from: guessing is in the thousands.
    perplexity = float(re.search(r"held-out perplexity ([\d,]+)", shown)[1].replace(",", ""))
    assert 50 < perplexity < 1000
    assert "model saved to stars" in shown

    assert "documents/s" in result.stderr
    assert "held-out perplexity" in result.stderr
    assert "left" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stars"]
