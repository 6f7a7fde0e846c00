"""The ledger: it refuses before anything is looked at, remembers over restarts, and shows what was changed."""

import math
import multiprocessing

import pytest

from unpooled._base.chain import ChainError
from unpooled.privacy import (
    ApproximateEvent,
    GaussianEvent,
    Guarantee,
    Ledger,
    LedgerError,
    Overspend,
    composition,
    mu_for,
)

EPSILON, DELTA = 1.0, 1e-6
WHOLE = mu_for(EPSILON, DELTA)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", EPSILON, DELTA, "the clinic's records")


def part(share):
    """Gaussian noise that costs this share of the budget, in μ²."""
    return GaussianEvent(WHOLE * math.sqrt(share))


def test_the_whole_budget_can_be_spent_in_parts_and_not_a_bit_more(ledger):
    for i in range(4):
        with ledger.charge(part(0.25), f"round {i}"):
            pass
    assert ledger.epsilon_spent() == pytest.approx(EPSILON, rel=1e-9)
    assert ledger.mu_left() < 1e-3
    with pytest.raises(Overspend, match="one more would bring the clinic's records to ε = .* but its budget is ε = 1"):
        ledger.charge(part(1e-3), "one more")
    assert len(ledger.charges()) == 4


def test_an_overspend_is_refused_before_the_data_are_touched(ledger):
    touched = []
    with pytest.raises(Overspend), ledger.charge([part(0.5), part(0.6)], "two rounds"):
        touched.append("data")
    assert not touched
    assert ledger.epsilon_spent() == 0.0, "nothing of a charge that is refused is spent"


def test_an_overspend_is_refused_after_a_restart(ledger):
    ledger.charge(part(0.9), "most of it").commit(sha256="12" * 32)
    again = Ledger(ledger.path)
    assert (again.dataset, again.epsilon, again.delta) == ("the clinic's records", EPSILON, DELTA)
    with pytest.raises(Overspend):
        again.charge(part(0.2), "too much")
    again.charge(part(0.1), "the rest")
    with pytest.raises(Overspend):
        Ledger(ledger.path).charge(ApproximateEvent(0.01), "nothing is left")


def test_a_crash_between_charge_and_release_has_spent(ledger):
    with pytest.raises(RuntimeError), ledger.charge(part(0.7), "a round that fails"):
        raise RuntimeError
    charge = Ledger(ledger.path).charges()[0]
    assert (charge.purpose, charge.is_released) == ("a round that fails", False)
    with pytest.raises(Overspend):
        ledger.charge(part(0.5), "another")
    with ledger.charge(part(0.1), "a round that works"):
        pass
    assert ledger.charges()[1].is_released


def test_other_mechanisms_are_priced_with_the_gaussians(ledger):
    ledger.charge(ApproximateEvent(0.2), "the choice of λ")
    ledger.charge(ApproximateEvent(0.1, 1e-8), "a bound")
    left = ledger.mu_left()
    assert 0.6 * WHOLE < left < WHOLE
    ledger.charge(GaussianEvent(left), "the sums")
    assert composition.delta(ledger.events(), EPSILON) <= DELTA * (1 + 1e-9)
    with pytest.raises(Overspend):
        ledger.charge(ApproximateEvent(0.0, 1e-7), "more δ")


def test_any_edited_line_is_found_and_nothing_more_is_spent(ledger):
    for i in range(3):
        ledger.charge(part(0.1), f"round {i}")
    whole = ledger.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cheaper = lines[1].replace(b'"mu":0.07', b'"mu":0.01')
    assert cheaper != lines[1]
    tampered = {
        "edited": [lines[0], cheaper, *lines[2:]],
        "deleted": [lines[0], *lines[2:]],
        "moved": [lines[0], lines[2], lines[1], lines[3]],
        "budget": [lines[0].replace(b'"epsilon":1.0', b'"epsilon":9.0'), *lines[1:]],
        "half": [*lines[:3], lines[3][:20]],
    }
    for kind, changed in tampered.items():
        ledger.path.write_bytes(b"".join(changed))
        assert not ledger.verify().ok, kind
        for use in (lambda: Ledger(ledger.path), ledger.epsilon_spent, lambda: ledger.charge(part(0.01), "more")):
            with pytest.raises(ChainError, match=r"line \d+ of .*clinic.ledger"):
                use()
    ledger.path.write_bytes(whole)
    assert len(ledger.charges()) == 3


