"""What a launcher's command line says: to the launcher, and to fl_ddp.main."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from launch.input.declared import Folder, Form
from launch.input.help_text import help_text
from launch.input.words import Words, split


@dataclass(frozen=True)
class Trip:
    """Where to go.

    Attributes:
        to: the place.
        time: when.
        stop: a place on the way.
        bags: number of bags.
        by: what to go by.
        out: folder for the pictures.
        rain: go in any weather.
    """

    to: Annotated[str, Form("PLACE", accepted="one on the map")]
    time: str = "4:00:00"
    stop: tuple[Annotated[str, Form("PLACE", "[a-z]+", "names")], ...] = ()
    bags: Count | None = None
    by: Literal["train", "bike"] = "train"
    out: Folder = "pictures"
    rain: bool = False

    def __post_init__(self) -> None:
        if self.by == "bike" and self.bags:
            raise ConfigError("--bags", "fall off")


@dataclass(frozen=True)
class Return:
    """The way back.

    Attributes:
        back: when.
    """

    back: str | None = None


def trip(*line: str) -> Trip:
    return split(line, Trip, Return).read(Trip)


def test_a_folder_may_lie_in_a_home_and_has_a_name_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert trip("there", "--out=~/pictures").out == "/somewhere/pictures"
    with pytest.raises(ConfigError, match=r"^--out: ~nosuchuser/a begins with ~nosuchuser, a home that is not known"):
        trip("there", "--out=~nosuchuser/a")
    with pytest.raises(ConfigError, match=r"^--out: a{20}\.\.\. is too long for a path"):
        trip("there", f"--out={300 * 'a'}")


def test_a_command_line_is_split_and_read() -> None:
    line = ["here", "--time", "5", "--lr", "0.1", "--rain", "--stop=a", "--stop", "b", "--back=8", "--data.download"]
    words = split(line, Trip, Return)
    assert words.rest == ("--lr=0.1", "--data.download")
    assert words.read(Trip) == Trip("here", time="5", stop=("a", "b"), rain=True)
    assert words.read(Return) == Return("8") and words.given_of(Return) == ["back"]
    assert trip("here", "--bags=1", "--bags=2").bags == 2


@pytest.mark.parametrize("text", ["30:00", "null", "a: b", "[1", "1e3", "0x10", "'x'"])
def test_texts_are_read_as_they_are_written(text: str) -> None:
    assert (trip("here", "--time", text).time, trip("here", f"--out={text}").out) == (text, text)
    assert trip(text).to == text


@pytest.mark.parametrize(
    ("line", "on"), [(["--rain"], True), (["--rain", "true"], True), (["--rain=FALSE"], False), (["x", "--rain"], True)]
)
def test_switches_work_alone_and_with_a_value(line: list[str], on: bool) -> None:
    assert split(line, Trip).asks_for("rain") == on


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--time"], "--time: needs a value"),
        (["--time="], "--time: needs a value"),
        (["--time", "--nodes=1"], "--time: needs a value; one that begins with -- is written --time=--nodes=1"),
        (["--tme", "5"], "--tme: unknown option; did you mean --time?"),
        (["--rain=5"], "--rain: 5 is unknown; accepted: true or false"),
        (["--name", "a"], "--name: is not the user's to give here; give --out"),
        (["here", "there"], "there: belongs to no option; PLACE is here already"),
        ([], "PLACE: is missing; accepted: one on the map"),
        (["x", "--bags=two"], "--bags: two is impossible; accepted: whole numbers from 1 up"),
        (["x", "--bags=0"], "--bags: 0 is impossible; accepted: whole numbers from 1 up"),
        (["x", "--by=car"], "--by: car is impossible; accepted: train, bike"),
        (["x", "--stop=a", "--stop=1"], "--stop: 1 is impossible; accepted: names"),
        (["x", "--by=bike", "--bags=1"], "--bags: fall off"),
    ],
)
def test_what_cannot_be_read_is_refused(line: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        split(line, Trip, refused={"name": "--out"}).read(Trip)


def test_a_word_that_no_option_takes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^here: belongs to no option; write --option value$"):
        split(["here"], Return)


@pytest.mark.parametrize("line", [["-h"], ["--help", "here"], ["--back", "8", "x", "--help"]])
def test_help_needs_nothing_else_to_be_right(line: list[str]) -> None:
    assert split(line, Return).asks_for("help")


def test_no_option_of_a_run_is_taken_for_a_misspelt_one() -> None:
    line = ("--config=a.yaml", "--partition=IID", "--seed=1", "--name=b", "--model.hidden=3", "--print_config")
    assert split(line, Trip) == Words({}, line)


def test_help_tells_what_the_docstrings_say() -> None:
    assert help_text("usage\n\n{options}\n\nend", Trip, Return).splitlines() == [
        "usage",
        "",
        "Where to go:",
        "  PLACE                   the place",
        "  --time TIME             when [4:00:00]",
        "  --stop PLACE            a place on the way; may be given several times",
        "  --bags N                number of bags",
        "  --by train|bike         what to go by [train]",
        "  --out DIR               folder for the pictures [pictures]",
        "  --rain                  go in any weather",
        "",
        "The way back:",
        "  --back BACK             when",
        "",
        "  --help                  print this and stop",
        "",
        "end",
    ]
