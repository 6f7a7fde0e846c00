"""Cases: the command line, from tables to predictions, with everything that its commands print."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import unpooled as up
from golden.exact_models import spectral
from golden.inputs import SITES, frame, rows, write_table
from golden.keep import Folder, case, said
from golden.stand_ins import fixed_noise
from golden.studies import Consortium

ALL = (
    "demo", "version", "data", "basis", "summarize", "inspect", "merge", "fit", "validate", "predict", "report",
    "policy init", "policy check", "log verify", "log show", "ledger create", "ledger show", "ledger verify",
    "keys init", "keys show", "keys pin", "federation init", "federation site", "federation approve",
    "federation status", "plan", "audit", "reproduce",
)  # fmt: skip
# Those that take a second or two.
EXPERIMENTS = (
    "less-floor",
    "less-split",
    "spectral-whose-lambda",
    "centring-constant",
    "centring-rate",
    "correntropy-scale",
    "private-noise",
)


@case()
def help_texts(kept: Folder) -> None:
    """Help texts of all commands, with their options by name."""
    for name in ("", "policy", "log", "ledger", "keys", "federation", *ALL):
        kept.text(f"said/help/{name or 'unpooled'}", said("commands", kept, [*name.split(), "--help"]))
    kept.text("said/version", said("commands", kept, ["--version"]))


def tables(kept: Folder) -> None:
    """Write the tables of four sites, of the public and of new rows, as files that commands read."""
    folder = kept.place("commands/x").parent
    for i, site in enumerate(SITES):
        (folder / site).mkdir(exist_ok=True)
        write_table(frame(110 + 15 * i, 50 + i), folder / site / ("rows.csv" if i % 2 else "rows.parquet"))
    write_table(frame(80, 60), folder / "public.parquet")
    write_table(frame(40, 61), folder / "new.csv")
    write_table(frame(40, 61), folder / "new.parquet")


@case()
def from_files_to_a_model(kept: Folder) -> None:
    """A study by files: bases, policies, summaries, sums, models, rounds, candidates, scores, predictions, pages."""
    tables(kept)
    run = kept.command
    options = ("--drop", "stay,cost,site,w", "--n-features", "20", "--length-scale", "1.5")
    run("basis", "basis", "public.parquet", "-o", "study.basis", *options, plain_too=True)
    run(
        "basis of waves",
        "basis",
        "public.parquet",
        "-o",
        "waves.basis",
        "--drop",
        "stay,cost,site,w",
        "--random",
        "--n-features",
        15,
    )
    matern = ("--kernel", "matern", "--columns", "age,dose", "--no-standardize", "--max-points", 40, "--seed", 2)
    run("basis, matern", "basis", "public.parquet", "-o", "matern.basis", *matern)
    run("policy init", "policy", "init", "east", plain_too=False)
    run("policy check", "policy", "check", "east", plain_too=True)
    for i, site in enumerate(SITES):
        place = f"{site}/rows.{'csv' if i % 2 else 'parquet'}"
        for order in (1, 2):
            command = [
                "summarize",
                "study.basis",
                place,
                "-t",
                "stay",
                "--order",
                order,
                "-o",
                f"{site}/{order}.summary",
            ]
            run(f"summarize, {site}, order {order}", *command, plain_too=site == "west")
    firsts, seconds = ([f"{site}/{order}.summary" for site in SITES] for order in (1, 2))
    several = [
        "summarize",
        "study.basis",
        "east/rows.parquet",
        "-t",
        "stay,cost",
        "--sample-weight",
        "w",
        "-o",
        "two.summary",
    ]
    run("summarize, two labels", *several)
    robust = ["summarize", "study.basis", "south/rows.parquet", "-t", "stay", "--loss", "huber", "--scale", "0.7"]
    run("summarize, huber", *robust, "-o", "huber.summary")
    run(
        "summarize, too few rows",
        "summarize",
        "study.basis",
        "new.csv",
        "-t",
        "stay",
        "--order",
        2,
        "-o",
        "few.summary",
    )
    run("merge", "merge", *seconds, "-o", "all.summary", plain_too=True)
    run("fit, order 2", "fit", "all.summary", "-o", "second.model", plain_too=True)
    run("fit, filter", "fit", *seconds, "-o", "nu.model", "--filter", "nu", "--no-fit-intercept")
    run("fit, order 1", "fit", *firsts, "-o", "first.model", "--candidates", "first.candidates", "--ridge")
    for i, site in enumerate(SITES):
        place = f"{site}/rows.{'csv' if i % 2 else 'parquet'}"
        score = [
            "validate",
            "first.candidates",
            place,
            "-t",
            "stay",
            "--basis",
            "study.basis",
            "-o",
            f"{site}/1.scores",
        ]
        run(f"validate, {site}", *score, plain_too=site == "east")
        asked = ["summarize", "study.basis", place, "--residuals-of", "first.model", "-o", f"{site}/r.summary"]
        run(f"summarize, {site}, residuals", *asked)
    scores = [f"{site}/1.scores" for site in SITES]
    run("merge scores", "merge", *scores, "-o", "all.scores")
    chosen = ["fit", *firsts, "-o", "chosen.model", *(word for one in scores for word in ("--scores", one))]
    run("fit by scores", *chosen)
    residuals = [f"{site}/r.summary" for site in SITES]
    run("fit, second round", "fit", *residuals, "--model", "first.model", "-o", "round.model", plain_too=True)
    run("fit, second round, found", "fit", *residuals, "-o", "found.model")
    run("fit, other choices", "fit", *residuals, "--lam", 0.1, "-o", "no.model")
    run("fit, another basis", "fit", *firsts, "--basis", "waves.basis", "-o", "no.model")
    run("fit, one number", "fit", "two.summary", "-o", "two.model", "--lam", "0.01", "--steps", "conjugate")
    inspected = ["study.basis", "waves.basis", "all.summary", "two.summary", "first.candidates", "all.scores"]
    for name in (*inspected, "second.model", "round.model", "two.model"):
        run(f"inspect {name}", "inspect", name, plain_too=True)
    for model in ("second", "two"):
        for end in ("csv", "parquet"):
            words = ["predict", f"{model}.model", f"new.{end}", "-o", f"{model}.{end}", "--keep", "site,w"]
            run(f"predict, {model}, {end}", *words, plain_too=end == "csv")
    page = ["report", "second.model", "-o", "page.html", "--data", "new.csv", "--sites", "site", *seconds]
    run("report", *page, "--title", "A page", plain_too=True)
    for folder in ("east", "west"):
        run(f"log show, {folder}", "log", "show", folder, plain_too=True)
        run(f"log verify, {folder}", "log", "verify", folder, plain_too=True)
    run("no such file", "fit", "nowhere.summary", "-o", "no.model")
    run("not to be added", "merge", firsts[0], seconds[0], "-o", "no.summary")
    run("a folder as output", "predict", "second.model", "new.csv", "-o", "east")


@case()
def models_without_names(kept: Folder) -> None:
    """Models of other classes, and of inputs without names, at the command line."""
    table = frame(60, 70)[["age", "dose", "pressure"]]
    write_table(table, kept.place("commands/bare.csv"))
    X, Y = rows(90, 71)
    up.save(spectral(lam="loo").fit(X, Y), kept.place("commands/bare.model"))
    kept.command("predict without names", "predict", "bare.model", "bare.csv", "-o", "bare.parquet", plain_too=True)
    kept.command("inspect without names", "inspect", "bare.model", plain_too=True)
    kept.command("report without rows", "report", "bare.model", "-o", "bare.html", plain_too=True)


@case("opendp")
def private_commands(kept: Folder) -> None:
    """Ledgers, private summaries with a stand-in for the noise, plans, and an audit."""
    tables_there = kept.place("commands/east/rows.parquet")
    if not tables_there.exists():
        tables(kept)
    run = kept.command
    words = ("basis", "public.parquet", "-o", "small.basis", "--drop", "stay,cost,site,w", "--n-features", 8)
    run("basis, small", *words)
    create = ("ledger", "create", "books.ledger", "--epsilon", 3, "--delta", 1e-6, "--dataset", "a table")
    run("ledger create", *create)
    budget = ("--epsilon", 1, "--delta", 1e-6, "--label-bound", 3, "--ledger", "books.ledger")
    with fixed_noise():
        for i, site in enumerate(("east", "south")):
            command = [
                "summarize",
                "small.basis",
                f"{site}/rows.parquet",
                "-t",
                "stay",
                "-o",
                f"{site}/private.summary",
            ]
            run(f"summarize, private, {site}", *command, *budget, "--order", i + 1, plain_too=False)
        spent = ["summarize", "small.basis", "east/rows.parquet", "-t", "stay", "-o", "no.summary", *budget]
        run("summarize, too much", *spent, "--epsilon", 2.9)
        shares = ["summarize", "small.basis", "south/rows.parquet", "-t", "stay", "-o", "share.summary", "--parties", 3]
        run("summarize, a share", *shares, "--missing", 1, *budget[:-2])
        run("audit", "audit", "noise", "summary-1", "half-noise", "--runs", 400, plain_too=True)
    run("fit, private", "fit", "east/private.summary", "-o", "private.model")
    for name in ("private.model", "east/private.summary", "share.summary"):
        run(f"inspect {name.replace('/', ' ')}", "inspect", name, plain_too=True)
    for command in ("show", "verify"):
        run(f"ledger {command}", "ledger", command, "books.ledger", plain_too=True)
    private = ("forecast", 9000, "small.basis", "--epsilon", "0.5,5", "--label-bound", 2)
    run("plan, private", *private, plain_too=True)
    run("plan, private, rows", "forecast", 9000, "public.parquet", "--drop", "stay,cost,site,w", "--epsilon", 2)
    # How fast this machine is, and how much memory is free, is in what this prints: only its words are compared.
    run("plan, measured", "plan", "--n", 5000, "--d", 4, "--memory", "8GB")
    run(
        "plan, measured, of a table", "plan", "new.parquet", "--target", "stay", "--drop", "cost,site,w", plain_too=True
    )


@case("matplotlib")
def data_demo_and_reproduction(kept: Folder) -> None:
    """The bundled tables, the demo with all its files, and some of the papers' claims."""
    kept.command("data", "data", plain_too=True)
    for name, end in (("airfoil", "parquet"), ("heart", "csv")):
        kept.command(f"data {name}", "data", name, "-o", f"{name}.{end}", plain_too=False)
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "golden"  # else the names of parts of a picture are random
    kept.command("demo", "demo", "--output", "demo")
    kept.command("reproduce list", "reproduce", "--list", plain_too=True)
    with tempfile.TemporaryDirectory() as place, fixed_noise():
        kept.command("reproduce", "reproduce", *EXPERIMENTS, "--quick", "-o", place)


