"""A message that was changed on its way, or by a broken site or server, never changes a sum without a word."""

from tests.federation.fuzz_secure_messages import run


def test_studies_with_one_bad_message_end_with_the_right_sum_a_named_site_or_no_model(tmp_path):
    outcomes = run(24, 3, tmp_path)
    assert sum(outcomes.values()) == 24
    lost = [name for name in outcomes if name.startswith(("damaged ask", "damaged join"))]
    assert lost
    assert all(name.endswith("partial, the site named") for name in lost)
    opened = [name for name in outcomes if name.startswith("damaged open")]
    assert opened
    assert all(name.endswith("complete") for name in opened)  # all locks but one site's are enough
