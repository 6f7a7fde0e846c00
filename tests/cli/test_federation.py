"""`unpooled federation`: a folder that can be used as it is, keys, consent, and how far a study is."""

import io
import re
import ssl
import stat
import threading
import time
import tomllib
from dataclasses import replace

import pytest
from rich.console import Console

pytest.importorskip("cryptography")

from tests.cases.cli import answer_of, call, said
from tests.cases.federation import Consortium
from tests.cases.study_folder import change, made
from unpooled.cli import console, federation
from unpooled.cli.console import Out
from unpooled.federation import Identity, InProcess, LostMessage, Site, Status, StudyError, run_study
from unpooled.federation.study.folder import save_status
from unpooled.federation.study.study import read_study
from unpooled.federation.wire.network import Network

SITES = ("--site", "a,b", "--site", "c", "--target", "y")


def test_init_writes_a_folder_in_which_every_file_can_be_used(tmp_path):
    folder = tmp_path / "study"
    found = answer_of("federation", "init", folder, *SITES, "--port", 9000)
    assert list(found["sites"]) == ["a", "b", "c"]
    assert any("TEST" in warning for warning in found["warnings"])
    for number, (name, key) in enumerate(found["sites"].items()):
        place = folder / "sites" / name
        site = Site.from_folder(place)
        assert site.name == name
        assert site.config.pinned_keys == found["sites"]
        assert Identity.load(place / "site.key").public == key
        assert Network.read(place).port == 9001 + number
        for private in ("site.key", "node.key"):
            assert stat.S_IMODE((place / private).stat().st_mode) == 0o600
    app = tomllib.loads((folder / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["config"]["study"] == str(folder)
    for name in (app["components"]["serverapp"], app["components"]["clientapp"]):
        module = folder / "app" / (name.split(":")[0].replace(".", "/") + ".py")
        compile(module.read_text(), module, "exec")
    # No private key is where Flower would pack it into the app that it sends around.
    assert not [path for path in (folder / "app").rglob("*") if path.suffix in (".key", ".crt")]
    assert str(folder) in (folder / "HOWTO.md").read_text()


def test_the_certificates_are_a_network_that_tls_accepts_and_call_themselves_a_test(tmp_path):
    call("federation", "init", tmp_path / "study", *SITES)
    network = tmp_path / "study" / "network"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(network / "server.crt", network / "server.key")
    client = ssl.create_default_context(cafile=network / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    # The authority's own key was never written: nobody can sign another server.
    assert sorted(path.name for path in network.iterdir()) == ["ca.crt", "server.crt", "server.key"]

    def greeted(trusting, name):
        a, b, c, d = (ssl.MemoryBIO() for _ in range(4))
        ends = trusting.wrap_bio(a, b, server_hostname=name), server.wrap_bio(c, d, server_side=True)
        for _ in range(4):
            for end, source, sink in ((ends[0], d, a), (ends[1], b, c)):
                sink.write(source.read())
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return ends[0].getpeercert()

    for name in ("127.0.0.1", "localhost"):
        certificate = greeted(client, name)
        assert "TEST" in str(certificate["subject"])
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(client, "example.org")
    call("federation", "init", tmp_path / "other", *SITES)
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(ssl.create_default_context(cafile=tmp_path / "other" / "network" / "ca.crt"), "127.0.0.1")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--site", "a,b", "--target", "y"), "at least 3 sites"),
        (("--site", "a,b,c"), "--target"),
        (("--site", "a,b,../c", "--target", "y"), "'../c'"),
        ((*SITES, "--kind", "magic"), "kind must be one of"),
        ((*SITES, "--port", "65534"), "so that every site has a port above it"),
    ],
)
def test_init_refuses_what_it_cannot_make_and_writes_nothing(tmp_path, args, sentence):
    assert sentence in said("federation", "init", tmp_path / "study", *args, code=console.DATA)
    assert not (tmp_path / "study").exists()


def test_init_does_not_write_over_a_folder(tmp_path):
    (tmp_path / "precious").write_text("x")
    assert "is not empty" in said("federation", "init", tmp_path, *SITES, code=console.DATA)


@pytest.fixture
def asking(tmp_path):
    """A site that asks its people, and a study that waits for them."""
    folder = made(tmp_path / "study", ["a", "b", "c"])
    change(folder / "sites" / "b" / "unpooled-policy.toml", approve="ask")
    sites = [Site.from_folder(folder / "sites" / name) for name in "abc"]
    study = read_study(folder)

    def go(patience):
        return run_study(replace(study, patience=patience), InProcess(sites), folder / "results")

    with pytest.raises(StudyError, match="waits for the approval"):
        go(0.0)
    return folder, go


def test_what_is_asked_is_shown_and_a_person_says_yes(asking, monkeypatch):
    folder, go = asking
    place = folder / "sites" / "b"
    result = call("federation", "approve", place)
    assert "ridge regression on the pooled rows" in result.stdout
    assert "nobody is at the terminal to be asked" in result.stdout
    monkeypatch.setattr("unpooled.cli.federation.is_interactive", lambda: True)
    assert "approved by Ada" in call("federation", "approve", place, "--by", "Ada", answer="y\n").stdout
    assert go(0.0).outcome == "complete"
    found = answer_of("federation", "status", folder)
    assert (found["state"], found["done"], found["exchanges"]) == ("done", 1, 1)
    assert "no study waits" in call("federation", "approve", place).stdout
    events = [entry.event for entry in Site.from_folder(place).log.entries()]
    assert any(event["what"] == "approved" and event["by"] == "Ada" for event in events)


def test_a_no_is_a_no(asking):
    folder, go = asking
    (request,) = answer_of("federation", "approve", folder / "sites" / "b", "--deny")["requests"]
    assert request["state"] == "denied"
    with pytest.raises(StudyError, match="have denied the study"):
        go(0.0)
    assert "failed" in said("federation", "status", folder, code=console.STUDY)


def test_status_says_who_is_missing_and_when_there_is_nothing(tmp_path):
    sites = Consortium(tmp_path / "c")

    def hook(site, way, content):
        if site == "west":
            raise LostMessage("its power is gone")
        return content

    run_study(sites.study(secure=True, kind="second-order"), sites.transport(hook), tmp_path / "results")
    found = answer_of("federation", "status", tmp_path / "results")
    assert found["state"] == "partial"
    assert "west" in " ".join(found["warnings"])
    text = call("federation", "status", tmp_path / "results", "--watch").stdout
    assert "its power is gone" in text
    assert "study.model" in text
    assert "there is no study" in said("federation", "status", tmp_path, code=console.STUDY)


def test_watching_shows_sites_exchanges_bytes_and_time_left_as_they_change(tmp_path):
    now = Status("heart", "d" * 64, "rounds", "asking", 10, started=time.time())
    stages = [
        {},
        {"done": 4, "working": 8.0, "received": 12_000, "sent": 3_000_000, "sites": {"a": "in exchange 4"}},
        {"done": 10, "state": "done"},
    ]

    def going():
        for stage in stages:
            for name, value in stage.items():
                setattr(now, name, value)
            save_status(tmp_path, now)
            time.sleep(0.4)

    out = Out()
    out.err = Console(file=io.StringIO(), force_terminal=True, width=150)
    study = threading.Thread(target=going)
    study.start()
    assert federation._watch(out, tmp_path).state == "done"
    study.join()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.err.file.getvalue())
    for said_there in ("4/10", "12 kB in, 3 MB out", "about 12 s left", "in exchange 4", "heart: done", "10/10"):
        assert said_there in text


def test_a_folder_of_a_site_is_not_taken_for_one_of_a_study(tmp_path):
    call("federation", "init", tmp_path / "study", *SITES)
    place = tmp_path / "study" / "sites" / "a"
    assert "is a site's folder" in said("federation", "status", place, code=console.USAGE)


def test_a_site_that_cannot_start_says_why(tmp_path):
    pytest.importorskip("flwr")
    call("federation", "init", tmp_path / "study", *SITES)
    place = tmp_path / "study" / "sites" / "a"
    (place / "node.key").unlink()
    assert "node.key, which does not exist" in said("federation", "site", place, code=console.DATA)
    (place / "network.toml").unlink()
    assert "network.toml cannot be read" in said("federation", "site", place, code=console.DATA)
