"""A real TensorBoard over real runs: what its table of hyper-parameters knows, and what a browser shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from launching import PATIENCE, SMALL, simulated

from fl_ddp.host.stopwatch import PHASES

RUNS: Mapping[str, Mapping[str, object]] = {
    "plain": {},
    "near": {"method": "FedProx", "method.mu": 0.5, "drop_last": True},
    "nearer": {"method": "FedProx", "method.mu": 2, "local_steps": 5},
}
STATUSES = [f"STATUS_{status}" for status in ("UNKNOWN", "SUCCESS", "FAILURE", "RUNNING")]
WINDOW = "1600,4000"
"""Pixels: the curves of ten classes are in sight; those that are not are not drawn."""
PAGE_TIME = "10000000"
"""Milliseconds by the page's own clock, which leaps from timer to timer: on a busy machine it gains minutes on ours."""
LOOKS = 4
"""A page that a slow machine has not drawn in that time is loaded again."""


class Board(NamedTuple):
    """A TensorBoard at work.

    Attributes:
        address: of its pages.
        folder: of the runs it shows.
    """

    address: str
    folder: Path

    def ask(self, question: str, **content: object) -> Any:
        """What it answers to its own page of hyper-parameters."""
        request = urllib.request.Request(
            f"{self.address}/data/plugin/hparams/{question}",
            json.dumps({"experimentName": "", **content}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def rows(self) -> Mapping[str, Any]:
        """The table of hyper-parameters, by run."""
        wanted = {"allowedStatuses": STATUSES, "colParams": [], "startIndex": 0, "sliceSize": 100}
        return {row["name"]: row for row in self.ask("session_groups", **wanted).get("sessionGroups", [])}

    def is_complete(self) -> bool:
        """Whether it has read the last thing each run wrote."""
        with suppress(OSError):
            ends = [session["status"] for row in self.rows().values() for session in row["sessions"]]
            return ends == ["STATUS_SUCCESS"] * len(RUNS)
        return False


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in RUNS.items():
        simulated({**SMALL, "targets": [0.01, 1.0], "figures": True, **settings, "name": name}, folder)
    log = tmp_path_factory.mktemp("tensorboard") / "log"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1", "--port", "0"]
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + PATIENCE
        while (
            not (told := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
            or not (found := Board(told[0], folder)).is_complete()
        ):
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield found
    finally:
        server.terminate()
        server.wait()


def summary(board: Board, run: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((board.folder / run / "summary.json").read_text())
    return content


def test_table_of_hyper_parameters_begins_with_what_differs_and_with_the_results(board: Board) -> None:
    experiment = board.ask("experiment", includeMetrics=True)
    differing = {info["name"] for info in experiment["hparamInfos"] if info.get("differs")}
    assert differing == {"method", "method.mu", "drop_last", "local_steps"}
    assert [info["name"] for info in experiment["hparamInfos"][: len(differing)]] == sorted(differing)
    assert [info["name"]["tag"] for info in experiment["metricInfos"][:5]] == [
        "Results/accuracy",
        "Results/accuracy/best",
        "Results/accuracy/running_mean",
        "Results/forgetting",
        "Results/rounds_to/0.01",
    ]


@pytest.mark.parametrize("run", RUNS)
def test_table_of_hyper_parameters_has_the_settings_and_results_of_each_run(board: Board, run: str) -> None:
    row = board.rows()[run]
    shown = {name: row["hparams"].get(name) for name in ("method", "method.mu", "drop_last", "local_steps")}
    assert shown == {"method": "FedAvg", "method.mu": None, "drop_last": False, "local_steps": "null", **RUNS[run]}
    values = {value["name"]["tag"].removeprefix("Results/"): value["value"] for value in row["metricValues"]}
    result = summary(board, run)
    assert values["accuracy"] == pytest.approx(result["accuracy"])
    assert values["accuracy/best"] == pytest.approx(result["best_accuracy"])
    assert values["accuracy/running_mean"] == pytest.approx(result["running_mean_accuracy"])
    assert values["forgetting"] == pytest.approx(result["forgetting"])
    assert values["rounds_to/0.01"] == result["rounds_to_target"]["accuracy"]["0.01"]


def test_the_curves_of_a_rounds_seconds_are_not_those_of_compiling(board: Board) -> None:
    """Which takes as long as all other rounds together, once: nothing else could be seen beside it."""

    def asked(question: str) -> Any:
        with urllib.request.urlopen(f"{board.address}/data/plugin/custom_scalars/{question}", timeout=30) as answer:
            return json.load(answer)

    charts = [chart for category in asked("layout")["category"] for chart in category["chart"]]
    (shown,) = (chart["multiline"]["tag"] for chart in charts if "seconds" in chart["title"])
    found = asked(f"scalars?run=plain&tag={quote(shown[0], safe='')}")["tag_to_events"]
    assert found.keys() == {f"time/{phase}" for phase in PHASES} - {"time/compiling"}


@pytest.mark.browser
@pytest.mark.parametrize(("group", "key"), [("accuracy/class", "class_accuracy"), ("forgetting", "class_forgetting")])
def test_browser_shows_the_curve_of_each_class(board: Board, tmp_path: Path, group: str, key: str) -> None:
    expected = {run: summary(board, run)[key] for run in RUNS}
    assert {len(values) for values in expected.values()} == {10}
    for attempt in range(LOOKS):
        found = newest_points(look(board, f"{group}/\\d", tmp_path / str(attempt)), group)
        if found.keys() == set(RUNS) and all(values.keys() == expected[run].keys() for run, values in found.items()):
            break
    assert found == {run: pytest.approx(values, abs=1e-4) for run, values in expected.items()}  # four digits are shown


def look(board: Board, tags: str, profile: Path) -> str:
    """The text of TensorBoard's first page after its scripts have run.

    Args:
        board: to look at.
        tags: expression of the curves that are asked for.
        profile: folder of the browser's own files.
    """
    browser = shutil.which("chromium")
    if browser is None:
        (pytest.fail if "CI" in os.environ else pytest.skip)("there is no chromium on this machine")
    page = f"{board.address}/?tagFilter={quote(tags, safe='')}#timeseries"
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
        f"--window-size={WINDOW}", f"--virtual-time-budget={PAGE_TIME}", "--dump-dom", page,
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    shown = re.sub(r"<(style|script|svg)\b.*?</\1>", "", shown, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", shown).split())


def newest_points(text: str, group: str) -> dict[str, dict[str, float]]:
    """The last value of each run and class, as the tables below the curves tell them.

    Args:
        text: of the page.
        group: what the names of the curves have before that of the class.
    """
    found: dict[str, dict[str, float]] = {}
    rounds = SMALL["rounds"]
    for card in text.split(f"{group} /")[1:]:
        for run, value in re.findall(rf"\b({'|'.join(RUNS)}) [\d.]+ ([\d.]+) {rounds} ", card):
            found.setdefault(run, {})[card.split()[0]] = float(value)
    return found
