"""The site decides: its policy, its people, its log; nothing of that comes from the server."""

import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost, nth
from unpooled.cli import app
from unpooled.federation import ConfigError, Message, RequestError, Site, SiteConfig, StudyError, run_study
from unpooled.federation.site.questions import ask_message
from unpooled.federation.site.statistics import Sums
from unpooled.federation.wire.transport import as_array
from unpooled.gate.gate import content_of
from unpooled.summaries.passes import Functions

both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


@pytest.fixture
def sites(tmp_path):
    return Consortium(tmp_path / "sites")


REFUSALS = {
    "nothing leaves": ({"approve": "never"}, {}, 'approve = "never"'),
    "order": ({"orders": [1]}, {"kind": "second-order"}, "the policy allows order 1"),
    "averages count as order 2": ({"orders": [1]}, {"kind": "average", "lam": 0.1}, "counts as order 2"),
    "residual rounds": ({"residual_rounds": False}, {"kind": "rounds", "rounds": 2}, "does not allow residual rounds"),
    "target": ({"targets": ["weight"]}, {}, "'y' may not be a target here"),
    "basis": ({"bases": ["0" * 64]}, {}, "is not one of those that the policy lists"),
    "noise": ({"privacy": "required"}, {}, "ask for differential privacy"),
}


@both
@pytest.mark.parametrize("rule", REFUSALS)
def test_what_the_policy_forbids_is_refused_with_the_reason_before_a_row_is_read(sites, tmp_path, secure, rule):
    rules, choices, reason = REFUSALS[rule]
    sites.policy("north", **rules)
    (sites.folder / "north" / "rows.parquet").unlink()  # it is not looked at
    record = run_study(sites.study(secure=secure, **choices), sites.transport(), tmp_path / "study")
    assert record.outcome == "partial"
    assert record.missing.keys() == {"north"}
    assert reason in record.failures[0].reason
    assert sites.left("north") == []
    assert reason in sites.said("north")[-1]["reason"]


@both
@pytest.mark.parametrize(
    "rules", [{"minimum_rows": 1000}, {"max_label_share": 0.001}, {"max_numbers_per_row": 0.01}], ids=str
)
def test_a_rule_about_records_is_kept_and_its_reason_stays_at_the_site(sites, tmp_path, secure, rules):
    """A refusal must not reveal the number of rows of a site, or that one record stands out."""
    sites.policy("north", **rules)
    wire = Wire()
    record = run_study(sites.study(lam=1e-2, secure=secure), sites.transport(wire), tmp_path / "study")
    assert "a rule of this site about its records" in record.failures[0].reason
    (reply,) = [message for site, message in wire.received("refusal") if site == "north"]
    assert set(reply.header) <= {"site", "reason", "offer"}
    assert not any(character.isdigit() for character in reply.header["reason"])
    event = sites.said("north")[0]
    assert event["what"] == "refused"
    assert event["reasons"]
    assert sites.left("north") == []


@both
def test_below_the_quorum_of_the_willing_there_is_no_model(sites, tmp_path, secure):
    for name in ("north", "west"):
        sites.policy(name, orders=[1])
    with pytest.raises(StudyError, match=r"(?s)north.*order 1.*west.*order 1"):
        run_study(sites.study(kind="second-order", secure=secure), sites.transport(), tmp_path / "study")
    assert not (tmp_path / "study" / "study.model").exists()


def test_a_policy_that_cannot_be_read_lets_nothing_leave(sites, tmp_path):
    sites.policy("north", orders=[1])
    (sites.folder / "north" / "unpooled-policy.toml").write_text("orders = [1")
    record = run_study(sites.study(lam=1e-2), sites.transport(), tmp_path / "study")
    assert "cannot be read" in record.failures[0].reason
    assert sites.left("north") == []


def test_a_policy_counts_from_the_moment_it_is_changed(sites, tmp_path):
    """A site that changes its policy in the middle of a study refuses the next round."""
    sites.policy("north")

    def stricter(site, way, content):
        if site == "north" and way == "reply" and Message.from_bytes(content).kind == "answer":
            (sites.folder / "north" / "unpooled-policy.toml").write_text('approve = "never"\n')
        return content

    study = sites.study(kind="rounds", rounds=3, lam=1e-3)
    record = run_study(study, sites.transport(stricter), tmp_path / "study")
    assert record.missing == {"north": [1, 2]}
    assert len(sites.left("north")) == 1


@both
def test_what_left_is_in_the_log_before_it_leaves_with_the_hash_of_its_bytes(sites, tmp_path, secure):
    hashes = []

    def before(site, way, content):
        if way == "reply" and Message.from_bytes(content).kind == "answer":
            sent = hashlib.sha256(content).hexdigest()
            hashes.append((site, sent))  # sites answer at the same time
            assert sites.left(site)[-1]["sha256"] == sent
        return content

    run_study(
        sites.study(kind="rounds", rounds=2, lam=1e-3, secure=secure), sites.transport(before), tmp_path / "study"
    )
    assert len(hashes) == 8
    for name in sites.names:
        log = sites.sites[name].log
        assert log.verify().ok
        assert [event["sha256"] for event in sites.left(name)] == [h for site, h in hashes if site == name]
        assert all(event["release"]["n_rows"] == sites.rows[name].num_rows for event in sites.left(name))


