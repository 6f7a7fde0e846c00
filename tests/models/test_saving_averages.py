"""An averaged model survives a trip through a file: choices, scores, blocks and every bit of its predictions."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import unpooled as up
from tests.made_up import points

X = points(0, 80, between=(0.0, 1.0))
Y = np.column_stack([np.sin(5 * X[:, 0]), X[:, 1]])
KERNEL = up.kernels.Gaussian(0.5)
MODELS = {
    "default": (up.AveragedRegressor(), Y[:, 0]),
    "blocks": (up.AveragedRegressor(up.SpectralRegressor(KERNEL, "nu", fit_intercept=True), n_blocks=[1, 3]), Y),
    "fixed": (up.AveragedRegressor(n_blocks=2, lam=0.1, engine="threads", memory_limit=1e9, time_limit=None), Y[:, 1]),
    "per target": (
        up.AveragedRegressor(up.SpectralRegressor(per_target=True, fit_intercept=False), n_blocks=2, refit=False),
        Y,
    ),
    "correntropy": (up.AveragedRegressor(up.CorrentropyRegressor(KERNEL, fit_intercept=True), n_blocks=2), Y),
    "huber": (
        up.AveragedRegressor(
            up.CorrentropyRegressor(scale=np.inf, n_iter=9, loss="huber", fit_intercept=False), n_blocks=2
        ),
        Y[:, 0],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_saved_comes_back(name, tmp_path):
    model, y = MODELS[name]
    model.fit(X, y)
    up.save(model, tmp_path / "m.model")
    again = up.load(tmp_path / "m.model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for name, value in model.get_params(deep=False).items():
        if name == "estimator":
            assert type(again.estimator) is type(value)
        else:
            np.testing.assert_array_equal(getattr(again, name), value)
    assert again.blocks_ == model.blocks_
    assert again.n_blocks_ == model.n_blocks_
    for attribute in ("lam_", "scale_", "n_iter_", "intercept_"):
        assert hasattr(again, attribute) == hasattr(model, attribute)
        if hasattr(model, attribute):
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))
    assert hasattr(again, "path_") == hasattr(model, "path_")
    if hasattr(model, "path_"):
        np.testing.assert_array_equal(again.path_.criterion, model.path_.criterion)
        assert again.path_.as_dict().keys() == model.path_.as_dict().keys()


def test_a_compressed_model_keeps_its_report(tmp_path):
    model = up.AveragedRegressor(n_blocks=2).fit(X, Y[:, 0]).compress(10)
    up.save(model, tmp_path / "m.model")
    assert up.load(tmp_path / "m.model").compression_ == model.compression_


def test_models_of_other_libraries_are_not_saved(tmp_path):
    model = up.AveragedRegressor(Ridge(), n_blocks=2).fit(X, Y)
    with pytest.raises(ValueError, match="estimator is a Ridge, and unpooled saves its own models only"):
        up.save(model, tmp_path / "m.model")
    assert not (tmp_path / "m.model").exists()
