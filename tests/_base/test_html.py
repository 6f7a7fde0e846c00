"""Pages: one shell for all, every text of a user's escaped, and no script beside the page's own."""

from __future__ import annotations

import base64
import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from tests.cases.reports import BAD, Page
from unpooled._base import html

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


def sections(title="A title", words="Some words."):
    made = html.Section("first", title).say(words).lack(f"{words} are not here")
    return [made, html.Section("second", "Another").add(html.cards([("a", "1", words)]), html.warning(words))]


def guarded(title="T", **given):
    return html.page_of_sections(title, "<h1>T</h1>", sections(**given), {"a": [1]}, "", style="p{}", script="let a;")


def test_both_kinds_of_page_stand_in_one_shell():
    plain, other = html.page("T", ["<p>x</p>"]), guarded()
    for page in (plain, other):
        assert page.startswith("<!doctype html>\n")
        assert page.endswith("</body></html>\n")
        assert "<title>T</title>" in page
        Page(page)  # where every element is closed
    first = plain[: plain.index("<title>")]
    assert other.startswith(first)


@given(TEXT, TEXT)
def test_whatever_a_user_calls_things_stays_text(title, words):
    found = Page(guarded(title=title, words=words))
    assert len(found.all("script")) == 2
    assert " ".join(words.split()) in found.words
    assert found.all("title") == [{}]


def test_names_that_want_to_break_out_do_not():
    for bad in BAD:
        found = Page(guarded(title=bad, words=bad))
        assert found.all("img") == []
        assert not any("onfocus" in given for _, given in found.tags)
    tables = html.table(BAD, [BAD, [BAD[0]]]) + html.fold(BAD[0], [html.literal(BAD[1])]) + html.bullets(BAD)
    assert Page(tables).all("script") == Page(tables).all("img") == []


def test_the_policy_allows_the_pages_own_style_and_script_and_no_other():
    page = guarded()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    for text in ("p{}", "let a;"):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'")


def test_every_section_is_in_the_list_and_says_what_it_lacks():
    found = Page(guarded())
    links = [given["href"] for given in found.all("a") if given["href"] != "#content"]
    assert links == ["#first", "#second"]
    assert {"first", "second"} <= set(found.ids)
    assert sections()[0].missing == ["Some words. are not here"]
