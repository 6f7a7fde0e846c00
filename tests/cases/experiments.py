"""Experiments that take no time, and ways to break the file of a result."""

from __future__ import annotations

import json

from unpooled.reproduce import experiment as running
from unpooled.reproduce.experiment import Experiment
from unpooled.reproduce.outcome import FAILS, HOLDS, Curve, Outcome, Panel, Table, Verdict

OUTCOME = Outcome(
    (Table("A table", ("x", "y"), ((1, 0.5), (20_000, None))),),
    (Panel("A panel", "x", "y", (Curve("c", (1.0, 2.0), (1.0, 0.5), (0.9, 0.4), (1.1, 0.6)),), (("here", 1.5),)),),
    (Verdict("A claim", HOLDS, "figures"), Verdict("A misprint", FAILS, "other figures", True)),
    ("A note.",),
)


def toy(name="spectral-toy", quick=None, private=False, ran=None):
    """An experiment that counts its runs."""

    def judge(protocol, found):
        if ran is not None:
            ran.append((name, dict(protocol)))
        return OUTCOME

    protocol = {"seed": 1, "size": (3, 30)} if quick is None else quick
    return Experiment(name, "A toy", "Does it run?", protocol, judge, repetitions=lambda _: 1, private=private)


def results_of(folder, *toys, **options):
    return list(running.run(toys, folder, quick=True, progress=False, **options))


def spoil(path, how):
    content = json.loads(path.read_text())
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "empty":
        path.write_text("")
    elif how == "list":
        path.write_text("[1, 2]")
    elif how == "figure":
        path.write_text(path.read_text().replace('"figures"', '"better figures"'))
    else:
        del content["sha256"]
        path.write_text(json.dumps(content))
