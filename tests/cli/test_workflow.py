"""The file workflow: what a consortium types, from a basis to predictions.

Tests `cli/basis.py`, `cli/fit.py` and `cli/tables.py`.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import unpooled as up
from tests.cases.cli import answer_of, call, write
from tests.made_up import COLUMNS, patients
from unpooled._base.compensated import Sum
from unpooled.federation.site.statistics import Totals

SITES = ["north", "south"]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with public rows, two sites and rows to predict; the basis has six features."""
    monkeypatch.chdir(tmp_path)
    write(patients(1, 60), tmp_path, "public")
    for number, site in enumerate(SITES):
        write(patients(2 + number, 90 + 40 * number), tmp_path, site)
    write(patients(9, 50), tmp_path, "new")
    call("basis", "public.parquet", "-o", "study.basis", "--columns", ",".join(COLUMNS), "--n-features", "6")
    return tmp_path


def rows_of(*names):
    table = pa.concat_tables([pa.parquet.read_table(f"{name}.parquet") for name in names])
    return np.column_stack([table[name] for name in COLUMNS]), table["stay"].to_numpy()


def summarize(kind="parquet", **how):
    options = [part for name, value in how.items() for part in (f"--{name.replace('_', '-')}", value)]
    for site in SITES:
        call("summarize", "study.basis", f"{site}.{kind}", "--target", "stay", "-o", f"{site}.summary", *options)
    return [f"{site}.summary" for site in SITES]


COMMANDS = """
unpooled() { "$PYTHON" -m unpooled "$@"; }
set -e
unpooled basis public.parquet -o study.basis --drop id,stay,w,site --n-features 6
unpooled summarize study.basis north.parquet --target stay -o north.summary --order 2
unpooled summarize study.basis south.csv --target stay -o south.summary --order 2
unpooled inspect north.summary
unpooled merge *.summary -o all.summary
unpooled fit all.summary -o study.model
unpooled predict study.model new.parquet -o predictions.parquet
unpooled log verify --json >verified.json
"""


def test_the_commands_as_people_type_them(tmp_path):
    write(patients(1, 60), tmp_path, "public")
    for number, site in enumerate(SITES):
        write(patients(2 + number, 90 + 40 * number), tmp_path, site)
    write(patients(9, 50), tmp_path, "new")
    source = Path(up.__file__).parent.parent
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", COMMANDS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "A second-order summary of 90 rows" in done.stdout
    assert json.loads((tmp_path / "verified.json").read_text())["count"] == 2
    predicted = pa.parquet.read_table(tmp_path / "predictions.parquet")
    truth = pa.parquet.read_table(tmp_path / "new.parquet")["stay"].to_numpy()
    errors = predicted["stay_predicted"].to_numpy() - truth
    assert np.sqrt(np.mean(errors**2)) < 0.8 * np.std(truth)


def test_files_give_the_model_that_the_library_gives(study):
    call("fit", *summarize(order=2), "-o", "study.model", "--lam", "0.01")
    X, y = rows_of(*SITES)
    basis = up.bases.load("study.basis")
    frame = pa.table({name: X[:, j] for j, name in enumerate(COLUMNS)})
    pooled = up.SummaryRegressor(lam=0.01, fit_intercept=True).fit_summary(up.Summary.of(basis, frame, y, order=2))
    new, _ = rows_of("new")
    np.testing.assert_allclose(up.load("study.model").predictor_.predict(new), pooled.predictor_.predict(new), 1e-10)


@pytest.mark.parametrize("order", [1, 2])
def test_csv_and_parquet_give_equal_models(study, order):
    models = []
    for kind in ("parquet", "csv"):
        call("fit", *summarize(kind, order=order), "-o", f"{kind}.model")
        models.append(Path(f"{kind}.model").read_bytes())
    assert models[0] == models[1]
    call("basis", "public.csv", "-o", "csv.basis", "--columns", ",".join(COLUMNS), "--n-features", "6")
    assert Path("csv.basis").read_bytes() == Path("study.basis").read_bytes()


def test_merging_first_or_not_and_in_any_order_gives_the_same_file(study):
    north, south = summarize()
    call("merge", north, south, "-o", "all.summary")
    call("merge", south, north, "-o", "other.summary")
    assert Path("all.summary").read_bytes() == Path("other.summary").read_bytes()
    call("fit", "all.summary", "-o", "a.model")
    call("fit", south, north, "-o", "b.model")
    assert Path("a.model").read_bytes() == Path("b.model").read_bytes()


