"""A site's node runs the code that is installed at the site, whatever a server sends, and leaves nothing running."""

import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from tests.cases.processes import Marked, free_ports
from unpooled.federation.wire import flower

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="a node forks")

# The command that Flower would start is on the path of the node, which here calls it three times and then ends.
SERVING = """
    import os, socket, subprocess, sys, time
    from pathlib import Path
    from unpooled.federation.wire import network

    folder = Path(sys.argv[1])
    calls = socket.socket(socket.AF_UNIX)
    calls.bind(str(folder / "calls"))
    calls.listen()
    calls.settimeout(0.1)
    network._write_commands(folder / "bin", str(folder / "calls"), "flwr-clientapp", "flower-superexec")

    def work(arguments):
        if arguments == ["hang"]:
            time.sleep(600)
        if arguments == ["fail"]:
            raise RuntimeError("it failed")
        (folder / "part").write_text(f"{os.getpid()} {os.getppid()}")
        (folder / "part").rename(folder / arguments[1])  # the script ends as soon as it sees the file: it must be whole

    started = ["flwr-clientapp hang", "flwr-clientapp fail", "flwr-clientapp --token done"]
    script = "; ".join(started) + "; while [ ! -e done ]; do :; done; exit 5"
    path = {**os.environ, "PATH": str(folder / "bin")}
    child = subprocess.Popen(["/bin/sh", "-c", script], cwd=folder, env=path)
    print(os.getpid(), network._serve(calls, child, work))
"""


@needs_fork
def test_every_call_is_answered_by_a_fork_of_the_site_and_all_end_with_the_node(tmp_path):
    processes = Marked()
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SERVING), str(tmp_path)],
        env=processes.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    own, code = map(int, ran.stdout.split())
    assert code == 5
    child, parent = map(int, (tmp_path / "done").read_text().split())
    assert parent == own != child
    assert "error: it failed" in ran.stderr
    if sys.platform.startswith("linux"):
        assert processes.left() == {}


@needs_fork
def test_nothing_is_on_the_path_of_the_node_but_the_two_commands_it_needs(tmp_path):
    from unpooled.federation.wire.network import _write_commands

    _write_commands(tmp_path / "bin", "nowhere", flower.CLIENT_COMMAND, flower.EXEC_COMMAND)
    runnable = [path.name for path in (tmp_path / "bin").iterdir() if os.access(path, os.X_OK)]
    assert sorted(runnable) == ["flower-superexec", "flwr-clientapp"]
    assert "call.py" in (tmp_path / "bin" / "flwr-clientapp").read_text()


@needs_fork
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_the_node_of_a_site_that_was_killed_ends_too():
    processes = Marked(NODE=flower.NODE)
    start = (
        "import os, subprocess, sys; os.environ['UNPOOLED_SITE'] = str(os.getpid()); "
        "subprocess.run([sys.executable, '-P', '-c', os.environ['NODE'], *sys.argv[1:]])"
    )
    nowhere = ["--insecure", "--superlink", "127.0.0.1:9", "--port", str(free_ports(1))]
    site = subprocess.Popen(
        [sys.executable, "-c", start, *nowhere], env=processes.environment, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 60
        while not any("superexec" in line for line in processes.left().values()) and time.monotonic() < until:
            time.sleep(0.2)
        assert len(processes.left()) == 3  # the site, the node, and what the node starts
        site.kill()
        site.wait()
        assert processes.gone_within(60) == {}
    finally:
        processes.kill()


def test_the_code_that_a_server_sends_is_neither_installed_nor_loaded(monkeypatch):
    import flwr.supernode.cli as cli
    from flwr.supernode.runtime import run_clientapp as runtime

    seen = []

    def started():
        assert runtime.install_from_fab(b"the server's code", skip_prompt=True) is None
        load = runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
        seen.append((load("fab", "1.0", "hash"), list(sys.argv)))

    monkeypatch.setattr(cli, "flwr_clientapp", started)
    for name in ("install_from_fab", "get_load_client_app_fn"):
        monkeypatch.setattr(runtime, name, getattr(runtime, name))  # put back afterwards
    monkeypatch.setattr(sys, "argv", ["x"])
    flower.make_own_client()(["--token", "t"])
    assert seen == [(flower.client_app, ["flwr-clientapp", "--token", "t"])]


def test_a_flower_that_would_load_code_otherwise_is_refused(monkeypatch):
    from flwr.supernode.runtime import run_clientapp as runtime

    monkeypatch.delattr(runtime, "get_load_client_app_fn")
    with pytest.raises(ImportError, match="the server's code cannot be kept out"):
        flower.make_own_client()


def test_flower_still_calls_what_stands_in_for_it():
    """Flower uses these names in the module that is patched; otherwise the server's code would run after all."""
    from flwr.supernode.runtime import run_clientapp as runtime

    text = Path(runtime.__file__).read_text()
    for called in ("install_from_fab(fab.content", "get_load_client_app_fn(", "client_app(message=message"):
        assert called in text


def test_a_node_of_ours_looks_for_messages_more_often():
    """The pause it shortens is still where it was: else messages wait for seconds again."""
    from flwr.supernode import start_client_internal as node

    text = Path(node.__file__).read_text()
    assert "time.sleep(3)" in text
    assert set(re.findall(r"\btime\.(\w+)", text)) == {"sleep"}