def test_the_sums_that_a_site_has_opened_are_in_its_log(sites, tmp_path):
    record = run_study(sites.study(kind="rounds", rounds=2, secure=True), sites.transport(), tmp_path / "study")
    said = sites.said("north")
    opened = [event["attempt"] for event in said if event["what"] == "opened"]
    assert len(opened) == len(set(opened)) == len(sites.left("north"))
    assert all(attempt.endswith(f"of {record.study_digest}") for attempt in opened)
    listed = CliRunner().invoke(app, ["log", "show", str(sites.sites["north"].log.path), "--json"])
    assert [entry["event"]["what"] for entry in json.loads(listed.stdout)["entries"]] == [e["what"] for e in said]


def test_a_log_that_is_not_whole_stops_everything(sites, tmp_path):
    run_study(sites.study(lam=1e-2), sites.transport(), tmp_path / "first")
    path = sites.folder / "north" / "unpooled-log.jsonl"
    path.write_bytes(path.read_bytes().replace(b"left", b"lost"))
    record = run_study(sites.study(lam=1e-2), sites.transport(), tmp_path / "second")
    assert "the log or the ledger of this site is damaged" in record.failures[0].reason


@both
def test_with_ask_a_study_waits_until_somebody_says_yes(sites, tmp_path, secure):
    sites.policy("north", approve="ask")
    study = sites.study(kind="less", lam=1e-2, secure=secure, quorum=4)
    with pytest.raises(StudyError, match="north: it waits for the approval of its people"):
        run_study(study, sites.transport(), tmp_path / "study")
    (request,) = sites.sites["north"].requests.all()
    assert request.state == "pending"
    assert "to predict y" in request.described
    assert all(name in request.described for name in sites.names)
    assert sites.left("north") == []
    sites.restart("north")
    sites.sites["north"].approve(request.study[:8], by="the data steward")
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    assert [event["what"] for event in sites.said("north")] == ["approved", "left", *["opened"] * secure]
    assert sites.said("north")[0]["by"] == "the data steward"


@both
def test_patience_waits_for_a_yes(sites, tmp_path, secure):
    """The site is asked again until it approves the study; the basis is sent only once."""
    sites.policy("north", approve="ask")
    study = sites.study(kind="less", lam=1e-2, quorum=4, patience=30.0, poll=0.05, secure=secure)
    seen, wire = [], Wire()

    def approving(status):
        seen.append((status.state, status.sites.get("north")))
        requests = sites.sites["north"].requests.all()
        if len(seen) > 3 and requests[0].state == "pending":
            sites.sites["north"].approve(requests[0].study)

    record = run_study(study, sites.transport(wire), tmp_path / "study", progress=approving)
    assert record.outcome == "complete"
    assert ("joining", "is waited for") in seen
    joins = [Message.from_bytes(content) for site, way, content in wire.seen if site == "north" and way == "request"]
    joins = [message for message in joins if message.kind == "join"]
    assert len(joins) > 2
    assert [bool(message.arrays) for message in joins] == [True] + [False] * (len(joins) - 1)


@both
def test_patience_waits_for_a_site_that_is_not_connected_yet(sites, tmp_path, secure):
    """A site whose first answer was lost has already offered a key, and offers another one."""
    wire = Wire({("north", "request", "join"): nth(0, lost), ("west", "reply", "joined"): nth(0, lost)})
    study = sites.study(kind="less", lam=1e-2, quorum=4, patience=30.0, poll=0.01, secure=secure)
    assert run_study(study, sites.transport(wire), tmp_path / "study").outcome == "complete"


def test_a_no_is_a_refusal_and_also_after_a_yes(sites, tmp_path):
    sites.policy("north", approve="ask")
    study = sites.study(kind="rounds", rounds=3, lam=1e-3)
    site = sites.sites["north"]

    def changing_their_mind(status):
        requests = site.requests.all()
        if requests and requests[0].state == "pending":
            site.approve(requests[0].study)
        if status.done == 1:
            site.deny(requests[0].study)

    record = run_study(
        sites.study(kind="rounds", rounds=3, lam=1e-3, patience=5.0, poll=0.01),
        sites.transport(),
        tmp_path / "study",
        progress=changing_their_mind,
    )
    assert record.missing == {"north": [1, 2]}
    assert "have not approved the study" in record.failures[0].reason
    with pytest.raises(RequestError, match="no study has"):
        site.approve(study.digest)


def test_who_says_no_before_the_sum_is_opened_keeps_it_locked(sites, tmp_path):
    """If two sites change their policy after all have sent their masked numbers, nobody gets the sum."""
    for name in ("north", "west"):
        sites.policy(name)

    def stricter(site, way, content):
        if site in ("north", "west") and way == "reply" and Message.from_bytes(content).kind == "answer":
            (sites.folder / site / "unpooled-policy.toml").write_text('approve = "never"\n')
        return content

    with pytest.raises(StudyError, match="must open its locks|quorum"):
        run_study(sites.study(lam=1e-2, secure=True), sites.transport(stricter), tmp_path / "study")
    assert not list((tmp_path / "study").rglob("*.total"))


