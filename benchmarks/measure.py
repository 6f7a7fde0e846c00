"""Running a contender in a process of its own: its result, its time, and the peak memory of all its processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import psutil


@dataclass
class Measured:
    result: dict[str, Any]
    peak_mib: float


def measured(script: str, *arguments: str) -> Measured:
    """Run ``python script arguments...``, which prints one JSON object as its last line."""
    process = subprocess.Popen([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True)
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed with exit code {process.returncode}")
    return Measured(json.loads(output.strip().splitlines()[-1]), peak[0])


def _watch(pid: int, peak: list[float]) -> None:
    """Sum of resident memory over the process tree, ten times a second: shared pages count once a process."""
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            total = 0
            for process in [root, *root.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            peak[0] = max(peak[0], total / 2**20)
            time.sleep(0.1)
    except psutil.Error:
        return


def resident(peak: bool = False) -> float:
    """Bytes of physical memory that this process holds, or has held at most since :func:`forget_peak`."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    with open("/proc/self/status") as lines:
        return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith(wanted))


def forget_peak() -> None:
    """Let the peak be what is held now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def machine() -> str:
    """One line that says where a figure comes from."""
    import platform

    import numpy as np
    import scipy
    import sklearn

    cores = psutil.cpu_count()
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{cores} cores, {memory:.0f} GiB, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
