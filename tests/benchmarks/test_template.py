"""Templates: what is filled in, and what may not be typed."""

from __future__ import annotations

import pytest
from template import fill

from fl_ddp.errors import ConfigError


def shout(directive: str) -> str:
    if directive == "wrong":
        raise ConfigError("it", "is wrong")
    return directive.upper()


def test_directives_are_filled_in_wherever_their_lines_break() -> None:
    assert fill("a {one} and {two\n   words}.\n", shout, "page") == "a ONE and TWO WORDS.\n"


@pytest.mark.parametrize(
    "text",
    [
        "# Title of 2026, 3.5 %\n",
        "```\nrun 0.5 {this}\n```\n",
        "`lr 0.01` of `{x}`\n",
        "CIFAR-10, L2, ResNet18 and p000_t1\n",
        "Table 3, Tables 1 to 4, Tables 1, 2 and 3, Figure 2\n",
        "[a link](#the-3-rows)\n",
    ],
)
def test_code_headings_and_names_stay_as_they_are(text: str) -> None:
    assert fill(text, shout, "page") == text


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("reaches 83.5 points", "83.5"),
        ("about 40 % of", "40 %"),
        ("in round 71, or later", "71"),
        ("1,500 rounds", "1,500"),
        ("Table 3 has 4 rows", "4"),
        ("± 0.3.", "0.3"),
    ],
)
def test_a_number_that_is_typed_is_refused_with_its_line(text: str, typed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fill(f"# 1\n\n{{first\nsecond}}\n{text}\n", shout, "page.md")
    assert str(caught.value).startswith(
        f"page.md:5: {typed} is typed; accepted: a directive, or {{typed {typed}}} where"
    )


def test_a_directive_that_cannot_be_answered_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"^page\.md:2: it: is wrong$"):
        fill("first\nsecond {wrong}\n", shout, "page.md")
    with pytest.raises(ConfigError, match=r"^page\.md:2: a brace without its other half$"):
        fill("first\nsecond {wrong\n", shout, "page.md")
