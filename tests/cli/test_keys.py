"""`unpooled keys`: a key is made once, other keys are pinned by people, and another key replaces none unnoticed.

Tests `federation/secure/pinned.py`.
"""

import os
import stat
import tomllib

import pytest

pytest.importorskip("cryptography")

from tests.cases.cli import answer_of, call, said
from unpooled.cli import console
from unpooled.federation import Site, SiteConfig, TrustError
from unpooled.federation.by_file.questions import OneTimeKey
from unpooled.federation.by_file.site import FileSite
from unpooled.federation.secure.keys import public_bytes
from unpooled.federation.secure.pinned import PINNED_NAME, read_pinned
from unpooled.gate import Log


@pytest.fixture
def lines(tmp_path):
    """The lines of three sites, each with a folder."""
    return {name: answer_of("keys", "init", tmp_path / name)["key"] for name in ("north", "south", "west")}


def pin(tmp_path, name, key, *options, **how):
    return answer_of("keys", "pin", name, key, tmp_path / "north", *options, **how)


def test_init_makes_a_key_once_and_prints_the_line_to_pin(tmp_path):
    folder = tmp_path / "site"
    first = answer_of("keys", "init", folder)
    assert len(public_bytes(first["key"])) == 32
    assert stat.S_IMODE((folder / "site.key").stat().st_mode) == 0o600
    assert answer_of("keys", "init", folder) == first
    assert first["name"] == "site"
    assert sorted(path.name for path in folder.iterdir()) == [PINNED_NAME, "site.key"]
    assert read_pinned(folder) == {"site": first["key"]}
    assert first["key"] in call("keys", "init", folder).stdout
    os.chmod(folder / "site.key", 0o644)
    assert "chmod 600" in said("keys", "init", folder, code=console.DATA)


