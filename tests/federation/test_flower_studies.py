"""Studies over Flower's Grid and its serialisation, without a server: the models of the pooled rows, or a loud no."""

import threading

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from flwr.common.serde import message_from_proto
from flwr.proto.message_pb2 import Message as Proto

import unpooled as up
from tests.cases.study_folder import change, made, pooled, twin
from tests.federation.grid import LOST, InProcessGrid
from unpooled.federation import ConfigError, Failure, FlowerEngine, Message, StudyError, StudyRecord, read_status
from unpooled.federation.study.study import read_study
from unpooled.federation.wire import flower, network
from unpooled.federation.wire.flower import GridTransport, client_app, server_app
from unpooled.federation.wire.transport import Relay, serve_relay

GRID = 2.0**-40


def grid_of(folder, hook=None):
    places = sorted((folder / "sites").iterdir())
    return InProcessGrid(client_app, {place.name: {"site": str(place)} for place in places}, hook)


def run(folder, grid=None):
    """Run the ServerApp as Flower does."""
    context = Context(1, 0, {}, RecordDict(), {"study": str(folder), "relay": ""})
    server_app(grid or grid_of(folder), context)
    return StudyRecord.load(folder / "results"), up.load(folder / "results" / "study.model")


def names(n):
    return [f"site{i}" for i in range(n)]


@pytest.mark.parametrize("n_sites", [3, 8])
def test_a_secure_second_order_study_gives_the_model_of_the_pooled_rows(tmp_path, n_sites):
    folder = made(tmp_path / "study", names(n_sites))
    record, model = run(folder)
    reference = twin(folder, 2)
    assert record.outcome == "complete"
    assert record.exchanges[0].members == names(n_sites)
    assert model.lam_ == reference.lam_
    assert np.max(np.abs(model.coef_ - reference.coef_)) < GRID * np.max(np.abs(reference.coef_))


@pytest.mark.filterwarnings("ignore:.*public rows stand in for")  # the floor, which rounds remove
def test_residual_rounds_are_those_of_the_pooled_rows(tmp_path):
    folder = made(tmp_path / "study", names(3), kind="rounds", rounds=3, lam=1e-3, ridge=True, steps="conjugate")
    record, model = run(folder)
    basis, frame = up.bases.load(folder / "study.basis"), pooled(folder).to_pandas()
    reference = up.SummaryRegressor(lam=1e-3, fit_intercept=True, ridge=True, steps="conjugate")
    reference.fit_summary(up.Summary.of(basis, frame, "y"))
    for _ in range(2):
        reference.update(up.Summary.of(basis, frame, "y", residuals_of=reference))
    assert len(record.exchanges) == 3
    assert np.max(np.abs(model.coef_ - reference.coef_)) < GRID * np.max(np.abs(reference.coef_))


def test_nothing_but_masked_words_and_keys_reaches_the_server(tmp_path):
    """Apart from 128 random bits per number, the replies reveal nothing about rows: no count and no sum."""
    replies = []

    def hook(name, way, content):
        if way == "reply":
            replies.append(Message.from_bytes(flower._unpack(message_from_proto(Proto.FromString(content)))))
        return content

    folder = made(tmp_path / "study", names(3))
    run(folder, grid_of(folder, hook))
    assert sorted(reply.kind for reply in replies) == ["answer"] * 3 + ["joined"] * 3 + ["opened"] * 3
    assert all(set(reply.arrays) <= {"words"} for reply in replies)
    counts = {str(120 + 10 * i) for i in range(3)} | {"390"}
    for reply in replies:
        told = {str(value) for value in reply.header.values() if isinstance(value, (int, float))}
        assert not told & counts
    words = np.concatenate([r.arrays["words"].ravel() for r in replies if r.arrays])
    bits = np.unpackbits(words.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(bits))


def test_a_lost_site_is_named_and_the_study_goes_on_without_it_where_the_quorum_holds(tmp_path, capsys):
    folder = made(tmp_path / "study", names(4), timeout=2, patience=0)
    grid = grid_of(folder, lambda name, way, content: LOST if (name, way) == ("site2", "reply") else content)
    record, model = run(folder, grid)
    assert record.outcome == "partial"
    assert record.missing == {"site2": [0]}
    assert [failed.site for failed in record.failures] == ["site2"]
    reference = twin(folder, 2, "site0", "site1", "site3")
    assert np.max(np.abs(model.coef_ - reference.coef_)) < GRID * np.max(np.abs(reference.coef_))
    assert "site2 left out: no answer within 2 s" in capsys.readouterr().out


def test_a_study_without_its_quorum_ends_with_an_error_that_flower_shows(tmp_path):
    folder = made(tmp_path / "study", names(3), timeout=2, patience=0)
    grid = grid_of(folder)
    grid.down.add("site1")
    with pytest.raises(
        StudyError, match="2 of 3 sites are left, and the quorum is 3: site1: its SuperNode is not conn"
    ):
        run(folder, grid)
    assert not (folder / "results" / "study.model").exists()
    assert read_status(folder / "results").state == "failed"
    assert StudyRecord.load(folder / "results").outcome == "failed"


