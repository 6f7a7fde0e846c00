"""The page of the reference with the parameters of every estimator: python docs/_extensions/parameter_tables.py

The tables are made from the declarations that constructors, checks and files read. A test compares the page with them.
"""

from __future__ import annotations

from pathlib import Path

import unpooled as up
from unpooled._base.declared import parameter_table

PAGE = Path(__file__).parents[1] / "api" / "parameters.md"
HEAD = """# Parameters of the estimators

What each parameter may be, as constructors, checks and files know it: one declaration in each class is read by all of
them, and by this page. *In a file* says whether `up.save` keeps the value; a ledger or a place on one machine is not
kept. Any other value is refused by `fit` with one sentence, and so is a file that holds it.
"""


def page() -> str:
    """The text of the page."""
    names = sorted(name for name in up.__all__ if name.endswith("Regressor"))
    tables = [f"## {name}\n\n{parameter_table(getattr(up, name))}\n" for name in names]
    return "\n".join([HEAD, *tables])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
