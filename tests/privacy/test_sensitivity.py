"""A search finds no neighbouring data sets further apart than the proved bound, and some that nearly reach it.

Proofs: docs/privacy/summaries.md and docs/privacy/sgd.md. The learners here share no code with the library.
"""

import math

import numpy as np
import pytest

from unpooled.privacy import WeightedSums, centered_kappa, first_order_sensitivity, sgd

EXACT = 1 + 1e-9  # for sums in floating point


def climb(distance, shape, *, candidates=150, rounds=120, seed=0):
    """The largest distance found by moving many random starts uphill; a candidate is an array of the given shape."""
    rng = np.random.default_rng(seed)
    best = rng.standard_normal((candidates, *shape))
    value = distance(best)
    width = np.full(candidates, 1.0)
    for _ in range(rounds):
        spread = width.reshape(-1, *[1] * len(shape))
        tried = best + spread * rng.standard_normal(best.shape) * (rng.random(best.shape) < 0.4)
        found = distance(tried)
        better = found > value
        best[better], value[better] = tried[better], found[better]
        width = np.where(better, width * 1.5, width * 0.9).clip(1e-3, 3.0)
    return float(value.max())


def in_ball(v, radius):
    """Points beyond the ball are moved to its surface."""
    norm = np.linalg.norm(v, axis=-1, keepdims=True)
    return v * radius / np.maximum(norm, 1.0)


# --- Summaries -------------------------------------------------------------------------------------------------------


def moved_by_a_record(released):
    """Return the distance between the weighted sums of two records, for candidates of two rows (φ, y)."""
    M, kappa, c = released.n_features, released.kappa, released.label_bound
    rows, columns = np.tril_indices(M)

    def vector(record):
        phi, y = in_ball(record[:, :M], kappa), np.clip(record[:, M:], -1, 1) * c
        sums = {"phi_y": y * phi, "phi": phi, "y": y, "yy": y**2, "gram": phi[:, rows] * phi[:, columns]}
        return np.concatenate([sums[name] * weights for name, weights in released.weights.items()], axis=1)

    return lambda pairs: np.linalg.norm(vector(pairs[:, 0]) - vector(pairs[:, 1]), axis=1)