def test_lines_cut_off_are_found_by_the_head_that_was_noted(ledger):
    ledger.charge(part(0.5), "first")
    noted = ledger.verify()
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(lines[0])
    assert ledger.verify().ok, "the file alone does not show it"
    assert not ledger.verify(noted.head).ok


def _spend(path, name, n, refused):
    ledger = Ledger(path)
    for i in range(n):
        try:
            with ledger.charge(part(0.02), f"{name} {i}"):
                pass
        except Overspend:
            refused.put(name)


def test_two_processes_at_once_spend_one_budget(ledger):
    context = multiprocessing.get_context("spawn")
    refused = context.Queue()
    spenders = [context.Process(target=_spend, args=(ledger.path, name, 40, refused)) for name in "ab"]
    for spender in spenders:
        spender.start()
    for spender in spenders:
        spender.join()
        assert spender.exitcode == 0
    assert ledger.verify().ok
    assert len(ledger.charges()) == 50, "fifty times 0.02 is the whole budget"
    assert sum(refused.get(timeout=5) in "ab" for _ in range(30)) == 30
    assert all(charge.is_released for charge in ledger.charges())
    assert ledger.epsilon_spent() == pytest.approx(EPSILON, rel=1e-6)


def test_a_ledger_is_made_once(ledger, tmp_path):
    with pytest.raises(LedgerError, match="is a ledger already"):
        Ledger.create(ledger.path, 100.0, DELTA, "the clinic's records")
    with pytest.raises(LedgerError, match="there is no ledger .*: create one with Ledger.create"):
        Ledger(tmp_path / "other.ledger")
    assert not (tmp_path / "other.ledger").exists()


def test_another_chained_file_is_no_ledger(tmp_path):
    from unpooled.gate import Log

    log = Log(tmp_path / "unpooled.log")
    log.append({"what": "left"})
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger(log.path)


def test_an_entry_that_cannot_be_priced_stops_all_spending(ledger):
    ledger._append({"what": "charged", "purpose": "from the future", "events": [{"kind": "magic", "power": 9}]})
    with pytest.raises(LedgerError, match="entry 1 of .* cannot be priced, so nothing more can be charged"):
        ledger.charge(part(0.1), "a round")


def test_the_books_can_be_read(ledger):
    assert "nothing was charged" in str(ledger)
    with ledger.charge([part(0.2), ApproximateEvent(0.1)], "sums and a choice"):
        pass
    ledger.charge(part(0.1), "a second round")
    said = str(ledger)
    assert len(said.splitlines()) == 5
    for words in ("the clinic's records", "ε so far", "sums and a choice", "charged, not released", "left: Gauss"):
        assert words in said
    assert "ε = 0." in repr(ledger)
    assert "in 2 charges" in repr(ledger)
    promise = ledger.guarantee("discrete Gaussian noise on a grid")
    assert isinstance(promise, Guarantee)
    assert [spent.purpose for spent in promise.spent_on] == ["sums and a choice"] * 2 + ["a second round"]


@pytest.mark.parametrize(
    ("charge", "says"),
    [
        (([], "x"), "spending must be one event or several"),
        ((["x"], "x"), "spending must be one event or several"),
        ((GaussianEvent(0.1), ""), "purpose must say what is released"),
    ],
)
def test_a_charge_that_says_nothing_is_refused(ledger, charge, says):
    with pytest.raises(ValueError, match=says):
        ledger.charge(*charge)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (1.0, 0.0), (1.0, 1.0), (math.inf, 1e-6)])
def test_a_budget_that_is_none_makes_no_file(tmp_path, epsilon, delta):
    with pytest.raises(ValueError, match="epsilon must be|delta must lie"):
        Ledger.create(tmp_path / "x.ledger", epsilon, delta, "x")
    assert not (tmp_path / "x.ledger").exists()


@pytest.mark.parametrize(
    "event",
    [
        {"what": "released", "charge": [1]},
        {"what": "charged", "purpose": "p", "events": [{"kind": "gaussian", "mu": 10**400}]},
        {"what": "charged", "purpose": "p", "events": [{"kind": ["a"], "mu": 1.0}]},
        {"what": "charged", "purpose": "p", "events": [1]},
    ],
)
def test_a_forged_entry_never_gives_budget_back_and_is_refused_in_a_sentence(ledger, event):
    spent = ledger.epsilon_spent()
    ledger._chain.append(event)
    try:
        assert ledger.epsilon_spent() >= spent
    except LedgerError as error:
        assert len(str(error).splitlines()) == 1
        with pytest.raises(LedgerError):
            ledger.charge(part(0.1), "one more")
