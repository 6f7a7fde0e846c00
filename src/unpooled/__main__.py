"""``python -m unpooled`` is the command ``unpooled``."""

from .cli import app

if __name__ == "__main__":
    app(prog_name="unpooled")
