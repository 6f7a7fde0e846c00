"""Brute-force twins: the papers' formulas written out in plain NumPy, sharing no code with the library."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np


def gaussian(X, Z, length_scale=1.0):
    return np.array([[np.exp(-np.sum(((x - z) / length_scale) ** 2) / 2) for z in Z] for x in X])


def ridge_coefficients(K, y, lam):
    """(𝕂 + NλI)⁻¹ y."""
    return np.linalg.solve(K + len(K) * lam * np.eye(len(K)), y)


def centering(n, weights=None):
    """H = I - 1wᵀ."""
    w = np.full(n, 1 / n) if weights is None else weights / np.sum(weights)
    return np.eye(n) - np.outer(np.ones(n), w)


def centered_ridge(K, y, lam):
    """Wang (2018): b = mean(y) and c = H(NλI + K̂)⁻¹(y - b), K̂ = H𝕂H; returns (c, b)."""
    n = len(K)
    H = centering(n)
    return H @ np.linalg.solve(n * lam * np.eye(n) + H @ K @ H, y - y.mean()), y.mean()


def landweber_coefficients(K, y, step, t):
    """t explicit gradient steps on (1/N)‖𝕂c - y‖² in the space of the kernel: c ← c + (step/N)(y - 𝕂c)."""
    c = np.zeros_like(y, dtype=float)
    for _ in range(t):
        c = c + step / len(K) * (y - K @ c)
    return c


def nu_coefficients(K, y, step, t, nu):
    """The ν-method's two-step recursion on the coefficients (Engl, Hanke, Neubauer 1996, §6.3)."""
    old = c = np.zeros_like(y, dtype=float)
    for k in range(1, t + 1):
        if k == 1:
            mu, omega = 0.0, (4 * nu + 2) / (4 * nu + 1)
        else:
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1)
            mu /= (k + 2 * nu - 1) * (2 * k + 4 * nu - 1) * (2 * k + 2 * nu - 3)
            omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        c, old = c + mu * (c - old) + omega * step / len(K) * (y - K @ c), c
    return c


def cutoff_coefficients(K, y, lam):
    """The projection on the eigenvectors of 𝕂/N with σ ≥ λ, inverted there."""
    sigma, U = np.linalg.eigh(K / len(K))
    keep = sigma >= lam
    return (U[:, keep] / sigma[keep]) @ (U[:, keep].T @ y) / len(K)


def iterated_ridge_coefficients(K, y, lam, times):
    """Ridge on y, then ridge on what is left, and so on, added up."""
    total = np.zeros_like(y, dtype=float)
    for _ in range(times):
        total = total + ridge_coefficients(K, y - K @ total, lam)
    return total


def elementwise(formula, X, Z):
    """The matrix of a function of two rows, one pair at a time, in double precision."""
    X, Z = np.asarray(X, dtype=float), np.asarray(Z, dtype=float)
    return np.array([[formula(x, z) for z in Z] for x in X])


def laplacian(X, Z, length_scale=1.0):
    return elementwise(lambda x, z: np.exp(-np.linalg.norm((x - z) / length_scale)), X, Z)


def matern(X, Z, length_scale=1.0, nu=1.5):
    """Rasmussen and Williams 2006, (4.14) and (4.17)."""

    def value(x, z):
        s = np.sqrt(2 * nu) * np.linalg.norm((x - z) / length_scale)
        return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[nu] * np.exp(-s)

    return elementwise(value, X, Z)


def polynomial(X, Z, degree, gamma, coef0):
    return elementwise(lambda x, z: (gamma * np.dot(x, z) + coef0) ** degree, X, Z)


def brownian(X, Z):
    return elementwise(lambda x, z: 1 + min(x[0], z[0]), X, Z)


def centered_kernel(k, X, Z, sample, weights=None):
    """K(x, z) - Σ_i w_i K(u_i, z) - Σ_i w_i K(x, u_i) + Σ_ij w_i w_j K(u_i, u_j), of a function k of two matrices."""
    w = np.full(len(sample), 1 / len(sample)) if weights is None else weights / np.sum(weights)
    column, row, grand = w @ k(sample, Z), k(X, sample) @ w, w @ k(sample, sample) @ w
    return k(X, Z) - column[None, :] - row[:, None] + grand


def distances_and_masses(X, weights=None):
    """(r, mass): the distance of every pair of distinct rows, and how often it counts, w_i·w_j."""
    X = np.asarray(X, dtype=float)
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    pairs = [(i, j) for i in range(len(X)) for j in range(i) if np.any(X[i] != X[j])]
    r = np.array([np.linalg.norm(X[i] - X[j]) for i, j in pairs])
    return r, np.array([w[i] * w[j] for i, j in pairs])


def landweber_sums(x, t):
    """(Σ_{i<t} (1-x)^i, (1-x)^t) in exact rational arithmetic."""
    x = Fraction(x)
    total, power = Fraction(0), Fraction(1)
    for _ in range(t):
        total, power = total + power, power * (1 - x)
    return total, power


