"""A release that every default policy lets pass, and others that differ from it."""

import dataclasses

from unpooled.gate import Release

FINE = Release(
    kind="summary",
    basis="abc",
    targets=("stay",),
    order=1,
    n_rows=100,
    n_features=15,
    n_targets=1,
    largest_label_share=0.05,
    is_residual=False,
    private=None,
    numbers=18,
    bytes=1200,
)


def release(**changes):
    return dataclasses.replace(FINE, **changes)