@pytest.mark.parametrize("means", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("kappa", [0.5, 3.0])
def test_first_order_sums_move_by_just_what_is_proved(means, squares, kappa):
    released = WeightedSums(3, kappa, 2.0, means=means, squares=squares)
    found = climb(moved_by_a_record(released), (2, 4))
    assert 0.98 * released.sensitivity < found <= EXACT * released.sensitivity
    if not means:
        assert released.sensitivity == pytest.approx(first_order_sensitivity(kappa, 2.0))


@pytest.mark.parametrize("means", [0.0, 0.5, 1.2])
@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("labels", [0.3, 1.0])
def test_second_order_sums_move_by_just_what_is_proved(means, squares, labels):
    released = WeightedSums(3, 0.7, 2.0, order=2, means=means, labels=labels, squares=squares)
    found = climb(moved_by_a_record(released), (2, 4), rounds=250)
    assert 0.95 * released.sensitivity < found <= EXACT * released.sensitivity


def test_the_free_squares_are_as_many_as_there_are():
    """Twice the weight of Σy² is no longer free at second order: the search finds records further apart."""
    released = WeightedSums(3, 0.7, 2.0, order=2, squares=True)
    released.weights["yy"] *= 2.0
    assert climb(moved_by_a_record(released), (2, 4)) > 1.05 * released.sensitivity


@pytest.mark.parametrize("order", [1, 2])
def test_no_record_is_larger_than_the_bound_and_packing_loses_nothing(order):
    released = WeightedSums(4, 1.3, 2.0, order=order, means=0.7, squares=True)
    apart = moved_by_a_record(released)
    zero = np.zeros((1, 5))
    assert climb(lambda rows: apart(np.stack([rows, np.broadcast_to(zero, rows.shape)], axis=1)), (5,)) <= (
        EXACT * released.largest
    )
    rng = np.random.default_rng(0)
    sums = {name: rng.standard_normal(len(weights)) for name, weights in released.weights.items()}
    back = released.unpack(released.pack(sums))
    assert back.keys() == sums.keys()
    assert all(np.allclose(back[name], sums[name], rtol=1e-14) for name in sums)
    planned = released.calibrate_noise(1000, mu=0.2)
    assert (planned.size, planned.sensitivity) == (released.size, released.sensitivity)
    assert planned.bound == 1000 * released.largest
    assert planned.sigma == pytest.approx(released.sensitivity / 0.2, rel=1e-5)


def test_a_round_of_residuals_moves_by_the_bound_of_its_loss():
    import unpooled as up

    for loss in (up.losses.Huber(0.5), up.losses.Correntropy(2.0)):

        def distance(pairs, loss=loss):
            phi, u = in_ball(pairs[..., :3], 1.5), 10 * pairs[..., 3:]  # no label is bounded
            vector = loss.derivative(u) * phi
            return np.linalg.norm(vector[:, 0] - vector[:, 1], axis=1)

        found, proved = climb(distance, (2, 4), candidates=400), first_order_sensitivity(1.5, loss.bound)
        assert 0.95 * proved < found <= EXACT * proved


def test_features_of_a_centred_kernel_stay_below_their_bound():
    import unpooled as up

    rng = np.random.default_rng(0)
    for kernel, nonnegative in ((up.kernels.Gaussian(0.3), True), (up.kernels.Matern(0.3, nu=1.5), True)):
        sample = np.concatenate([np.zeros((99, 2)), rng.uniform(-9, 9, (1, 2))])
        centred = up.kernels.Centered(kernel, sample)
        largest = math.sqrt(float(np.max(centred.diag(rng.uniform(-9, 9, (2000, 2))))))
        assert 0.9 * centered_kappa(kernel.kappa(), nonnegative) < largest
        assert largest <= EXACT * centered_kappa(kernel.kappa(), nonnegative)
    assert centered_kappa(1.0, nonnegative=False) == 2.0


# --- Stochastic gradient descent -------------------------------------------------------------------------------------

N, KAPPA, M = 6, 1.0, 4
FREQUENCIES = np.random.default_rng(5).standard_normal((M // 2, 2)) * 1.5


def features(X):
    """Cosines and sines of random frequencies: |φ(x)| = κ = 1."""
    angles = X @ FREQUENCIES.T
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1) * math.sqrt(2 / M) * KAPPA


def descend(phi, y, batches, eta, *, psi, batch_size=1, lam=0.0, averaged=False):
    """SGD on many data sets at once: phi has shape (data sets, n, M)."""
    w, mean = np.zeros((len(phi), phi.shape[2])), 0.0
    for batch in batches:
        gradient = 0.0
        for i in np.atleast_1d(batch):
            residual = np.sum(w * phi[:, i], axis=1) - y[:, i]
            gradient = gradient + psi(residual)[:, None] * phi[:, i]
        w = (1 - eta * lam) * w - eta / batch_size * gradient
        mean = mean + w / len(batches)
    return mean if averaged else w


def apart(batches, eta, record, label_bound, **how):
    """Return the distance between results of SGD on neighbours; the last of n+1 rows (x, y) replaces a record."""

    def distance(candidates):
        X, y = candidates[..., :2] * 2, np.clip(candidates[..., 2] * 2, -1, 1) * label_bound
        phi = features(X)
        other_phi, other_y = phi[:, :N].copy(), y[:, :N].copy()
        other_phi[:, record], other_y[:, record] = phi[:, N], y[:, N]
        one = descend(phi[:, :N], y[:, :N], batches, eta, **how)
        other = descend(other_phi, other_y, batches, eta, **how)
        return np.linalg.norm(one - other, axis=1)

    return distance


def huber(clip):
    return lambda u: np.clip(u, -clip, clip)


def passes(k, batch_size, seed=0):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(N) for _ in range(k)]
    return [order[i : i + batch_size] for order in orders for i in range(0, N, batch_size)]


def worst_record(batches, **how):
    """The record whose replacement is proved to matter most."""
    alone = [sgd.fixed_order([b[b == i] for b in map(np.atleast_1d, batches)], N, **how) for i in range(N)]
    return int(np.argmax(alone)), max(alone)


VARIANTS = [
    {"batch_size": 1, "lam": 0.0, "averaged": False},
    {"batch_size": 1, "lam": 0.5, "averaged": False},
    {"batch_size": 1, "lam": 0.0, "averaged": True},
    {"batch_size": 1, "lam": 0.5, "averaged": True},
    {"batch_size": 2, "lam": 0.0, "averaged": False},
    {"batch_size": 4, "lam": 0.3, "averaged": False},
    {"batch_size": N, "lam": 0.0, "averaged": False},
    {"batch_size": N, "lam": 0.3, "averaged": True},
]


@pytest.mark.parametrize("how", VARIANTS)
def test_clipped_descent_moves_by_what_is_proved_and_nearly_as_far(how):
    eta, clip, c, k = 0.3, 0.2, 3.0, 3
    G = sgd.clipped_gradient_bound(clip, KAPPA)
    batches = passes(k, how["batch_size"])
    realised = sgd.fixed_order(batches, N, eta, G, kappa=KAPPA, **how)
    whatever_order = sgd.shuffled_passes(N, k, eta, G, kappa=KAPPA, **how)
    record, alone = worst_record(batches, steps=eta, gradient=G, kappa=KAPPA, **how)
    assert alone == realised <= whatever_order * EXACT
    found = climb(apart(batches, eta, record, c, psi=huber(clip), **how), (N + 1, 3), rounds=60)
    assert 0.5 * realised < found <= EXACT * realised


@pytest.mark.parametrize("how", VARIANTS)
def test_the_bound_for_any_order_is_that_of_the_worst_order(how):
    """If all passes have the same order, some record is always last and another is always first."""
    eta, G, k, batch_size = 0.3, 0.7, 4, how["batch_size"]
    batches = [np.arange(N)[i : i + batch_size] for _ in range(k) for i in range(0, N, batch_size)]
    realised = sgd.fixed_order(batches, N, eta, G, kappa=KAPPA, **how)
    assert realised == pytest.approx(sgd.shuffled_passes(N, k, eta, G, kappa=KAPPA, **how))
    for seed in range(20):
        other = sgd.fixed_order(passes(k, batch_size, seed), N, eta, G, kappa=KAPPA, **how)
        assert other <= EXACT * sgd.shuffled_passes(N, k, eta, G, kappa=KAPPA, **how)


@pytest.mark.parametrize("clip", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_the_largest_step_is_still_safe(clip, lam):
    eta = sgd.largest_step(KAPPA, lam)
    batches = passes(4, 1)
    realised = sgd.fixed_order(batches, N, eta, clip * KAPPA, kappa=KAPPA, lam=lam)
    record, _ = worst_record(batches, steps=eta, gradient=clip * KAPPA, kappa=KAPPA, lam=lam)
    found = climb(apart(batches, eta, record, 3.0, psi=huber(clip), lam=lam), (N + 1, 3), rounds=60)
    assert found <= EXACT * realised


def test_a_step_beyond_the_largest_would_not_be():
    """Four visits of one record, two of which push others further: more than 2ηkG in the end."""
    eta = 1.8 * sgd.largest_step(KAPPA)
    clip, batches = 5.0, [0, 1, 1, 1, 1, 1]
    found = climb(apart(batches, eta, 0, 1.0, psi=huber(clip)), (N + 1, 3))
    assert found > 2 * eta * 1 * 1.0 * KAPPA, "the gradient at w = 0 is at most cκ, and there is one visit"
    with pytest.raises(ValueError, match="step must be at most 2"):
        sgd.fixed_order(batches, N, eta, clip, kappa=KAPPA)


@pytest.mark.parametrize("eta", [0.02, 0.3, 1.0])
def test_squared_loss_never_moves_further_than_realised_visits_allow(eta):
    rng = np.random.default_rng(1)
    batches, c = list(rng.integers(0, N, 15)), 1.0
    G = sgd.squared_gradient_bounds(15, eta, c, KAPPA)
    record, realised = worst_record(batches, steps=eta, gradient=G, kappa=KAPPA)
    found = climb(apart(batches, eta, record, c, psi=lambda u: u), (N + 1, 3), rounds=80)
    assert found <= EXACT * realised
    gamma = 1e-3
    most = np.bincount(batches, minlength=N).max()
    assert most <= sgd.most_visits(N, 15, gamma)
    assert realised <= sgd.wang_guo(N, 15, eta, c, KAPPA, gamma), "the triangle inequality is the better bound"
    if eta == 0.02:
        assert found > 0.5 * realised, "short steps leave little to lose"


def test_gradients_of_the_squared_loss_stay_below_their_bound():
    rng = np.random.default_rng(2)
    batches, eta, c = list(rng.integers(0, N, 12)), 0.9, 1.0

    def last_gradient(candidates):
        phi, y = features(candidates[..., :2] * 2), np.clip(candidates[..., 2] * 2, -1, 1) * c
        w = descend(phi, y, batches[:-1], eta, psi=lambda u: u)
        residual = np.sum(w * phi[:, batches[-1]], axis=1) - y[:, batches[-1]]
        return np.abs(residual) * KAPPA

    assert climb(last_gradient, (N, 3), rounds=60) <= EXACT * sgd.squared_gradient_bounds(12, eta, c, KAPPA)[-1]


def test_visits_are_rarely_more_than_the_bound():
    rng = np.random.default_rng(0)
    for n, steps in ((50, 50), (10, 1000)):
        drawn = rng.multinomial(steps, np.full(n, 1 / n), size=2000).max(axis=1)
        assert np.mean(drawn > sgd.most_visits(n, steps, 0.05)) <= 0.05


def test_what_paper_004_prints_is_no_bound():
    """n = T = 1000, c = 1, η = 1e-5: (17) as printed is an order of magnitude below what a draw of indices does."""
    n = steps = 1000
    eta, kappa, gamma = 1e-5, math.sqrt(2.0), 0.5e-6
    printed = sgd.wang_guo_as_printed(n, steps, eta, 1.0, kappa, gamma)
    assert 0.5e-5 < printed < 2e-5
    drawn = np.random.default_rng(0).integers(0, n, steps)
    most = int(np.bincount(drawn).argmax())
    # One feature √2, all other labels zero: w moves by η√2 a visit of the record.
    ends = []
    for label in (1.0, -1.0):
        w = 0.0
        for i in drawn:
            w -= eta * (w * kappa - (label if i == most else 0.0)) * kappa
        ends.append(w)
    realised = abs(ends[0] - ends[1])
    assert realised > 10 * printed
    G = sgd.squared_gradient_bounds(steps, eta, 1.0, kappa)
    assert realised <= sgd.fixed_order(drawn, n, eta, G, kappa=kappa) <= sgd.wang_guo(n, steps, eta, 1.0, kappa, gamma)


def test_full_batches_and_strong_convexity_reach_the_classical_bounds():
    G, n = 0.5, 1000
    assert sgd.full_batch(n, 40, 0.1, G, kappa=1.0) == pytest.approx(2 * 0.1 * 40 * G / n)
    lam = 0.1
    assert sgd.full_batch(n, 10_000, 0.1, G, kappa=1.0, lam=lam) == pytest.approx(2 * G / (n * lam))
    assert sgd.shuffled_passes(n, 7, 0.1, G, kappa=1.0) == pytest.approx(2 * 0.1 * 7 * G)
    assert sgd.shuffled_passes(n, 7, 0.1, G, kappa=1.0, averaged=True) == pytest.approx(0.1 * 8 * G)
    assert sgd.shuffled_passes(n, 7, 0.1, G, kappa=1.0, batch_size=50) == pytest.approx(2 * 0.1 * 7 * G / 50)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sgd.wang_guo(100, 100, 1.1, 1.0, 1.0, 1e-6), "step must be at most 1"),
        (lambda: sgd.squared_gradient_bounds(10, 1.1, 1.0, 1.0), "step must be at most 1"),
        (
            lambda: sgd.shuffled_passes(10, 1, 0.1, 1.0, kappa=1.0, batch_size=11),
            "batch_size must be at most the number of records, 10",
        ),
        (lambda: sgd.fixed_order([[0, 1]], 3, 0.1, 1.0, kappa=1.0), "at most batch_size = 1 rows"),
        (lambda: sgd.fixed_order([3], 3, 0.1, 1.0, kappa=1.0), "with numbers from 0 to 2"),
        (lambda: sgd.most_visits(10, 0, 0.1), "steps must be a whole number"),
        (lambda: sgd.clipped_gradient_bound(-1.0, 1.0), "clip must be a positive"),
        (lambda: WeightedSums(3, 1.0, 0.0), "label_bound must be a positive"),
        (lambda: WeightedSums(3, 1.0, 1.0, order=3), "order must be 1 or 2"),
        (lambda: WeightedSums(3, 1.0, 1.0, means=1.5), "means must be at most 1"),
    ],
)
def test_what_no_theorem_covers_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