def test_init_makes_the_key_of_a_node_where_it_is_asked_to(tmp_path):
    found = answer_of("keys", "init", tmp_path / "site", "--node")
    assert found["node"] == str(tmp_path / "site" / "node.key.pub")
    assert (tmp_path / "site" / "node.key.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_a_site_keeps_its_name(tmp_path):
    assert answer_of("keys", "init", tmp_path / "a", "--name", "Århus")["name"] == "Århus"
    assert answer_of("keys", "init", tmp_path / "a")["name"] == "Århus"
    assert "is Århus already" in said("keys", "init", tmp_path / "a", "--name", "other", code=console.USAGE)
    assert "the name of a site must be" in said("keys", "init", tmp_path / "b", "--name", " b", code=console.DATA)
    assert not (tmp_path / "b").exists()


def test_init_reads_the_name_from_site_toml(tmp_path):
    (tmp_path / "site.toml").write_text('name = "east"\ndata = "rows.csv"\nkey = "site.key"\n')
    assert answer_of("keys", "init", tmp_path)["name"] == "east"
    assert SiteConfig.read(tmp_path).pinned_keys == read_pinned(tmp_path)


def test_pinned_keys_are_shown_and_logged(tmp_path, lines):
    assert pin(tmp_path, "south", lines["south"], "--by", "Ada")["replaced"] is None
    found = answer_of("keys", "show", tmp_path / "north")
    assert (found["name"], found["key"]) == ("north", lines["north"])
    assert found["pinned"] == {"south": lines["south"]}
    (entry,) = Log(tmp_path / "north" / "unpooled-log.jsonl").entries()
    assert entry.event == {"what": "pinned", "site": "south", "key": lines["south"], "by": "Ada"}
    pin(tmp_path, "south", lines["south"])
    assert len(Log(tmp_path / "north" / "unpooled-log.jsonl").entries()) == 1
    assert "pinned" in call("log", "show", tmp_path / "north").stdout


def test_another_key_replaces_a_pinned_one_only_on_request_and_the_log_has_both(tmp_path, lines):
    pin(tmp_path, "south", lines["south"])
    files = {path: path.read_bytes() for path in (tmp_path / "north").iterdir() if path.is_file()}
    refusal = said("keys", "pin", "south", lines["west"], tmp_path / "north", code=console.DATA)
    assert "another key is pinned for south" in refusal
    assert {path: path.read_bytes() for path in (tmp_path / "north").iterdir() if path.is_file()} == files
    assert pin(tmp_path, "south", lines["west"], "--replace")["replaced"] == lines["south"]
    assert read_pinned(tmp_path / "north")["south"] == lines["west"]
    last = Log(tmp_path / "north" / "unpooled-log.jsonl").entries()[-1].event
    assert (last["key"], last["replaces"]) == (lines["west"], lines["south"])


def test_keys_that_cannot_be_pinned(tmp_path, lines):
    folder = tmp_path / "north"
    wrong = lines["south"][:-1] + ("a" if lines["south"][-1] != "a" else "b")
    assert "without an error" in said("keys", "pin", "south", wrong, folder, code=console.DATA)
    assert "is this site itself" in said("keys", "pin", "north", lines["south"], folder, code=console.USAGE)
    assert "pinned for north already" in said("keys", "pin", "south", lines["north"], folder, code=console.DATA)
    assert "unpooled keys init" in said("keys", "pin", "south", lines["south"], tmp_path, code=console.DATA)
    assert not (folder / "unpooled-log.jsonl").exists()


def test_a_folder_with_peers_in_site_toml_is_still_read_and_a_new_pin_wins(tmp_path, lines):
    folder = tmp_path / "north"
    text = 'name = "north"\ndata = "rows.csv"\nkey = "site.key"\ncolluding = 2\n'
    (folder / "site.toml").write_text(f'{text}[peers]\nsouth = "{lines["south"]}"\n')
    assert SiteConfig.read(folder).peers == {"south": lines["south"]}
    assert "another key is pinned" in said("keys", "pin", "south", lines["west"], folder, code=console.DATA)
    pin(tmp_path, "south", lines["west"], "--replace")
    assert SiteConfig.read(folder).peers == {"south": lines["west"]}
    assert Site.from_folder(folder).config.pinned_keys == {"south": lines["west"], "north": lines["north"]}
    site = FileSite.from_folder(folder)
    assert (site.name, site.colluding, site.pinned["south"]) == ("north", 2, lines["west"])


def test_an_enrolment_file_holds_a_new_key_each_time(tmp_path, lines):
    place = tmp_path / "north.key"
    answer_of("keys", "show", tmp_path / "north", "-o", place)
    first = OneTimeKey.load(place)
    assert (first.site, first.identity) == ("north", lines["north"])
    assert "exists already" in said("keys", "show", tmp_path / "north", "-o", place, code=console.USAGE)
    answer_of("keys", "show", tmp_path / "north", "-o", place, "--overwrite")
    assert OneTimeKey.load(place).key != first.key
    assert len(list((tmp_path / "north" / "keys").glob("*.key"))) == 2
    answer_of("keys", "show", tmp_path / "north", "-o", place, "--overwrite", "--discard")
    assert len(list((tmp_path / "north" / "keys").glob("*.key"))) == 1
    assert "--discard needs --output" in said("keys", "show", tmp_path / "north", "--discard", code=console.USAGE)


def test_pinned_keys_that_cannot_be_read_are_named(tmp_path, lines):
    place = tmp_path / "north" / PINNED_NAME
    text = place.read_text()
    assert tomllib.loads(text) == {"north": lines["north"]}
    for wrong, why in (("north = [", "are not TOML"), ('north = "site:x"', "a site's key must be site:")):
        place.write_text(wrong)
        with pytest.raises(TrustError, match=why):
            read_pinned(tmp_path / "north")
    place.write_text("")
    assert "do not hold the site's own" in said("keys", "show", tmp_path / "north", code=console.DATA)