def test_a_yes_is_to_one_study_with_all_its_terms(sites, tmp_path):
    sites.policy("north", approve="ask")
    study = sites.study(kind="less", lam=1e-2, id="the study")
    run_study(study, sites.transport(), tmp_path / "first")
    sites.sites["north"].approve(study.digest)
    other = sites.study(kind="rounds", rounds=5, lam=1e-2, id="the study")
    record = run_study(other, sites.transport(), tmp_path / "second")
    assert "waits for the approval" in record.failures[0].reason


def test_a_server_that_asks_for_more_than_the_study_says_is_refused(sites, tmp_path):
    """A statistic of another order, of another loss, or one round more: the study does not hold it."""
    study = sites.study(kind="rounds", rounds=2, lam=1e-2)
    run_study(study, sites.transport(), tmp_path / "study")
    site, M = sites.sites["north"], sites.basis.n_features_
    asked = ask_message(Sums(study, 1, Functions(np.ones((M, 1)), np.zeros(1)), "squared", 1), attempt=None)
    reply = site.answer(asked)
    assert reply.kind == "refusal"
    assert "at most 2 statistics" in reply.header["reason"]
    for change in ({"order": 2}, {"loss": "huber 1.0"}, {"number": 2}, {"number": -1}, {"probes": 1}, {"more": 1}):
        about = asked.header["about"] | change
        reply = site.answer(Message("ask", asked.header | {"about": about}, asked.arrays))
        assert reply.kind == "refusal"
        assert "cannot be answered" in reply.header["reason"]
    assert len(sites.left("north")) == 2


@pytest.mark.parametrize("name", ["rows", "__import__('os').getcwd", "", None, 7])
def test_a_site_answers_named_statistics_and_nothing_else(sites, tmp_path, name):
    study = sites.study(lam=1e-2)
    run_study(study, sites.transport(), tmp_path / "study")
    reply = sites.sites["north"].answer(Message("ask", {"study": study.digest, "statistic": name, "about": {}}))
    assert reply.kind == "refusal"
    assert "is not among the statistics that sites answer" in reply.header["reason"]


def test_a_site_does_not_join_a_study_that_is_not_what_it_says(sites):
    study, site = sites.study(), sites.sites["north"]
    basis = as_array(content_of(study.basis.save))
    header = {"study": study.definition(), "digest": study.digest}
    wrong = [
        Message("join", header | {"digest": "0" * 64}, {"basis": basis}),
        Message("join", header, {}),
        Message("join", header, {"basis": basis[:-100]}),
        Message("join", header | {"study": study.definition() | {"basis": "0" * 64}}, {"basis": basis}),
        Message("join", header | {"study": study.definition() | {"rounds": -1}}, {"basis": basis}),
        Message("join", header | {"study": study.definition() | {"quorum": "all"}}, {"basis": basis}),
        Message("join", header | {"study": study.definition() | {"filter": [1]}}, {"basis": basis}),
        Message("join", header | {"study": None}, {"basis": basis}),
        Message("join", {}, {}),
        Message("dance", {}, {}),
    ]
    for message in wrong:
        reply = site.answer(message)
        assert reply.kind == "refusal"
        assert len(reply.header["reason"]) > 10
    assert site.answer(Message("join", header, {"basis": basis})).kind == "joined"


def test_a_site_from_its_folder(sites, tmp_path):
    sites.sites["north"] = Site.from_folder(sites.folder / "north")
    record = run_study(sites.study(lam=1e-2, secure=True), sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('name = "x"\n', "has no data"),
        ('data = "x"\n', "has no name"),
        ('name = "x"\ndata = "y"\nserver = "z"\n', "has the unknown entries server"),
        ("name = 3\ndata = 'y'\n", "name in .* must be a text"),
        ("name = 'x'\ndata = 'y'\npeers = 'z'\n", "peers in .* must be a table"),
        ("name = 'x'\ndata = 'y'\nfewest = true\n", "fewest in .* must be a whole number"),
        ("name = ", "is not TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_kept_is_an_error_that_says_so(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        SiteConfig.read(tmp_path / "site.toml")


def test_a_study_with_secure_sums_needs_the_keys_of_all_members(sites, tmp_path):
    peers = {name: key for name, key in sites.configs["north"].peers.items() if name != "west"}
    sites.reconfigure("north", peers=peers)
    record = run_study(sites.study(lam=1e-2, secure=True), sites.transport(), tmp_path / "study")
    assert "has pinned no key for west" in record.failures[0].reason


def test_a_model_in_the_folder_can_be_used_at_once(sites, tmp_path):
    run_study(sites.study(kind="second-order"), sites.transport(), tmp_path / "study")
    model = up.load(tmp_path / "study" / "study.model")
    assert model.score(sites.pooled.to_pandas()[["a", "b"]], sites.pooled["y"].to_numpy()) > 0.9