@case("opendp", "matplotlib", slow=True)
def all_of_reproduction(kept: Folder) -> None:
    """All of the papers' claims, by their quick protocols."""
    with tempfile.TemporaryDirectory() as place, fixed_noise():
        kept.command("reproduce all", "reproduce", "--quick", "-o", place)


@case("cryptography")
def federation_commands(kept: Folder) -> None:
    """A study folder with its texts, keys, requests and the state of a study that has ended."""
    run = kept.command
    sites = [word for name in SITES for word in ("--site", name)]
    run("federation init", "federation", "init", "new", *sites, "-t", "stay", "--kind", "rounds", "--rounds", 3)
    run("federation init, too few", "federation", "init", "other", *sites[:4], "-t", "stay")
    run("keys init", "keys", "init", "own", plain_too=True)
    with tempfile.TemporaryDirectory() as place:
        consortium = Consortium(Path(place), asks=True)
        study = consortium.study("commands")
        (Path(place) / "south" / "site.toml").write_text('name = "south"\ndata = "rows.parquet"\n', encoding="utf-8")
        results = kept.place("commands/study/x").parent
        up.federation.run_study(study, up.federation.InProcess(consortium.sites.values()), results)
        shutil.copytree(Path(place) / "south", kept.path / "commands" / "south site")
    run("federation status", "federation", "status", "study", plain_too=True)
    run("federation approve", "federation", "approve", "south site", "--yes", "--by", "a person", plain_too=True)
    run(
        "federation approve, deny",
        "federation",
        "approve",
        "south site",
        study.digest[:9],
        "--deny",
        "--by",
        "a person",
    )


@case()
def commands_in_processes(kept: Folder) -> None:
    """Commands in processes of their own, which know nothing of what others have in memory."""
    if not kept.place("commands/second.model").exists():
        from_files_to_a_model(kept)
    for name, *words in (
        ("version", "--version"),
        ("inspect", "inspect", "study.basis"),
        ("round", "fit", *(f"{site}/r.summary" for site in SITES), "-o", "process.model"),
        ("predict", "predict", "process.model", "new.csv", "-o", "process.csv"),
    ):
        command = [sys.executable, "-m", "unpooled", *words]
        found = subprocess.run(command, cwd=kept.path / "commands", capture_output=True, text=True)
        kept.text(f"said/process, {name}", f"{found.stdout}--- errors\n{found.stderr}--- exit code {found.returncode}")
