"""Partition limits: the largest m for which averaging m fits keeps the rate of one machine.

The file begins with the checks of N, r, s and the qualification, which every formula of the papers uses. All limits are
asymptotic. Their constants are unknown and dropped (they depend on κ, on the bound of the labels, on ‖h_ρ‖ and on the C
of 𝒩(λ) ≤ C λ^{-s}), and logarithms are natural.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from .._base.text import quote
from ..filters import as_filter


def is_number(value: Any) -> bool:
    """Say whether a value is a real number, and neither a truth value nor NaN."""
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


def check_rows(name: str, n: Any, least: int = 1) -> float:
    """Check and return a number of rows, which may be written as 1e6 too."""
    if not (is_number(n) and least <= n < math.inf and n == math.floor(n)):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {quote(n)}")
    return float(n)


def check_r(r: Any) -> float:
    """Check and return the regularity; the theorems need a target in the space of the kernel, r ≥ 1/2."""
    if not (is_number(r) and 0.5 <= r < math.inf):
        raise ValueError(f"r, the regularity of the target, must be a number of at least 1/2, got {quote(r)}")
    return float(r)


def check_s(s: Any) -> float:
    """Check and return the capacity exponent: 0 < s ≤ 1 in the papers, and 0 for a kernel of finite rank."""
    if not (is_number(s) and 0 <= s <= 1):
        raise ValueError(f"s, the exponent of the effective dimension, must be a number from 0 to 1, got {quote(s)}")
    return float(s)


def check_positive(name: str, value: Any) -> float:
    """Check and return a positive finite number."""
    if not (is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} must be a positive number, got {quote(value)}")
    return float(value)


def _check_qualification(filter: Any, qualification: Any) -> float:
    """Return the qualification ν of a filter or as it is given; without either it is ∞, which is no saturation."""
    if filter is not None and qualification is not None:
        raise ValueError("give either filter or qualification: a filter has its own qualification")
    if filter is not None:
        return as_filter(filter).qualification
    if qualification is None:
        return math.inf
    if not (is_number(qualification) and qualification >= 0.5):
        raise ValueError(f"qualification must be a number of at least 1/2 or infinity, got {quote(qualification)}")
    return float(qualification)


METHODS = ("spectral", "krr", "semi-supervised", "correntropy")


def cap_regularity(r: float, method: str = "spectral", filter: Any = None, qualification: Any = None) -> float:
    """Return min(r, ν), because a method of qualification ν gains nothing from more regularity.

    f_ρ = L_K^r h with r > ν is also L_K^ν h' with h' = L_K^{r-ν} h, so the theorems hold with ν in place of r. Ridge
    regression ("krr", "semi-supervised") has ν = 1, gradient descent ("correntropy") ν = ∞, and a spectral algorithm
    the ν of its filter.
    """
    if method not in METHODS:
        names = ", ".join(repr(name) for name in METHODS)
        raise ValueError(f"method must be one of {names}, got {quote(method)}")
    r, nu = check_r(r), _check_qualification(filter, qualification)
    if method != "spectral" and not (filter is None and qualification is None):
        raise ValueError(
            f"filter and qualification can only be given with method='spectral': method={method!r} has a qualification "
            "of its own"
        )
    return min(r, 1.0 if method in ("krr", "semi-supervised") else nu)


def partition_limit(
    n: float,
    r: float,
    s: float,
    method: str = "spectral",
    n_total: float | None = None,
    *,
    filter: Any = None,
    qualification: float | None = None,
) -> float:
    """Return the largest number of equal blocks whose average has the rate of one machine with all N rows.

    ======================  =================================================================  ========================
    method                  m ≤                                                                source
    ======================  =================================================================  ========================
    ``"spectral"``          N^{min{2, 2r-1}/(2r+s)}, 1/2 ≤ r ≤ ν                               Guo, Lin and Zhou (2017),
                                                                                               (9)
    ``"krr"``               N^{(r-1/2)/(2r+s)} / (log³N + 1), 1/2 < r ≤ 1                      Wang (2018), (3.2)
    ``"semi-supervised"``   min{ N*^{1/2} N^{-(s+1)/(4r+2s)} / (log³N + 1),                    Wang (2018), (3.25)
                            N*^{1/3} N^{(2r+s-2)/(6r+3s)} / (log³N + 1), N }, 1/2 < r ≤ 1
    ``"correntropy"``       N^{(r-1/2)/(2r+s)} / log⁵N, r > 1/2                                Xie, Hu, Wang and Wang
                                                                                               (2022), (8)
    ======================  =================================================================  ========================

    In (3.25) N* = |D*| counts labeled and unlabeled rows. The sign of its second exponent is the one that its proof
    gives (the printed sign is reversed), and with N* = N it is (3.2). Logarithms are natural and constants are dropped,
    so read the limits as orders of growth. The logarithms push (3.2), (3.25) and (8) below one for every realistic N;
    this means that the proof says nothing there, and not that averaging fails.

    Parameters
    ----------
    n : N, the number of labeled rows of all blocks together, at least 2
    r : regularity of the target, f_ρ = L_K^r h_ρ; the part beyond the qualification does not count
    s : 0 ≤ s ≤ 1 with 𝒩(λ) ≤ C λ^{-s}
    method : one of the four above
    n_total : N*, for "semi-supervised" only
    filter, qualification : a filter (or its name) or its ν, for "spectral" only; without either, no saturation

    Returns
    -------
    float
        The bound itself, neither rounded down nor raised to one.
    """
    n, s = check_rows("n", n, least=2), check_s(s)
    r = cap_regularity(r, method, filter, qualification)
    if method != "spectral" and r == 0.5:
        raise ValueError(f"r must be more than 1/2 with method={method!r}, got 0.5")
    if (n_total is not None) != (method == "semi-supervised"):
        raise ValueError(
            "n_total, the number of labeled and unlabeled rows, must be given with method='semi-supervised', and only "
            "with it"
        )
    if method == "spectral":
        return n ** (min(2.0, 2 * r - 1) / (2 * r + s))
    if method == "correntropy":
        return n ** ((r - 0.5) / (2 * r + s)) / math.log(n) ** 5
    logs = math.log(n) ** 3 + 1
    if method == "krr":
        return n ** ((r - 0.5) / (2 * r + s)) / logs
    total = check_rows("n_total", n_total)
    if total < n:
        raise ValueError(f"n_total must be at least n = {n:.0f}, since it counts the labeled rows too, got {total:.0f}")
    first = total ** (1 / 2) * n ** (-(s + 1) / (4 * r + 2 * s)) / logs
    second = total ** (1 / 3) * n ** ((2 * r + s - 2) / (6 * r + 3 * s)) / logs
    return min(first, second, n)


def largest_supported_blocks(
    n: float, s: float = 0.0, *, filter: Any = None, qualification: float | None = None
) -> float:
    """Return the largest number of blocks that Guo, Lin and Zhou (2017), (9), allow for ANY regularity: N^{2/(3+s)}.

    (2r-1)/(2r+s) grows in r and 2/(2r+s) falls; they are equal at r = 3/2. A filter of qualification ν < 3/2 does not
    get that far: its largest number of blocks is at r = ν, N^{(2ν-1)/(2ν+s)}, which is N^{1/(2+s)} for Tikhonov. With
    more blocks, no assumption on the target makes (9) hold. The default ``s=0`` is the most permissive of all kernels,
    with N^{2/3}.

    Parameters
    ----------
    n : N, the number of rows of all blocks together
    s : the capacity of the kernel
    filter, qualification : the filter, or its qualification ν
    """
    return partition_limit(n, min(1.5, _check_qualification(filter, qualification)), s)