def test_rounds_by_files_reach_ridge_regression_on_the_pooled_rows(study):
    found = answer_of("fit", *summarize(), "-o", "round1.model", "--ridge", "--steps", "conjugate", "--lam", "0.01")
    left = [found["floor"]["error"]]
    for number in range(2, 11):
        for site in SITES:
            call(
                *("summarize", "study.basis", f"{site}.parquet", "-o", f"{site}.summary"),
                *("--residuals-of", f"round{number - 1}.model"),
            )
        found = answer_of("fit", "north.summary", "south.summary", "-o", f"round{number}.model")
        assert found["rounds"] == number
        left.append(found["left"])
    call("fit", *summarize(order=2), "-o", "exact.model", "--lam", "0.01")
    exact, last = up.load("exact.model"), up.load("round10.model")
    np.testing.assert_allclose(last.coef_, exact.coef_, rtol=1e-6)
    np.testing.assert_allclose(last.intercept_, exact.intercept_, rtol=1e-8)
    assert left[-1] < 1e-6


def test_robust_rounds_carry_their_loss_along(study):
    found = summarize(loss="huber", scale=0.5)
    call("fit", *found, "-o", "round1.model")
    for site in SITES:
        options = ("--residuals-of", "round1.model")
        made = answer_of("summarize", "study.basis", f"{site}.csv", "-o", f"{site}.summary", *options)
        assert made["loss"] == "huber 0.5"
        assert made["targets"] == ["stay"]
    assert answer_of("fit", *found, "-o", "round2.model")["rounds"] == 2


@pytest.mark.filterwarnings("ignore:.*public rows stand in for")
@pytest.mark.parametrize("order", [1, 2])
def test_the_second_exchange_finds_the_lam_of_exact_leave_one_out(study, order):
    found = summarize(order=order)
    call("fit", *found, "-o", "first.model", "--candidates", "candidates.models")
    for site in SITES:
        call("validate", "candidates.models", f"{site}.parquet", "--target", "stay", "-o", f"{site}.scores")
    call("merge", "north.scores", "south.scores", "-o", "all.scores")
    result = answer_of("fit", *found, "-o", "study.model", "--scores", "all.scores")
    assert result["path"]["criterion_name"] == "loo"
    # Every row left out in turn, by brute force.
    X, y = rows_of(*SITES)
    basis, grid = up.bases.load("study.basis"), np.asarray(result["path"]["lam"])
    Phi, n = basis.features(X), len(y)
    errors = np.empty((n, len(grid)))
    for i in range(n):
        kept = np.arange(n) != i
        P, b = Phi[kept], y[kept]
        m = P.mean(axis=0)
        C = P.T @ P / (n - 1) - np.outer(m, m)
        # With rows of their own, leave-one-out holds nλ fixed.
        lams = grid * n / (n - 1) if order == 2 else grid
        if order == 1:
            C = np.diag(basis.eigenvalues_) - np.outer(basis.mean_, basis.mean_)
        d = P.T @ b / (n - 1) - m * b.mean()
        for j, lam in enumerate(lams):
            a = np.linalg.solve(C + lam * np.eye(len(C)), d)
            errors[i, j] = y[i] - b.mean() - (Phi[i] - m) @ a
    scores = np.mean(errors**2, axis=0)
    np.testing.assert_allclose(result["path"]["criterion"], scores, rtol=1e-6)
    assert result["lam"] == grid[np.argmin(scores)]


def test_candidates_that_another_machine_has_rounded_otherwise_will_do(study):
    found = summarize()
    call("fit", *found, "-o", "first.model", "--candidates", "mine.models")
    mine = up.Candidates.load("mine.models")
    theirs = dataclasses.replace(mine, coef=mine.coef * (1 + 4e-16))
    theirs.save("theirs.models")
    assert theirs.digest != mine.digest
    for site in SITES:
        call("validate", "theirs.models", f"{site}.csv", "-o", f"{site}.scores")
    call("fit", *found, "-o", "study.model", "--scores", "north.scores", "--scores", "south.scores")


def test_scores_that_lack_a_site_are_worth_a_warning(study):
    found = summarize()
    call("fit", *found, "-o", "first.model", "--candidates", "candidates.models")
    call("validate", "candidates.models", "north.csv", "-o", "north.scores")
    result = answer_of("fit", *found, "-o", "study.model", "--scores", "north.scores")
    assert any("the scores are of 90 rows, and the summaries of 220" in warning for warning in result["warnings"])


def test_weights_count_as_repeated_rows(study):
    made = answer_of(
        "summarize", "study.basis", "north.csv", "--target", "stay", "--sample-weight", "w", "-o", "a.summary"
    )
    assert made["n_rows"] == 90
    table = pa.parquet.read_table("north.parquet")
    assert up.Summary.load("a.summary").weight == pytest.approx(sum(table["w"].to_pylist()))


