"""The report in a real Chromium: it shows, complains of nothing, fetches nothing, and its controls do what they say."""

from __future__ import annotations

import pytest

from tests.cases.reports import bad_study, page
from tests.reports import browser as chromium

TAB, RIGHT, END, DOWN = ("Tab", 9), ("ArrowRight", 39), ("End", 35), ("ArrowDown", 40)


@pytest.fixture(scope="module")
def browser():
    path, why = chromium.install()
    if path is None:
        pytest.skip(why)
    with chromium.Browser(path) as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    page("second order", data=True).save(path)
    return path


def text(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).textContent")


@pytest.mark.parametrize("kind", ["desktop", "phone"])
def test_it_shows_complains_of_nothing_and_asks_for_nothing(browser, report, kind):
    browser.open(report, kind)
    assert browser.run("document.querySelectorAll('svg.chart').length") > 10
    visible = "[...document.querySelectorAll('svg.chart')].filter(c => c.getBoundingClientRect().height > 50).length"
    assert browser.run(visible) > 10
    assert browser.run("document.documentElement.classList.contains('js')")
    assert browser.complaints() == []
    assert browser.requests() == [report.absolute().as_uri()]


@pytest.mark.parametrize("kind", ["desktop", "phone"])
def test_nothing_is_wider_than_the_screen(browser, report, kind):
    browser.open(report, kind)
    browser.run("document.querySelectorAll('details').forEach(folded => { folded.open = true; })")
    width = chromium.WIDTHS[kind][0]
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("window.innerWidth") == width
    outside = """[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide, pre, svg'))
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.run(outside) == []
    letters = "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
    assert browser.run(letters.replace("svg text", "figure:not([hidden]) svg text")) > 9


def test_no_words_of_a_chart_lie_over_one_another_or_leave_it(browser, report):
    browser.open(report)
    overlapping = """[...document.querySelectorAll('figure:not([hidden]) svg.chart')].flatMap(chart => {
        const boxes = [...chart.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
        return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2
        ).map(([b]) => chart.id + ': ' + a + ' / ' + b)); })"""
    assert browser.run(overlapping) == []
    outside = """[...document.querySelectorAll('figure:not([hidden]) svg.chart')].flatMap(chart => {
        const box = chart.getBoundingClientRect();
        return [...chart.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
            .filter(([, b]) => b.left < box.left - 1 || b.right > box.right + 1).map(([words]) => words); })"""
    assert browser.run(outside) == []


def test_the_slider_moves_every_reading_cursor_and_curve_and_goes_back(browser, report):
    browser.open(report)
    first = [browser.run(f"document.querySelectorAll('.readings dd')[{i}].textContent") for i in range(4)]
    cursor = browser.run("document.querySelector('#scores .cursor').getAttribute('x1')")
    assert browser.run("document.querySelector('.line.alt').getAttribute('points')") == ""
    browser.run("document.getElementById('along').focus()")
    browser.press(*END)
    after = [browser.run(f"document.querySelectorAll('.readings dd')[{i}].textContent") for i in range(4)]
    assert all(a != b for a, b in zip(first, after))
    assert browser.run("document.querySelector('#scores .cursor').getAttribute('x1')") != cursor
    assert browser.run("document.querySelector('.line.alt').getAttribute('points').length") > 50
    assert browser.run("document.getElementById('along-inputs').value === document.getElementById('along').value")
    assert text(browser, "output.at") in browser.run("document.getElementById('along').getAttribute('aria-valuetext')")
    browser.run("document.querySelector('button.back').click()")
    assert [browser.run(f"document.querySelectorAll('.readings dd')[{i}].textContent") for i in range(4)] == first
    assert "(chosen)" in text(browser, "output.at")
    assert browser.complaints() == []


def test_choosing_an_input_changes_the_curve(browser, report):
    browser.open(report)
    shown = "[...document.querySelectorAll('figure[data-input]')].filter(f => !f.hidden).map(f => f.textContent)"
    (before,) = browser.run(shown)
    browser.run("document.getElementById('input').focus()")
    browser.press(*DOWN)
    (after,) = browser.run(shown)
    assert before != after
    chosen = browser.run("document.getElementById('input').selectedOptions[0].textContent")
    assert f"The prediction along {chosen}" in after


def test_words_show_under_a_pointer_and_by_keys(browser, report):
    browser.open(report)
    browser.run("document.getElementById('eigenvalues').scrollIntoView({block: 'center', behavior: 'instant'})")
    x, y = browser.run("""(() => { const m = document.querySelectorAll('#eigenvalues .mark')[3].getBoundingClientRect();
        return [m.left + m.width / 2, m.top + m.height / 2]; })()""")
    assert browser.run("document.querySelector('.tip').hidden")
    browser.point(x, y)
    assert not browser.run("document.querySelector('.tip').hidden")
    assert text(browser, ".tip").startswith("eigenvalue 4: ")
    browser.point(2, 2)
    assert browser.run("document.querySelector('.tip').hidden")
    browser.run("document.getElementById('eigenvalues').focus()")
    browser.press(*RIGHT)
    assert text(browser, ".tip").startswith("eigenvalue 1: ")
    browser.press(*RIGHT)
    assert text(browser, ".quiet").startswith("eigenvalue 2: ")
    assert browser.run("document.querySelectorAll('svg title').length") == 0  # no second tip by the browser


def test_every_control_is_reached_by_the_keyboard_in_the_order_of_the_page(browser, report):
    browser.open(report)
    seen = []
    for _ in range(120):
        browser.press(*TAB)
        seen.append(browser.run("document.activeElement.id || document.activeElement.className"))
        if seen[-1] == "moves":
            break
    controls = ["rows", "site-errors", "along", "scores", "input", "along-inputs", "moves"]
    assert [one for one in seen if one in controls] == controls


def test_without_a_script_everything_is_there(browser, report):
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report)
        document = browser.ask("DOM.getDocument", depth=0)["root"]["nodeId"]
        figures = browser.ask("DOM.querySelectorAll", nodeId=document, selector="figure[data-input]")["nodeIds"]
        heights = [browser.ask("DOM.getBoxModel", nodeId=node)["model"]["height"] for node in figures]
        assert len(heights) == 3
        assert min(heights) > 100
        (slider,) = browser.ask("DOM.querySelectorAll", nodeId=document, selector="#along")["nodeIds"]
        with pytest.raises(RuntimeError, match="box model"):
            browser.ask("DOM.getBoxModel", nodeId=slider)
        assert browser.complaints() == []
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_it_prints(browser, report):
    browser.open(report)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 50_000


def test_names_run_nothing(browser, tmp_path):
    path = tmp_path / "bad.html"
    bad_study().save(path)
    browser.open(path)
    assert browser.run("window.injected === undefined")
    browser.run("document.getElementById('input').focus()")
    browser.press(*DOWN)
    assert browser.run("window.injected === undefined")
    assert browser.complaints() == []
    assert browser.requests() == [path.absolute().as_uri()]


@pytest.mark.parametrize("kind", ["spectral", "correntropy", "averaged", "robust rounds", "private", "private descent"])
def test_other_kinds_complain_of_nothing_on_a_dark_phone(browser, tmp_path, kind):
    path = tmp_path / "report.html"
    page(kind).save(path)
    browser.open(path, "phone", prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
