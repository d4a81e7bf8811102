"""Tables of texts."""

from __future__ import annotations

from fl_ddp.host.text_table import TextTable

TABLE = TextTable(["name", "n", "note"], [["a|b", "10", ""], ["c", "9", "longer"]], flush_left=1)


def test_texts_begin_and_numbers_end_under_each_other() -> None:
    assert TABLE.aligned() == [
        "name   n    note",
        "----------------",
        "a|b   10",
        "c      9  longer",
    ]


def test_markdown_says_so_and_shows_what_it_would_take_for_a_border() -> None:
    assert TABLE.markdown() == [
        "| name | n | note |",
        "| --- | ---: | ---: |",
        "| a\\|b | 10 |  |",
        "| c | 9 | longer |",
    ]