def test_several_labels_have_a_prediction_each(study):
    for site in SITES:
        call("summarize", "study.basis", f"{site}.csv", "--target", "stay,w", "-o", f"{site}.summary", "--order", 2)
    call("fit", "north.summary", "south.summary", "-o", "study.model")
    found = answer_of("predict", "study.model", "new.csv", "-o", "new.predicted.csv", "--keep", "id")
    assert found["columns"] == ["id", "stay_predicted", "w_predicted"]


def test_predictions_keep_the_order_of_rows_and_the_columns_asked_for(study):
    call("fit", *summarize(order=2), "-o", "study.model")
    pa.parquet.write_table(pa.parquet.read_table("new.parquet"), "groups.parquet", row_group_size=7)
    expected = up.load("study.model").predictor_.predict(rows_of("new")[0])[:, 0]
    for data in ("new.parquet", "new.csv", "groups.parquet"):
        for output in ("p.parquet", "p.csv"):
            call("predict", "study.model", data, "-o", output, "--keep", "id,site")
            text = pa.csv.ConvertOptions(column_types={"id": pa.string()})
            read = pa.parquet.read_table if output.endswith("parquet") else _csv_reader(text)
            found = read(output)
            assert found.column_names == ["id", "site", "stay_predicted"]
            assert found["id"].to_pylist() == [f"{i:04d}" for i in range(50)]
            np.testing.assert_allclose(found["stay_predicted"], expected, rtol=1e-12)


def _csv_reader(options):
    return lambda path: pa.csv.read_csv(path, convert_options=options)


def test_a_table_without_rows_gives_predictions_without_rows(study):
    call("fit", *summarize(order=2), "-o", "study.model")
    write(patients(9, 50).slice(0, 0), study, "none")
    for kind in ("csv", "parquet"):
        assert answer_of("predict", "study.model", f"none.{kind}", "-o", f"p.{kind}", "--keep", "id")["n_rows"] == 0
    assert pa.parquet.read_table("p.parquet").column_names == ["id", "stay_predicted"]


def test_a_basis_of_waves_keeps_no_row(study):
    found = answer_of(
        "basis", "public.csv", "-o", "waves.basis", "--drop", "id,stay,w,site", "--random", "--n-features", 20
    )
    assert found["rows_kept"] == 0
    assert found["columns"] == COLUMNS
    assert found["n_features"] == 20


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern"])
def test_kernels_and_length_scales(study, kernel):
    call(
        *("basis", "public.csv", "-o", "b.basis", "--columns", "age,dose", "--kernel", kernel),
        *("--length-scale", 0.7, "--max-points", 30, "--no-standardize"),
    )
    basis = up.bases.load("b.basis")
    assert type(basis.kernel_).__name__.lower() == kernel
    assert basis.kernel_.length_scale == 0.7
    assert basis.map_.size <= 30
    assert basis.map_.scaling is None


@pytest.mark.parametrize("kernel", ["gaussian", "matern", "laplacian", "linear", "polynomial", "rbf", "cosine"])
def test_the_name_of_a_kernel_means_the_same_as_in_python(study, kernel):
    call(*("basis", "public.parquet", "-o", "b.basis", "--columns", ",".join(COLUMNS), "--kernel", kernel))
    U, _ = rows_of("public")
    twin = up.bases.EmpiricalFeatures(kernel, standardize=True, max_points=1000).fit(U).name_columns(COLUMNS)
    assert up.bases.load("b.basis").digest == twin.digest


def test_inspect_knows_every_kind(study):
    call("fit", *summarize(), "-o", "study.model", "--candidates", "candidates.models")
    call("validate", "candidates.models", "north.csv", "-o", "north.scores")
    Totals("0" * 64, 12, {"square": Sum.of(np.ones(3))}).save("0001.total")  # as a study's folder has them
    kinds = {
        "study.basis": ("basis", "6 features of the kernel"),
        "north.summary": ("summary", "the sum over the rows of y·φ_i(x)"),
        "study.model": ("model", "It also holds the sum it was learned from"),
        "candidates.models": ("candidates", "28 candidate models for stay"),
        "north.scores": ("scores", "30 numbers in all"),
        "0001.total": ("totals", "Sums over 12 rows of all sites"),
    }
    for name, (kind, words) in kinds.items():
        found = answer_of("inspect", name)
        assert found["kind"] == kind
        assert words in found["description"]
        assert words in call("inspect", name).stdout
        assert found["header"]["format"] == (2 if kind == "model" else 1)


def test_python_and_the_script_are_the_same_command():
    assert call("--version").stdout.strip() == up.__version__
