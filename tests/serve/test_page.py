"""The parts of the status page: what becomes HTML, and what of it a hostile name could change."""

import re

import pytest

from krun.serve.control.pagehtml import age, bar, chart, document, link, mark, summary, table


def points(svg, kind):
    found = re.search(rf'class="{kind}" points="([^"]*)"', svg)[1]
    return [tuple(float(number) for number in point.split(",")) for point in found.split()]


def test_a_chart_has_steps():
    """A value holds until the next one, from the edge at the left until now."""
    svg = chart([(100, 0, 0), (140, 2, 4), (160, 1, 4)], now=160.0, seconds=60.0)
    assert points(svg, "l") == [(0, 48), (160, 48), (160, 25.5), (240, 25.5), (240, 36.8), (240, 36.8)]
    assert points(svg, "a") == [(0, 48), (0, 48), (160, 48), (160, 3), (240, 3), (240, 48)]
    assert "1 instances, 4 requests; at most 4 in 1m" in svg


def test_what_held_before_the_chart_begins_at_its_edge():
    svg = chart([(10, 9, 9), (20, 3, 0)], now=1000.0, seconds=300.0)
    assert points(svg, "l") == [(0, 3), (240, 3)] and points(svg, "a") == [
        (0, 48),
        (0, 48),
        (240, 48),
        (240, 48),
    ]


def test_a_chart_of_nothing_is_a_line_at_zero():
    assert points(chart([], now=5.0, seconds=60.0), "l") == [(0, 48), (240, 48)]


def test_a_young_history_begins_where_it_begins():
    svg = chart([(45.0, 1, 1)], now=60.0, seconds=60.0)
    assert points(svg, "l") == [(180, 3), (240, 3)] and points(svg, "a")[0] == (180, 48)


@pytest.mark.parametrize("size, width", [(50, "50.00"), (-1, "0.00"), (400, "100.00")])
def test_a_bar_stays_in_its_box(size, width):
    assert f'style="width:{width}%"' in bar([(size, "x")], 100.0)
    assert 'style="width:0.00%"' in bar([(size, "x")], 0.0)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "", "data:text/html,x", " http://x"])
def test_only_pages_are_links(url):
    assert "href" not in link(url, "name")


def test_texts_are_escaped():
    evil = '"><script>alert(1)</script>'
    for html in (
        link(f"http://x/{evil}", evil),
        mark(evil, "bad", evil),
        summary([(evil, evil, evil)]),
        table("Name", [evil], [], 0, ""),
        document(evil, "", []).decode(),
    ):
        assert "<script" not in html and 'x/">' not in html


def test_rows_that_are_not_shown_are_counted():
    assert "and 3 more" in table("Services", ["a"], [["1"], ["2"]], 5, "none")
    assert table("Services", ["a"], [], 0, "<p>none</p>").endswith("<p>none</p></section>")


@pytest.mark.parametrize(
    "seconds, text",
    [(-1, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (187, "3m 7s"), (7500, "2h 5m"), (349200, "4d 1h")],
)
def test_ages(seconds, text):
    assert age(seconds) == text
