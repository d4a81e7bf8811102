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


def test_latex_has_a_tabular_of_what_is_written_there() -> None:
    hard = TextTable(
        ["a_b %", "~^\\"], [["50.0 ± 1.5", "-0.3 [-1, +2]"], [">= 3 {x} <#&$|>", "1e-3, a-1"]], flush_left=1
    )
    assert hard.latex([(0, 1)]) == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a\_b \% & \textasciitilde{}\textasciicircum{}\textbackslash{} \\",
        r"\midrule",
        r"50.0 $\pm$ 1.5 & \textbf{$-$0.3 [$-$1, +2]} \\",
        r"$\ge$ 3 \{x\} \textless{}\#\&\$\textbar{}\textgreater{} & 1e-3, a-1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_row_of_latex_is_no_argument_of_the_one_before() -> None:
    rows = TextTable(["[x]"], [["[0.9, 0.99]"], ["*"], ["a [b]"]], flush_left=1).latex()
    assert [line for line in rows if line.endswith("\\\\")] == [
        r"{}[x] \\",
        r"{}[0.9, 0.99] \\",
        r"{}* \\",
        r"a [b] \\",
    ]
