"""Guides followed to the letter: the blocks of a Markdown page, run in their order by one shell in an empty folder.

``sh`` blocks are run as they stand; lines ``$ unpooled ...`` of ``console`` blocks can be called without a process
each. A ``python`` block that begins with ``# name.py`` is saved under that name, as the page asks its reader to. A
``text`` block is what the block before it shows: "..." stands for anything, white space does not matter, whole numbers
are exact, and a number with a point may be off by 15 %.
"""

from __future__ import annotations

import re
import shlex
import sysconfig
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# (\w+\.py)\n")
_LEFT_OPEN = re.compile(r"(\.\.\.|-?\d[\d,]*(?:\.\d+)?)")
_COMMAND = re.compile(r"^\$ unpooled ([^#\n]*)(?:#.*exit (\d))?.*$", re.MULTILINE)
_MARK = "=== end of step"


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks, or of those in some languages."""
    return [block for block in _BLOCK.findall(page.read_text()) if not languages or block[0] in languages]


def shell_script(page: Path) -> str:
    """The ``sh`` blocks, one after the other."""
    return "".join(text for _, text in blocks(page, "sh"))


def commands(page: Path) -> list[tuple[list[str], int]]:
    """The words after each ``$ unpooled``, and the exit code that its comment names, else 0."""
    return [(shlex.split(words), int(code or 0)) for words, code in _COMMAND.findall(page.read_text())]


def save_scripts(page: Path, folder: Path) -> list[str]:
    """Save the Python files that the page asks for; their names."""
    named = [(match[1], text) for _, text in blocks(page, "python") if (match := _NAMED.match(text))]
    for name, text in named:
        (folder / name).write_text(text)
    return [name for name, _ in named]


def followed(page: Path, folder: Path, processes, timeout: float = 300) -> list[tuple[str, str]]:
    """Follow the page in ``folder``; what its text blocks say that one sees, and what was seen."""
    script, expected = [], {}
    save_scripts(page, folder)
    for language, text in blocks(page, "sh", "text"):
        if language == "sh":
            script.append(f"{_installed(text)}echo '{_MARK}'\n")
        else:
            expected[len(script) - 1] = text
    code, said = processes.bash("".join(script), folder, timeout)
    assert code == 0, said
    seen = said.split(_MARK)
    return [(text, seen[step]) for step, text in expected.items()]


def shows(expected: str, seen: str) -> bool:
    """Whether ``seen`` is what the page says."""
    numbers, pattern = [], ""
    for i, part in enumerate(_LEFT_OPEN.split(" ".join(expected.split()))):
        if i % 2 == 0:
            pattern += re.escape(part)
        elif part == "...":
            pattern += ".*?"
        else:
            numbers.append(part)
            pattern += r"(-?\d[\d,]*(?:\.\d+)?)"
    found = re.fullmatch(pattern, " ".join(seen.split()))
    return found is not None and all(_close(*pair) for pair in zip(numbers, found.groups()))


def _close(said: str, seen: str) -> bool:
    if "." not in said:
        return said == seen
    a, b = (float(number.replace(",", "")) for number in (said, seen))
    return abs(a - b) <= 0.15 * abs(a)


def _installed(text: str) -> str:
    """The commands, with the checkout that is tested here in the place of what pip would install."""
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    write = f"import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'here.pth').write_text({line!r})"
    return re.sub(r"^pip install .*$", lambda _: f"python -c {shlex.quote(write)}", text, flags=re.MULTILINE)
