"""Where the repository and its pages lie, for tests that read them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