def test_a_site_that_was_down_at_first_is_waited_for(tmp_path):
    folder = made(tmp_path / "study", names(3))
    grid = grid_of(folder)
    grid.down.add("site1")
    threading.Timer(0.5, lambda: grid.down.clear()).start()
    record, _ = run(folder, grid)
    assert record.outcome == "complete"


def test_a_site_whose_configuration_cannot_be_read_is_named_and_keeps_the_details(tmp_path, capsys):
    folder = made(tmp_path / "study", names(4), patience=0)
    (folder / "sites" / "site3" / "site.toml").write_text("name = ")
    record, _ = run(folder)
    assert record.missing == {"site3": [0]}
    reason = record.failures[0].reason
    assert "the configuration of this site cannot be read" in reason
    assert str(folder) not in reason
    assert f"{folder}/sites/site3/site.toml is not TOML" in capsys.readouterr().err


def test_a_node_that_answers_for_another_site_is_left_out(tmp_path):
    folder = made(tmp_path / "study", names(4), patience=0)
    grid = grid_of(folder)
    places = dict(grid.nodes.values())
    grid.nodes = {n: (name, places["site0"] if name == "site3" else c) for n, (name, c) in grid.nodes.items()}
    record, model = run(folder, grid)
    assert record.missing.keys() == {"site3"}
    assert "registered as site3, but its folder belongs to site0" in record.failures[0].reason
    reference = twin(folder, 2, "site0", "site1", "site2")
    assert np.max(np.abs(model.coef_ - reference.coef_)) < GRID * np.max(np.abs(reference.coef_))


def test_an_estimator_in_this_process_gets_its_sums_through_a_run_of_the_app(tmp_path, monkeypatch):
    folder = made(tmp_path / "study", names(3), kind="estimator", rounds=6)
    running = []

    def submitted(app, superlink, config):
        """A run whose ServerApp is a thread here."""
        assert (app, superlink) == (folder / "app", "study")
        context = Context(1, 0, {}, RecordDict(), {"study": "", **config})
        running.append(threading.Thread(target=server_app, args=(grid_of(folder), context)))
        running[0].start()
        return "1"

    monkeypatch.setattr(network, "submit_run", submitted)
    options = {"rounds": 3, "lam": 1e-3, "ridge": True}
    with FlowerEngine(folder) as engine:
        basis = engine.study.basis
        model = up.LESSRegressor(basis=basis, engine=engine, **{"fit_intercept": False, **options}).fit(
            engine.rows, "y"
        )
        record = engine.finish(model)
    running[0].join(10)
    assert not running[0].is_alive()
    reference = up.LESSRegressor(basis=basis, **{"fit_intercept": False, **options}).fit(
        pooled(folder).to_pandas(), "y"
    )
    assert record.outcome == "complete"
    assert np.max(np.abs(model.coef_ - reference.coef_)) < GRID * np.max(np.abs(reference.coef_))


def test_a_relay_brings_answers_and_failures(tmp_path):
    folder = made(tmp_path / "study", names(3))
    grid, relay = grid_of(folder), Relay()
    grid.down.add("site1")
    server = threading.Thread(target=serve_relay, args=(relay.address, GridTransport(grid)))
    server.start()
    relay.connect(10)
    assert relay.sites() == ["site0", "site2"]
    replies = relay.exchange({name: Message("nonsense") for name in names(2)}, 5)
    assert replies["site0"].kind == "refusal"
    assert replies["site1"] == Failure("its SuperNode is not connected")
    relay.close()
    server.join(10)
    assert not server.is_alive()
    with pytest.raises(StudyError, match="the relay is closed"):
        relay.sites()


def test_a_run_that_cannot_be_started_says_why(tmp_path, monkeypatch):
    folder = made(tmp_path / "study", names(3), kind="estimator", rounds=6)
    monkeypatch.setenv("FLWR_HOME", str(folder / "nowhere"))
    with pytest.raises(StudyError, match="the SuperLink 'study' could not start a run"):
        FlowerEngine(folder)


def test_a_relay_whose_other_end_is_gone_says_so():
    relay = Relay()

    class Nothing:
        def sites(self):
            raise KeyboardInterrupt

    def serve():
        with pytest.raises(KeyboardInterrupt):
            serve_relay(relay.address, Nothing())

    server = threading.Thread(target=serve)
    server.start()
    relay.connect(10)
    with pytest.raises(StudyError, match="the server's app has stopped"):
        relay.sites()
    relay.close()
    server.join(10)
    with pytest.raises(StudyError, match="did not connect within 0.1 s"):
        Relay().connect(0.1)


def test_the_settings_of_a_study_are_read_or_the_mistake_is_named(tmp_path):
    folder = made(tmp_path / "study", names(3))
    assert read_study(folder).members == tuple(names(3))
    change(folder / "study.toml", quorumm=3)
    with pytest.raises(ConfigError, match="has the unknown entries quorumm"):
        read_study(folder)
    (folder / "study.toml").write_text("name = 'x'")
    with pytest.raises(ConfigError, match="has no basis, targets, members, quorum, timeout"):
        read_study(folder)
