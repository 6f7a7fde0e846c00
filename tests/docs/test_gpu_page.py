"""The blocks of docs/gpu.md that need a GPU, run where there is one; all others are doctests."""

import re

import numpy as np
import pytest

from tests.paths import DOCS

torch = pytest.importorskip("torch")
PAGE = DOCS / "gpu.md"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_blocks_that_need_a_gpu(tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    flights = {"distance": rng.normal(size=50_000), "hour": rng.normal(size=50_000)}
    flights["delay"] = np.sin(flights["distance"]) + 0.1 * rng.normal(size=50_000)
    parquet.write_table(pa.table(flights), tmp_path / "flights.parquet")
    monkeypatch.chdir(tmp_path)
    X = torch.rand(20_000, 3, dtype=torch.float64)
    names = {"torch": torch, "up": pytest.importorskip("unpooled"), "X": X, "y": torch.sin(6 * X[:, 0])}
    blocks = re.findall(r"```python\n# needs a GPU\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) >= 3
    for block in blocks:
        exec(block, names)
    assert names["predicted"].device.type == "cuda"
