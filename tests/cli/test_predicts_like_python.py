"""`unpooled predict` writes what ``model.predict`` returns, for models that are more than their coefficients too."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import unpooled as up
from tests.made_up import CUBE, columns, regression
from unpooled.cli import app


def table(folder, n=200):
    X, y = regression(n=n, between=CUBE, function=lambda X: 3 * np.sin(3 * X[:, 0]), noise=0.0)
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns(X, y)), path)
    return path, pq.read_table(path, columns=["a", "b"]).to_pandas(), y


@pytest.mark.parametrize(
    "model",
    [
        up.NystromRegressor(n_features=30, fit_intercept=False),
        up.PrivateSGDRegressor(epsilon=50.0, delta=1e-6, label_bound=1.0, kernel=up.kernels.Gaussian(0.7)),
    ],
)
def test_the_file_holds_what_the_model_predicts(tmp_path, model):
    path, frame, y = table(tmp_path)
    model.fit(frame, y)
    up.save(model, tmp_path / "m.model")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "m.model"), str(path), "-o", str(tmp_path / "p.parquet")])
    assert done.exit_code == 0, done.output
    written = pq.read_table(tmp_path / "p.parquet").column(0).to_numpy()
    np.testing.assert_array_equal(written, model.predict(frame))
    if isinstance(model, up.PrivateSGDRegressor):
        # Coefficients alone would go beyond the bound that was promised.
        assert np.abs(written).max() <= 1.0
