"""Engines: one canonical order of combination, the same bits everywhere, faults survived or named.

Tests `_base/progress.py`, `engines/dask.py` and `engines/local.py`.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from functools import partial

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unpooled as up
from tests.made_up import regression, sine
from unpooled._base.engine import BlockError, Engine, NamedStatistic, Tree
from unpooled._base.threads import count_threads
from unpooled.engines import Processes, Threads, as_engine

KERNEL = up.kernels.Gaussian(0.5)


@dataclass
class Number:
    """The smallest part there is."""

    name: str
    value: float

    def pack(self):
        return self

    def load(self):
        return self


def value(part, *args):
    return part.value


def value_plus(part, secret, shift):
    return part.value + shift


def bracket(a, b):
    return f"({a} {b})"


def fails_at_three(part):
    if part.value == 3:
        raise ZeroDivisionError("three is too many")
    return part.value


def add(a, b):
    return a + b


def dies_once(part, folder):
    """Kills its own process the first time it is called for part 2."""
    mark = os.path.join(folder, "died")
    if part.value == 2 and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return part.value


def always_dies(part):
    if part.value == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return part.value


def blas_threads(part):
    return [count_threads()]


def parts(n):
    return [Number(str(i), float(i)) for i in range(n)]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True, silence_logs=50
    )
    client = distributed.Client(cluster, set_as_default=False)
    yield client
    client.close()
    cluster.close()


@pytest.fixture(params=["threads", "one thread", "processes", "dask"])
def engine(request):
    if request.param == "dask":
        return as_engine(request.getfixturevalue("client"))
    return {"threads": Threads(3), "one thread": Threads(1), "processes": Processes(2)}[request.param]


def folded(values):
    """The canonical fold, written again: neighbours first, level by level."""
    while len(values) > 1:
        values = [bracket(*values[i : i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]


@given(n=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_fold_is_one_tree_in_whatever_order_results_come(n, seed):
    tree = Tree(n, bracket)
    for i in np.random.default_rng(seed).permutation(n):
        tree.add(int(i), str(i))
    assert tree.result == folded([str(i) for i in range(n)])


def test_an_engine_that_says_only_how_it_works_is_an_engine():
    class Backwards(Engine):
        n_workers = 1

        def work(self, task, progress):
            tree = task.make_tree()
            for i, part in reversed(list(enumerate(task.parts))):
                tree.add(i, task.run_on(part))
                progress.advance()
            return tree.result

    assert Backwards().map_reduce(value, parts(7), bracket) == folded([float(i) for i in range(7)])
    with pytest.raises(BlockError, match="'3' failed: three is too many"):
        Backwards().map_reduce(fails_at_three, parts(5), add)


def test_a_named_statistic_is_its_function_and_asks_with_its_public_arguments_alone(engine):
    statistic = NamedStatistic("value", value_plus, public=("shift",))
    assert engine.map_reduce(statistic, parts(4), add, args=("kept here", 2.0)) == 14.0
    assert statistic.question(("kept here", 2.0)) == {"shift": 2.0}


def test_a_tree_without_all_its_leaves_has_no_result():
    tree = Tree(3, add)
    tree.add(0, 1.0)
    with pytest.raises(RuntimeError, match="have not reported"):
        _ = tree.result


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_every_engine_folds_alike(engine, n):
    assert engine.map_reduce(value, parts(n), bracket) == folded([float(i) for i in range(n)])


def test_a_part_that_fails_is_named(engine):
    with pytest.raises(up.BlockError, match="block '3' failed: three is too many"):
        engine.map_reduce(fails_at_three, parts(5), add)
    assert engine.map_reduce(value, parts(4), add) == 6.0  # and the engine is as good as before


def test_no_parts_are_an_error(engine):
    with pytest.raises(ValueError, match="at least one part"):
        engine.map_reduce(value, [], add)


def test_blas_is_held_to_the_cores_there_are(engine):
    shares = engine.map_reduce(blas_threads, parts(4), add)
    assert max(shares) * min(engine.n_workers, 4) <= max(joblib.cpu_count(), engine.n_workers)


def test_a_killed_process_is_replaced_and_its_part_done_again(tmp_path):
    total = Processes(2).map_reduce(dies_once, parts(6), add, args=(str(tmp_path),))
    assert total == 15.0
    assert (tmp_path / "died").exists()


def test_a_part_that_kills_every_process_is_named():
    with pytest.raises(up.BlockError, match=r"died 2 times while one of the blocks .*'2'"):
        Processes(2, retries=1).map_reduce(always_dies, parts(4), add)


def test_a_killed_dask_worker_is_survived(tmp_path, client):
    total = as_engine(client).map_reduce(dies_once, parts(6), add, args=(str(tmp_path),))
    assert total == 15.0
    assert (tmp_path / "died").exists()


some_data = partial(regression, n=120, between=(0.0, 1.0), function=sine(5))


@pytest.mark.parametrize("filter", ["tikhonov", "landweber"])
def test_models_are_the_same_to_the_bit_on_every_engine(engine, filter):
    X, y = some_data()
    U = some_data(n=60)[0]
    sites = np.random.default_rng(1).integers(0, 7, len(X))
    for given_ in ({}, {"sites": sites}, {"unlabeled": U}):
        local = up.SpectralRegressor(filter=filter, fit_intercept=True)
        models = [up.AveragedRegressor(local, n_blocks=5, engine=e).fit(X, y, **given_) for e in (Threads(2), engine)]
        a, b = models
        assert a.lam_ == b.lam_
        np.testing.assert_array_equal(a.path_.criterion, b.path_.criterion)
        np.testing.assert_array_equal(a.predictor_.coef, b.predictor_.coef)
        np.testing.assert_array_equal(a.predictor_.intercept, b.predictor_.intercept)
        np.testing.assert_array_equal(a.predictor_.points, b.predictor_.points)


def test_a_block_that_fails_names_itself_and_no_model_is_left(engine):
    X, y = some_data(n=30)
    model = up.AveragedRegressor(up.SpectralRegressor(fit_intercept=False), lam="local", engine=engine)
    with pytest.raises(up.BlockError, match="block 'tiny' failed: lam='loo' needs at least 2 rows"):
        model.fit(X, y, sites=["big"] * 29 + ["tiny"])
    assert not hasattr(model, "predictor_")


def test_engines_are_named_in_many_ways(client):
    assert isinstance(as_engine(None), Threads)
    assert isinstance(as_engine("threads"), Threads)
    assert isinstance(as_engine("processes"), Processes)
    assert as_engine(client).client is client
    by_address = as_engine(client.scheduler.address)
    assert by_address.map_reduce(value, parts(3), add) == 3.0
    by_address.close()
    ready = Threads(1)
    assert as_engine(ready) is ready
    with pytest.raises(ValueError, match="n_workers must be a positive whole number or None"):
        Threads(0)


def test_what_dask_computes_with_is_no_engine():
    arrays = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="engine must be 'threads'"):
        as_engine(arrays.zeros(3))


def test_joblib_names_the_backend():
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert Processes().map_reduce(value, parts(5), bracket) == folded([float(i) for i in range(5)])


def test_interrupted_work_leaves_no_process_behind(tmp_path):
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal, time
            import numpy as np
            import unpooled as up
            from sklearn.base import BaseEstimator, RegressorMixin

            # A shell or a test before this one may have left the signal ignored or blocked, which children inherit.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

            class Slow(RegressorMixin, BaseEstimator):
                def fit(self, X, y):
                    print(os.getpid(), flush=True)
                    time.sleep(60)
                    return self

            if __name__ == "__main__":
                X = np.ones((8, 1)) * np.arange(8)[:, None]
                up.AveragedRegressor(Slow(), n_blocks=4, engine="processes", verbose=0).fit(X, X[:, 0])
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        workers = {int(process.stdout.readline())}
        _interrupt(process)
    assert process.returncode != 0
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_alive(pid) for pid in workers)


def _interrupt(process):
    """Press Ctrl-C until the process ends: Python drops an interrupt that arrives while an object is being deleted."""
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
        return
    raise AssertionError("thirty seconds of interrupts did not end the process")


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
