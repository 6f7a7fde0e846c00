"""The site's gate: what breaks a rule of its policy, or is in doubt, does not leave, and a sentence says why."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.gate.releases import FINE, release
from unpooled.gate import POLICY_NAME, LabelShare, Policy, PolicyError, Release, find_policy, label_share


def refusal(policy, release, earlier=()):
    """The one sentence."""
    (sentence,) = policy.refusals(release, earlier)
    assert "\n" not in sentence
    return sentence


def test_what_keeps_all_rules_may_leave():
    for fine in (FINE, release(order=2, numbers=150), release(is_residual=True), release(kind="scores", order=0)):
        assert Policy.default().refusals(fine) == []


@pytest.mark.parametrize(
    ("policy", "changes", "sentence"),
    [
        ({}, {"n_rows": 19, "numbers": 5}, "there are 19 rows, but at least 20 must be added up"),
        ({"minimum_rows": 2}, {"n_rows": 1, "n_features": 1, "numbers": 2}, "there are 1 row, but at least 2"),
        ({"orders": [1]}, {"order": 2}, "the summary is of order 2, but the policy allows order 1"),
        ({}, {"order": 3}, "the summary is of order 3, but the policy allows order 1 and 2"),
        ({}, {"order": 2, "n_features": 21}, "turned back into the rows; use a basis with at most 20 features"),
        ({}, {"numbers": 1001}, "1001 numbers would leave for 100 rows, but at most 10 per row are allowed"),
        ({}, {"largest_label_share": 0.21}, "one record has 21% of the total of the labels, but at most 20%"),
        ({"residual_rounds": False}, {"is_residual": True}, "residual round"),
        ({"targets": ["age"]}, {}, "'stay' may not be a target here; the policy allows age"),
        ({"targets": ["stay"]}, {"targets": ("stay", "hiv"), "n_targets": 2}, "'hiv' may not be a target here"),
        ({"targets": ["age"]}, {"targets": ()}, "the target has no name"),
        ({"bases": ["def"]}, {}, "the basis abc is not one of those that the policy lists"),
        ({"privacy": "required"}, {}, "no noise was added"),
        ({"approve": "never"}, {}, "nothing leaves this site"),
    ],
)  # fmt: skip
def test_each_rule_refuses_in_a_sentence(policy, changes, sentence):
    assert sentence in refusal(Policy(**policy), release(**changes))


def test_rules_of_summaries_do_not_bind_scores():
    scores = release(kind="scores", order=0, n_features=5000)
    assert Policy(orders=[1], residual_rounds=False).refusals(scores) == []
    assert "19 rows" in refusal(Policy(), release(kind="scores", order=0, n_rows=19))


def test_required_privacy_is_met_by_noise():
    assert Policy(privacy="required").refusals(release(private={"epsilon": 1.0, "delta": 1e-6})) == []
    assert Policy(max_epsilon=1.0, max_delta=1e-6).refusals(release(private={"epsilon": 1.0, "delta": 1e-6})) == []
    assert "its ε is 2.0, but at most 1 is allowed" in refusal(
        Policy(max_epsilon=1.0), release(private={"epsilon": 2.0, "delta": 1e-6})
    )
    assert "its δ is None, but at most 1e-06" in refusal(Policy(max_delta=1e-6), release(private={"epsilon": 2.0}))
    assert "guarantee of the noise is not known" in refusal(Policy(privacy="required"), release(private={}))


def test_several_broken_rules_are_all_said():
    assert len(Policy(orders=[1], targets=["age"]).refusals(release(order=2, n_rows=10, n_features=9))) == 4


@pytest.mark.parametrize("apart", [-10, -9, -1, 0, 1, 9, 10])
def test_the_difference_of_two_releases_may_not_show_few_records(apart):
    sentences = Policy(minimum_difference=10).refusals(release(n_rows=100 + apart), [release(basis="other"), FINE])
    assert len(sentences) == (0 < abs(apart) < 10)
    if sentences:
        assert f"the difference would reveal {abs(apart)} record" in sentences[0]


def test_differences_are_looked_for_wherever_sums_can_be_subtracted():
    policy, one_more = Policy(), {"n_rows": 101}
    second = {"order": 2, "numbers": 150}
    assert policy.refusals(release(**one_more), [release(**second)]), "order 2 holds the sums of order 1"
    assert policy.refusals(release(**one_more, targets=()), [FINE]), "a target without a name may be any"
    assert policy.refusals(release(**one_more, targets=("stay", "cost"), n_targets=2), [FINE]), "one target in common"
    other = {"targets": ("cost",)}
    assert policy.refusals(release(**one_more, **second), [release(**second, **other)]), "pairs of features at order 2"
    assert not policy.refusals(release(**one_more), [release(**other)])
    assert not policy.refusals(release(**one_more), [release(basis="other")])
    assert not Policy(minimum_difference=1).refusals(release(**one_more), [FINE])


@pytest.mark.parametrize(
    "changes",
    [
        {"largest_label_share": math.nan},
        {"largest_label_share": None},
        {"largest_label_share": -0.1},
        {"largest_label_share": math.inf},
        {"n_rows": None},
        {"n_rows": math.nan},
        {"n_rows": 100.0},
        {"n_rows": -1},
        {"n_rows": True},
        {"n_features": None},
        {"n_targets": 0, "targets": ()},
        {"n_targets": 2},
        {"order": None},
        {"order": "1"},
        {"numbers": None},
        {"bytes": None},
        {"basis": ""},
        {"basis": None},
        {"targets": None},
        {"targets": (3,)},
        {"is_residual": None},
        {"kind": "rows"},
        {"kind": None},
        {"private": True},
    ],
)
def test_what_is_in_doubt_stays(changes):
    loose = Policy(minimum_rows=1, max_features_per_row=1e9, max_numbers_per_row=1e9, max_label_share=1.0)
    assert "in doubt a file stays here" in refusal(loose, release(**changes))
    json.dumps(release(**changes).to_dict(), allow_nan=False)  # the refusal can be logged


def test_a_release_comes_back_from_json_and_takes_numpy_numbers():
    noised = release(n_rows=np.int64(100), largest_label_share=np.float64(0.05), private={"epsilon": 1.0})
    assert Policy().refusals(noised) == []
    assert Release.from_dict(json.loads(json.dumps(noised.to_dict()))) == noised
    for broken in ({}, None, {**FINE.to_dict(), "n_rows": None}, {**FINE.to_dict(), "more": 1}):
        with pytest.raises(ValueError, match="a release must have the facts|is not known"):
            Release.from_dict(broken)


def test_the_template_is_the_default_policy_explained(tmp_path):
    path = tmp_path / POLICY_NAME
    Policy.write_template(path)
    assert Policy.read(path) == Policy.default() == Policy()
    text = path.read_text()
    for field in dataclasses.fields(Policy):
        before = text.split(f"\n{field.name} = ")[0].splitlines()[-1]
        assert before.startswith("# ")


def test_a_policy_that_was_written_is_not_overwritten_by_accident(tmp_path):
    path = tmp_path / POLICY_NAME
    path.write_text("minimum_rows = 500\n")
    with pytest.raises(PolicyError, match="exists already: edit it, or allow it to be overwritten"):
        Policy.write_template(path)
    assert Policy.read(path) == Policy(minimum_rows=500)
    Policy.write_template(path, overwrite=True)
    assert Policy.read(path) == Policy()
    with pytest.raises(PolicyError, match="cannot be written .*: choose another place"):
        Policy.write_template(tmp_path / "nowhere" / POLICY_NAME)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minimum_row = 5", "has unknown rules: minimum_row; the rules are approve, minimum_rows, "),
        ("[gate]\nminimum_rows = 5", "has unknown rules: gate"),
        ("minimum_rows = '5'", "minimum_rows must be a whole number from 1, got '5'"),
        ("minimum_rows = 0", "minimum_rows must be a whole number from 1, got 0"),
        ("minimum_rows = 20.0", "minimum_rows must be a whole number from 1"),
        ("minimum_rows = true", "minimum_rows must be a whole number from 1"),
        ("minimum_difference = -1", "minimum_difference must be a whole number from 1"),
        ("orders = []", "orders must be a list of 1, 2 or both"),
        ("orders = 1", "orders must be a list of 1, 2 or both"),
        ("orders = [1, 3]", "orders must be a list of 1, 2 or both"),
        ("orders = [true]", "orders must be a list of 1, 2 or both"),
        ("residual_rounds = 'no'", "residual_rounds must be true or false"),
        ("max_features_per_row = nan", "max_features_per_row must be a number above 0"),
        ("max_numbers_per_row = inf", "max_numbers_per_row must be a number above 0"),
        ("max_features_per_row = 0", "max_features_per_row must be a number above 0"),
        ("max_label_share = 1.5", "max_label_share must be a number above 0 and at most 1"),
        ("max_label_share = true", "max_label_share must be a number above 0 and at most 1"),
        ("targets = 'age'", "targets must be a list of names"),
        ("bases = [1]", "bases must be a list of names"),
        ("privacy = 'sometimes'", 'privacy must be "optional" or "required", got'),
        ("approve = true", 'approve must be "always" or "ask" or "never", got True'),
        ("approve = [['x']]", 'approve must be "always"'),
        ("minimum_rows = ", "is not valid TOML"),
        ("minimum_rows = 5\nminimum_rows = 6", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        ("orders = " + "[" * 5000, "is not valid TOML"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_understood_is_an_error_and_not_a_default(tmp_path, text, message):
    path = tmp_path / POLICY_NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolicyError, match=message) as caught:
        Policy.read(path)
    assert POLICY_NAME in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_that_cannot_be_read_lets_nothing_leave(tmp_path):
    with pytest.raises(PolicyError, match="cannot be read .*, and nothing leaves without it"):
        Policy.read(tmp_path / "nowhere.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.read(tmp_path)


def test_rules_may_be_whole_numbers_and_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / POLICY_NAME
    path.write_text("\ufeffmax_label_share = 1\nmax_features_per_row = 2\n", encoding="utf-8")
    assert Policy.read(path) == Policy(max_label_share=1.0, max_features_per_row=2.0)


def test_the_policy_beside_the_data_comes_before_that_of_the_working_directory(tmp_path, monkeypatch):
    here, data = tmp_path / "here", tmp_path / "data"
    here.mkdir()
    data.mkdir()
    monkeypatch.chdir(here)
    assert find_policy(data / "site.csv") is None
    Policy.write_template(here / POLICY_NAME)
    assert find_policy(data / "site.csv").resolve() == here / POLICY_NAME
    (data / POLICY_NAME).symlink_to(data / "nowhere")
    for near in (data / "site.csv", data):
        assert find_policy(near) == data / POLICY_NAME
        with pytest.raises(PolicyError, match="cannot be read"):
            Policy.read(find_policy(near))


def test_asking_is_for_whoever_releases():
    assert Policy(approve="ask").asks
    assert not Policy().asks
    assert Policy(approve="ask").refusals(FINE) == []


values = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=values), st.data())
def test_the_label_share_is_its_formula(y, data):
    weights = data.draw(arrays(np.float64, len(y), elements=st.floats(0, 100, allow_subnormal=False)))
    sizes = np.abs(weights[:, None] * y)
    expected = max(float(size.max() / size.sum()) if size.sum() > 0 else 0.0 for size in sizes.T)
    assert label_share(y, weights) == pytest.approx(expected, rel=1e-12)
    cut = data.draw(st.integers(0, len(y)))
    parts = LabelShare().add(y[:cut], weights[:cut]) + LabelShare().add(y[cut:], weights[cut:])
    assert parts.value == pytest.approx(expected, rel=1e-12)
    assert label_share(y[:, 0]) == label_share(y[:, :1])


def test_the_label_share_of_odd_labels():
    assert label_share([1.0]) == 1.0
    assert label_share([0.0, 0.0]) == 0.0
    assert label_share([[0.0, 5.0], [0.0, 0.0]]) == 1.0
    assert label_share([1.0, -1.0]) == 0.5
    assert label_share([True, False, True, True]) == pytest.approx(1 / 3)
    for unknown in ([], [1.0, math.nan], [1.0, math.inf], [1e308] * 20):
        assert math.isnan(label_share(unknown))
        assert Policy().refusals(release(largest_label_share=label_share(unknown)))
