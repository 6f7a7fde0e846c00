"""Messages arrive as they were sent or not at all; and whatever arrives, a site answers and a server does not fall."""

import hashlib
import json
import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import unpooled as up
from tests.cases.federation import Consortium
from unpooled._base import files
from unpooled.federation import Failure, Message, MessageError, StudyError, run_study
from unpooled.federation.wire.transport import receive

MUTATIONS = int(os.environ.get("UNPOOLED_FUZZ", "100"))  # 1000 and more by hand

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
dtypes = st.sampled_from([np.float64, np.uint64, np.uint8, np.int64])


@given(
    kind=st.text(max_size=20),
    header=st.dictionaries(st.text(), json_values, max_size=4),
    content=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        dtypes.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=3, max_side=4))),
        max_size=3,
    ),
)
def test_a_message_arrives_as_it_was_sent(kind, header, content):
    found = Message.from_bytes(Message(kind, header, content).to_bytes())
    assert found.kind == kind
    assert json.dumps(found.header, sort_keys=True) == json.dumps(header, sort_keys=True)
    assert found.arrays.keys() == content.keys()
    for name, array in content.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].tobytes() == array.tobytes()
        assert found.arrays[name].shape == array.shape


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One of the ways in which bytes go wrong."""
    at, way = rng.randrange(len(content)), rng.randrange(5)
    if way == 0:
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if way == 1:
        return content[:at]
    if way == 2:
        return content[:at] + content[at + 1 + rng.randrange(20) :]
    if way == 3:
        return content[:at] + rng.randbytes(1 + rng.randrange(20)) + content[at:]
    other = rng.randrange(len(content))
    return content[:at] + content[other : other + 16] + content[at + 16 :]


def test_mutated_bytes_are_refused_in_a_sentence():
    content = Message("ask", {"study": "s", "number": 3}, {"coef": np.arange(40.0)}).to_bytes()
    rng = random.Random(0)
    for _ in range(MUTATIONS):
        wrong = mutated(content, rng)
        if wrong != content:
            with pytest.raises(MessageError, match="the message"):
                Message.from_bytes(wrong)


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"\0" * 32, b"\0" * 33, b"\0" * 1000, os.urandom(1000)],
    ids=["nothing", "a letter", "32 zeros", "33 zeros", "1000 zeros", "random bytes"],  # the same in every process
)
def test_what_is_no_message_is_refused(content):
    with pytest.raises(MessageError):
        Message.from_bytes(content)


def test_another_format_and_another_kind_of_file_are_refused():
    for kind, header in (
        ("message", {"message": 2, "says": "ask", "content": {}}),
        ("message", {"message": 1, "says": 3, "content": {}}),
        ("message", {"message": 1, "says": "ask", "content": []}),
        ("summary", {}),
    ):
        content = files.to_bytes(kind, header, {})
        with pytest.raises(MessageError, match="format 2|no message"):
            Message.from_bytes(hashlib.sha256(content).digest() + content)


def changed(message: Message, rng: random.Random) -> Message:
    """A message whose hashes are right and whose content is not: what a broken or a bad program would send."""
    odd = [None, True, -1, 2**62, 1e308, "", "x" * 300, "0" * 64, [], {}, [[]], {"round": -1, "name": ""}, "../../etc"]
    header = json.loads(json.dumps(message.header))
    arrays_ = dict(message.arrays)
    for _ in range(1 + rng.randrange(3)):
        places = [(header, name) for name in header]
        places += [(value, name) for value in header.values() if isinstance(value, dict) for name in value]
        way = rng.randrange(6)
        if way < 3 and places:
            inside, name = rng.choice(places)
            inside[name] = rng.choice(odd)
        elif way == 3 and places:
            inside, name = rng.choice(places)
            inside.pop(name, None)
        elif arrays_:
            name = rng.choice(sorted(arrays_))
            array = arrays_[name]
            changes = [
                array.ravel()[:-1],
                array.astype(np.float32),
                array[None],
                np.zeros(0),
                np.full(array.shape, np.nan),
            ]
            arrays_[name] = rng.choice(changes)
    return Message(rng.choice([message.kind, message.kind, "join", "open", "x"]), header, arrays_)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_a_site_answers_whatever_it_is_sent_and_lets_nothing_leave_that_is_not_logged(tmp_path, secure):
    sites, rng = Consortium(tmp_path / "sites", n_rows=60), random.Random(1)
    requests = []

    def keep(site, way, content):
        if site == "north" and way == "request":
            requests.append(content)
        return content

    study = sites.study(kind="rounds", rounds=2, lam=1e-2, secure=secure)
    run_study(study, sites.transport(keep), tmp_path / "study")
    site, before = sites.sites["north"], len(sites.left("north"))
    answers = 0
    for _ in range(MUTATIONS):
        message = Message.from_bytes(rng.choice(requests))
        reply = Message.from_bytes(receive(site, changed(message, rng).to_bytes()))
        assert reply.kind in ("refusal", "joined", "waiting", "answer", "opened")
        assert reply.kind != "refusal" or 10 < len(reply.header["reason"]) < 1200
        answers += reply.kind == "answer"
    assert len(sites.left("north")) == before + answers
    assert site.log.verify().ok
    assert len({event["file"] for event in sites.left("north")}) <= study.exchanges


class Spoiling:
    """One reply of one site is changed, its hashes right or not."""

    def __init__(self, rng, site, when):
        self.rng, self.site, self.left = rng, site, when

    def __call__(self, site, way, content):
        if site != self.site or way != "reply":
            return content
        self.left -= 1
        if self.left != -1:
            return content
        return self.rng.choice([changed(Message.from_bytes(content), self.rng).to_bytes(), mutated(content, self.rng)])


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_mutated_replies_end_in_a_model_of_the_others_or_in_none(tmp_path, secure):
    """Any reply of a site changed, its hashes right: the study never ends in a wrong model, or in anything else."""
    sites, rng = Consortium(tmp_path / "sites", n_rows=60), random.Random(2)
    models = {}
    for out in (None, *sites.names):
        rows = sites.table(*(name for name in sites.names if name != out)).to_pandas()
        pooled = up.Summary.of(sites.basis, rows, "y", order=2)
        models[out] = up.SummaryRegressor(lam=1e-2, fit_intercept=True).fit_summary(pooled).coef_
    outcomes = {"complete": 0, "partial": 0, "failed": 0}
    for number in range(max(10, MUTATIONS // 10)):
        hook = Spoiling(rng, rng.choice(sites.names), rng.randrange(3))
        folder = tmp_path / f"study {number}"
        try:
            study = sites.study(kind="second-order", lam=1e-2, secure=secure)
            record = run_study(study, sites.transport(hook), folder)
        except StudyError:
            outcomes["failed"] += 1
            assert not (folder / "study.model").exists()
            continue
        outcomes[record.outcome] += 1
        coef = up.load(folder / "study.model").coef_
        (out,) = record.missing or (None,)
        assert np.max(np.abs(coef - models[out])) < 1e-9
    assert outcomes["partial"] > 0


def test_a_transport_that_breaks_its_word_is_a_failure_of_the_sites(tmp_path):
    class Silent:
        def sites(self):
            return []

        def exchange(self, messages, timeout):
            return {}

    sites = Consortium(tmp_path / "sites", secure_keys=False)
    with pytest.raises(StudyError, match="the transport brought no answer"):
        run_study(sites.study(), Silent(), tmp_path / "study")
    assert isinstance(sites.transport().exchange({"moon": Message("x")}, 1.0)["moon"], Failure)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_a_message_is_serialised_once_however_many_look_at_its_bytes(tmp_path, monkeypatch, secure):
    sites, made, crossed, checked = Consortium(tmp_path / "sites", n_rows=60), [], [], []

    def count(calls, function):
        return lambda *given, **named: (calls.append(given), function(*given, **named))[1]

    monkeypatch.setattr(files, "to_bytes", count(made, files.to_bytes))
    monkeypatch.setattr(files, "digest", count(checked, files.digest))
    study = sites.study(kind="rounds", rounds=3, lam=1e-2, secure=secure)
    run_study(study, sites.transport(lambda *given: (crossed.append(given[2]), given[2])[1]), tmp_path / "s")
    messages = [given for given in made if given[0] == "message"]
    assert len(messages) == len(set(crossed)), "each message once, whoever counts, keeps, logs or sends its bytes"
    assert len(messages) < len(crossed), "what is the same for all sites is made for one"
    digests = [header for header, *_ in checked if isinstance(header, dict) and header.get("kind") == "message"]
    assert len(digests) == len(messages), "a hash over all that was received is enough: none is made of its inside"


def test_what_is_received_keeps_its_bytes_and_cannot_be_written_over():
    sent = Message("ask", {"number": 3}, {"coef": np.arange(4.0)}).to_bytes()
    found = Message.from_bytes(sent)
    assert found.to_bytes() is sent
    with pytest.raises(ValueError, match="read-only"):
        found.arrays["coef"][0] = 1.0


@pytest.mark.parametrize("odd", ["NaN", "1e999", '"\\ud800"'], ids=["not a number", "infinite", "half a character"])
def test_a_header_that_has_no_canonical_form_is_refused_though_its_hash_is_right(odd):
    content = files.to_bytes("message", {"message": 1, "says": "ask", "content": {"number": 12345}}, {})
    shorter = content[8:].replace(b"12345", odd.replace("\\", "\\\\").replace('"', '\\"').encode())
    assert shorter != content[8:]
    content = len(shorter.rstrip()).to_bytes(8, "little") + shorter.rstrip()
    with pytest.raises(MessageError, match="header cannot be read"):
        Message.from_bytes(hashlib.sha256(content).digest() + content)