def nu_polynomials(x, t, nu):
    """(g_t, r_t) of the ν-method at x, the recursion in 50 decimal digits (Engl, Hanke, Neubauer 1996, §6.3)."""
    with localcontext() as context:
        context.prec = 50
        x, v = Decimal(x), Decimal(nu)
        g_old = g = Decimal(0)
        r_old = r = Decimal(1)
        for k in range(1, t + 1):
            mu, omega = Decimal(0), (4 * v + 2) / (4 * v + 1)
            if k > 1:
                mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * v - 1)
                mu /= (k + 2 * v - 1) * (2 * k + 4 * v - 1) * (2 * k + 2 * v - 3)
                omega = 4 * (2 * k + 2 * v - 1) * (k + v - 1) / ((k + 2 * v - 1) * (2 * k + 4 * v - 1))
            g, g_old = g + mu * (g - g_old) + omega * r, g
            r, r_old = r + mu * (r - r_old) - omega * x * r, r
        return Fraction(g), Fraction(r)


def empirical_features(K_uu, K_xu):
    """Qin and Guo (2019): λ^u of 𝕂_uu/n, descending, and φ_i(x) = (nλ_i)^{-1/2} Σ_j V_ji K(x, u_j) if λ_i counts."""
    values, V = np.linalg.eigh(K_uu / len(K_uu))
    values, V = values[::-1], V[:, ::-1]
    kept = values > 1e-10 * values[0]
    return values[kept], K_xu @ V[:, kept] / np.sqrt(len(K_uu) * values[kept])


def nystrom_kernel(K_xu, K_uu, K_uz):
    """K̃(x, z) = k(x, u) 𝕂_uu⁺ k(u, z): the kernel of the span of K_{u_j}."""
    return K_xu @ np.linalg.pinv(K_uu, rcond=1e-12, hermitian=True) @ K_uz


def filtered_coefficients(filter, K, y, lam, kappa_sq):
    """c = (1/N) g_λ(𝕂/N) y for a filter by its name, each by the recursion or system that defines it."""
    if filter == "tikhonov":
        return ridge_coefficients(K, y, lam)
    if filter == "iterated-tikhonov":
        return iterated_ridge_coefficients(K, y, lam, 2)
    if filter == "cutoff":
        return cutoff_coefficients(K, y, lam)
    if filter == "landweber":
        return landweber_coefficients(K, y, 1 / kappa_sq, round(kappa_sq / lam))
    return nu_coefficients(K, y, 1 / kappa_sq, round(np.sqrt(kappa_sq / lam)), 1.0)


def less(phi, y, w, spectrum, public_mean, lam, center=False):
    """Qin and Guo (2019): a = (C^u + λ)⁻¹ d and b, from rows φ(x_j) of weights w; C^u = diag(λ^u), centred with b.

    ``center`` is False, True (φ and y centred at their means over the rows) or "public" (φ at its public mean).
    """
    w = w / np.sum(w)
    if center is False:
        return (phi.T @ (w * y)) / (spectrum + lam), 0.0
    shift = public_mean if center == "public" else w @ phi
    d = phi.T @ (w * y) - shift * (w @ y)
    C = np.diag(spectrum) - np.outer(public_mean, public_mean)
    a = np.linalg.solve(C + lam * np.eye(len(C)), d)
    return a, w @ y - shift @ a


def span_ridge(phi, y, w, lam, center=False):
    """a and b of min (1/W) Σ w (y - aᵀφ - b)² + λ|a|², from the normal equations of both."""
    w = w / np.sum(w)
    n = phi.shape[1]
    Z = np.column_stack([phi, np.ones(len(phi))]) if center else phi
    penalty = lam * np.diag(np.append(np.ones(n), np.zeros(Z.shape[1] - n)))
    solution = np.linalg.solve(Z.T @ (w[:, None] * Z) + penalty, Z.T @ (w * y))
    return solution[:n], solution[n] if center else 0.0


def exact_sums(phi, Y, w):
    """n, Σw, Σwy, Σwy², Σwφ, Σwφy and Σwφφᵀ in rational arithmetic, rounded once."""

    def total(*factors):
        rows = zip(*[np.asarray(f, dtype=float) for f in factors])
        return float(sum(np.prod([Fraction(v) for v in row]) for row in rows))

    columns, labels = list(phi.T), list(Y.T)
    return {
        "weight": np.array([total(w)]),
        "y": np.array([total(w, y) for y in labels]),
        "yy": np.array([total(w, y, y) for y in labels]),
        "phi": np.array([total(w, f) for f in columns]),
        "phi_y": np.array([[total(w, f, y) for y in labels] for f in columns]),
        "gram": np.array([[total(w, f, g) for g in columns] for f in columns]),
    }
