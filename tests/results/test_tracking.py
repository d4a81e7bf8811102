import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.metadata import (
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
    parse_session_end_info_plugin_data,
    parse_session_start_info_plugin_data,
)

from fl_ddp.course.progress import Progress
from fl_ddp.course.result_table import result_table
from fl_ddp.errors import ConfigError
from fl_ddp.results.figures import confusion_figure, png
from fl_ddp.results.metrics import Columns, Record
from fl_ddp.results.provenance import provenance
from fl_ddp.results.summary import Summary, rounds_to_target, write_summary
from fl_ddp.results.tracking import History, Tracker

CLASSES = ("cat", "T-shirt/top", 'a "b", c')
PHASES = ("training", "evaluation")


def record(round: int) -> Record:
    """Round 0 and even rounds are evaluated; 1 / 3 and the like do not survive a short print."""
    plain = Record(
        round, 10, 1000 + round, 2000, 0.2, 1 / (round + 3), seconds={"training": 0.1 / 3}, wall=1e9 + round / 3
    )
    if round % 2:
        return plain
    accuracy = round / (round + 3)
    return replace(plain, accuracy=accuracy, loss=1 - accuracy, class_accuracy=(accuracy, math.nan, accuracy / 7))


def tracker(folder: Path, state: dict[str, object] | None = None) -> Tracker:
    return Tracker(
        folder, Columns(CLASSES, PHASES), {"method": "FedAvg", "lr": 0.1, "cohort": None, "compile": True}, state
    )


def tracked(folder: Path, rounds: range) -> dict[str, object]:
    """State after an uninterrupted run."""
    folder.mkdir()
    whole = tracker(folder)
    for round in rounds:
        whole.record(record(round))
    whole.file.sync()
    whole.close()
    return whole.file.state()


def curves(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(e.step, e.value, e.wall_time) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_metrics_hold_every_round_and_their_floats_round_trip(tmp_path: Path) -> None:
    tracked(tmp_path / "run", range(5))
    with (tmp_path / "run/metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == list("01234")
    assert [column for column in rows[0] if column.startswith("time")] == [
        "time_padded_lanes",
        "time_wall",
        "time_training",
        "time_evaluation",
    ]
    assert [column for column in rows[0] if column.startswith("accuracy/")] == [f"accuracy/{name}" for name in CLASSES]
    assert rows[1]["accuracy"] == rows[1]["running_mean_accuracy"] == rows[1]["accuracy/cat"] == ""
    assert float(rows[4]["accuracy"]) == 4 / 7 and float(rows[4]["train_loss"]) == 1 / 7
    assert float(rows[4]["running_mean_accuracy"]) == (2 / 5 + 4 / 7) / 2
    assert rows[0]["forgetting"] == rows[1]["forgetting"] == "" and float(rows[4]["forgetting"]) == 0


def test_tensorboard_shows_the_curves_of_the_design(tmp_path: Path) -> None:
    tracked(tmp_path / "run", range(5))
    shown = curves(tmp_path / "run")
    assert shown.keys() == {
        *("Results/accuracy", "Results/accuracy/best", "Results/accuracy/running_mean", "Results/forgetting"),
        *("accuracy/global", "accuracy/class/cat", 'accuracy/class/a "b", c'),
        *("forgetting/average", "forgetting/cat", 'forgetting/a "b", c'),
        *("loss/test", "loss/perplexity", "loss/train", "traffic/up", "traffic/down", "time/training"),
    }
    for (_, loss, _), (_, choices, _) in zip(shown["loss/test"], shown["loss/perplexity"], strict=True):
        assert choices == pytest.approx(math.exp(loss), rel=1e-6)
    assert [step for step, _, _ in shown["accuracy/global"]] == [0, 2, 4]
    assert [value for _, value, _ in shown["traffic/up"]] == [1000, 2001, 3003, 4006, 5010]
    assert shown["loss/train"][3][2] == 1e9 + 1


def sessions(folder: Path) -> dict[str, bytes]:
    content: dict[str, bytes] = EventAccumulator(str(folder)).Reload().PluginTagToContent("hparams")
    return content


def test_confusion_matrix_writes_down_what_is_not_0() -> None:
    figure = confusion_figure([[3, 0, 1], [0, 0, 0], [1, 1, 9]], CLASSES)
    cells = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
    assert cells == {(0, 0): "3", (2, 0): "1", (0, 2): "1", (1, 2): "1", (2, 2): "9"}


def test_confusion_matrix_has_the_colours_of_the_shares_of_a_label() -> None:
    figure = confusion_figure([[3, 0, 1], [0, 0, 0], [1, 1, 9]], CLASSES)
    shown = np.asarray(figure.axes[0].images[0].get_array())
    assert shown.tolist() == [[3 / 4, 0, 1 / 4], [0, 0, 0], [1 / 11, 1 / 11, 9 / 11]]


def test_tensorboard_shows_the_mean_over_tasks_and_the_traffic_of_all_rounds(tmp_path: Path) -> None:
    run = tracker(tmp_path)
    for round in range(3):
        run.record(record(round))
    run.tasks(1, [0.4], None)
    run.tasks(2, [0.2, 0.8], 0.25)
    run.close()
    found = {tag: [value for _, value, _ in points] for tag, points in curves(tmp_path).items()}
    means = [found[f"task_accuracy/{each}"] for each in ("average", 1, 2)]
    assert means == [pytest.approx(values) for values in ([0.4, 0.5], [0.4, 0.2], [0.8])]
    assert found["task_forgetting/average"] == [0.25], "in the first task nothing can be forgotten"
    assert found["traffic/up"] == [1000, 2001, 3003] and found["traffic/down"] == [2000, 4000, 6000]


def test_figures_reach_tensorboard_in_the_same_run(tmp_path: Path) -> None:
    run = tracker(tmp_path)
    drawn = png(confusion_figure([[3, 0, 1], [0, 0, 0], [1, 1, 9]], CLASSES))
    run.image("confusion", drawn, 0)
    run.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    (image,) = events.Images("confusion")
    assert image.encoded_image_string == drawn and drawn.startswith(b"\x89PNG")
    assert (image.width, image.height) == Image.open(io.BytesIO(drawn)).size
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_hyper_parameters_keep_their_types_and_a_run_ends_once_it_has_all_rounds(tmp_path: Path) -> None:
    run = tracker(tmp_path)
    run.record(record(2))
    assert sessions(tmp_path).keys() == {SESSION_START_INFO_TAG}
    run.finish(2, {"0.3": 2, "0.9": None})
    run.close()
    told = sessions(tmp_path)
    settings = parse_session_start_info_plugin_data(told[SESSION_START_INFO_TAG]).hparams
    assert settings["cohort"].string_value == "null" and settings["method"].string_value == "FedAvg"
    assert settings["lr"].number_value == 0.1 and settings["compile"].bool_value is True
    assert parse_session_end_info_plugin_data(told[SESSION_END_INFO_TAG]).status == STATUS_SUCCESS
    results = {tag: curve[-1][:2] for tag, curve in curves(tmp_path).items() if tag.startswith("Results/")}
    assert results == {
        "Results/accuracy": (2, pytest.approx(0.4)),
        "Results/accuracy/best": (2, pytest.approx(0.4)),
        "Results/accuracy/running_mean": (2, pytest.approx(0.4)),
        "Results/forgetting": (2, 0.0),
        "Results/rounds_to/0.3": (2, 2.0),
    }


def test_best_accuracy_is_that_of_any_round_but_the_initial_model(tmp_path: Path) -> None:
    run = tracker(tmp_path)
    for round, accuracy in enumerate((0.9, 0.25, 0.75, 0.5)):
        run.record(replace(record(2 * round), accuracy=accuracy))
    run.close()
    assert [value for _, value, _ in curves(tmp_path)["Results/accuracy/best"]] == [0.25, 0.75, 0.75]
    assert run.history.standing.best == 0.75


def test_the_best_accuracy_is_on_the_test_samples_that_there_are_now() -> None:
    history, told = History({3: [1], 6: [0, 1]}, knows=False), list[tuple[float | None, int]]()
    for round, accuracy in {1: 0.9, 2: 0.8, 4: 0.3, 5: 0.4, 8: 0.2, 9: 0.1}.items():
        history.add(replace(record(2 * round), round=round, accuracy=accuracy))
        told.append((history.standing.best, history.since))
    assert told == [(0.9, 0), (0.9, 0), (0.3, 4), (0.4, 4), (0.2, 8), (0.2, 8)]


def test_custom_scalars_show_each_curve_where_its_title_says(tmp_path: Path) -> None:
    run = tracker(tmp_path)
    run.record(record(2))
    run.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    (stored,) = events.Tensors("custom_scalars__config__")
    shown = {
        (category.title, chart.title): [
            tag for regex in chart.multiline.tag for tag in curves(tmp_path) if re.match(regex, tag)
        ]
        for category in Layout.FromString(stored.tensor_proto.string_val[0]).category
        for chart in category.chart
    }
    assert list(shown.items())[:4] == [
        (("Global model", "accuracy"), ["accuracy/global"]),
        (("Global model", "running mean of the accuracy"), ["Results/accuracy/running_mean"]),
        (("Global model", "forgetting, average over the classes"), ["forgetting/average"]),
        (("Accuracy of each class", "cat"), ["accuracy/class/cat"]),
    ]
    for name in ("cat", 'a "b", c'):
        assert shown["Accuracy of each class", name] == [f"accuracy/class/{name}"]
        assert shown["Forgetting of each class", name] == [f"forgetting/{name}"]
    assert not any("degree" in category for category, _ in shown)


def test_the_forgetting_degree_has_charts_where_it_is_measured(tmp_path: Path) -> None:
    run = Tracker(tmp_path, Columns(CLASSES, PHASES, degree=True), {})
    run.record(replace(record(2), forgetting_degree=0.25, class_degree=tuple(range(len(CLASSES)))))
    run.close()
    found = curves(tmp_path)
    assert [value for _, value, _ in found["forgetting_degree/average"]] == [0.25]
    assert [[value for _, value, _ in found[f"forgetting_degree/{name}"]] for name in CLASSES] == [
        [float(i)] for i in range(len(CLASSES))
    ]
    (stored,) = EventAccumulator(str(tmp_path)).Reload().Tensors("custom_scalars__config__")
    titles = [each.title for each in Layout.FromString(stored.tensor_proto.string_val[0]).category]
    assert "Forgetting degree: what local training loses of each class" in titles


@pytest.mark.parametrize("kept", [0, 3, 6])
def test_resume_and_replay_give_the_same_files_and_no_doubled_steps(tmp_path: Path, kept: int) -> None:
    tracked(tmp_path / "whole", range(7))
    (tmp_path / "cut").mkdir()
    first = tracker(tmp_path / "cut")
    for round in range(kept + 1):
        first.record(record(round))
    state = json.loads(json.dumps(first.file.state()))
    for round in range(kept + 1, 7):
        first.record(replace(record(round), train_loss=-1.0))
    # Killed in the middle of a row and of an event; the first tracker is never closed.
    for path in (tmp_path / "cut").iterdir():
        with path.open("ab") as file:
            file.write(b"7,0.")
    second = tracker(tmp_path / "cut", state)
    for round in range(kept + 1, 7):
        second.record(record(round))
    second.close()
    assert second.history.running_means == pytest.approx([2 / 5, (2 / 5 + 4 / 7) / 2, (2 / 5 + 4 / 7 + 6 / 9) / 3])
    assert (tmp_path / "cut/metrics.csv").read_bytes() == (tmp_path / "whole/metrics.csv").read_bytes()
    assert curves(tmp_path / "cut") == curves(tmp_path / "whole")
    assert len(list((tmp_path / "cut").iterdir())) == 2


def test_history_after_resume_equals_that_of_the_whole_run(tmp_path: Path) -> None:
    state = tracked(tmp_path / "run", range(7))
    again = tracker(tmp_path / "run", state).history
    whole = tracker(tmp_path).history
    for round in range(7):
        whole.add(record(round))
    assert repr(vars(again)) == repr(vars(whole))  # nan equals nothing, and floats are printed to the last bit
    assert whole.padded_lanes == pytest.approx(0.2)  # a mean of six rounded values


def test_starting_anew_leaves_nothing_of_the_old_records(tmp_path: Path) -> None:
    tracked(tmp_path / "run", range(7))
    run = tracker(tmp_path / "run")
    run.record(record(0))
    run.close()
    assert len((tmp_path / "run/metrics.csv").read_text().splitlines()) == 2
    assert {step for curve in curves(tmp_path / "run").values() for step, _, _ in curve} == {0}


def test_edited_or_shortened_metrics_are_refused(tmp_path: Path) -> None:
    state = tracked(tmp_path / "run", range(3))
    file = tmp_path / "run/metrics.csv"
    content = file.read_text()
    for damaged, message in ((content.replace("2000", "2001"), "edited"), (content[:-5], "cut short")):
        file.write_text(damaged)
        with pytest.raises(ConfigError, match=rf"metrics\.csv: was {message}"):
            tracker(tmp_path / "run", state)
    file.unlink()
    with pytest.raises(ConfigError, match=r"metrics\.csv: cannot be read"):
        tracker(tmp_path / "run", state)


def test_rounds_to_target_is_the_first_round_that_reaches_it() -> None:
    reached = rounds_to_target([2, 4, 6], [0.5, 0.9, 0.6], [0.5, 0.6, 0.95])
    assert reached == {"0.5": 2, "0.6": 4, "0.95": None}


SUMMARY = Summary(
    folder="runs/first",
    seed=0,
    rounds=6,
    accuracy=0.75,
    running_mean_accuracy=None,
    best_accuracy=0.8,
    forgetting=0.25,
    loss=math.inf,
    of_clients={},
    class_accuracy={"cat": 0.5, "T-shirt/top": math.nan},
    class_forgetting={"cat": 0.25, "T-shirt/top": math.nan},
    confusion=((1, 1), (0, 0)),
    rounds_to_target={"accuracy": {"0.7": 3, "0.9": None}, "running_mean": {"0.7": None, "0.9": None}},
    traffic_up_bytes=1_500_000,
    traffic_down_bytes=3_000_000_000,
    padded_lanes=0.25,
    seconds={"training": 1.5},
    parameters_sha256="ab" * 32,
    numerics={"reduction": "exact"},
    environment={},
)


def test_summary_is_strict_json(tmp_path: Path) -> None:
    write_summary(tmp_path, replace(SUMMARY, environment=provenance()))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = (tmp_path / "summary.json").read_text()
    summary = json.loads(text, parse_constant=refuse)
    assert summary["accuracy"] == 0.75 and summary["loss"] is None
    assert summary["class_accuracy"] == {"cat": 0.5, "T-shirt/top": None}
    assert summary["forgetting"] == 0.25 and summary["class_forgetting"] == {"cat": 0.25, "T-shirt/top": None}
    assert summary["environment"]["torch"] and summary["confusion"] == [[1, 1], [0, 0]]
    assert "[1, 1]" in text


def test_result_table_tells_accuracy_classes_targets_and_where_to_look() -> None:
    table = result_table(SUMMARY)
    for part in (
        *("accuracy       0.7500", "T-shirt/top  nan", "round 3 (running mean: not reached)"),
        *("1.5 MB up, 3,000.0 MB down", "runs/first", "tensorboard --logdir runs"),
        "forgetting     0.2500 (most: class cat, 0.2500)",
    ):
        assert part in table


def test_result_table_of_tasks_compares_no_rounds_that_were_tested_on_other_samples() -> None:
    assert "best accuracy" in result_table(SUMMARY) and "running mean  " in result_table(SUMMARY)
    table = result_table(replace(SUMMARY, of_tasks={"average_accuracy": 0.5}))
    assert "best accuracy" not in table and "running mean" not in table and "average accuracy  " in table
    own = replace(SUMMARY, of_clients={"initial_accuracy": 0.25})
    assert "initial accuracy  0.2500" in result_table(own)
    assert "initial accuracy, present task  0.2500" in result_table(replace(own, of_tasks={"average_accuracy": 0.5}))


def test_result_table_names_no_class_where_nothing_is_forgotten() -> None:
    table = result_table(replace(SUMMARY, forgetting=0.0, class_forgetting={"cat": 0.0, "T-shirt/top": 0.0}))
    assert "0.0000" in table and "most" not in table


def test_progress_without_a_terminal_is_first_and_last_line_of_a_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(0, 500, "accuracy")
    progress.say("hello")
    for round in range(1, 501):
        progress.update(record(round))
    progress.close()
    hello, first, last = capsys.readouterr().out.splitlines()
    assert hello == "hello"
    assert first.startswith("round 1/500  accuracy -  train loss 0.2500")
    assert last.startswith(f"round 500/500  accuracy {500 / 503:.4f}") and last.endswith("00:00 left")


@pytest.mark.parametrize("terminal", [False, True])
def test_the_pace_has_nothing_of_the_first_round(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles, also where the model is tested before it, as with tasks."""
    now = [0.0]
    monkeypatch.setattr("fl_ddp.course.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("fl_ddp.course.progress.on_terminal", lambda: terminal)
    progress = Progress(0, 5, "accuracy")
    for round, seconds in enumerate((0, 60, 2, 2, 2, 2)):
        now[0] += seconds
        progress.update(record(round))
    progress.close()
    lines = [line for line in re.split(r"[\r\n]+", capsys.readouterr().out) if line]
    assert {*re.findall(r"(\S+) s/round", "\n".join(lines))} == {"2"}
    assert not any("left" in line for line in lines if line.startswith("round 1/"))
    assert re.match(r"round 5/5 .* 2 s/round,?  ?00:00 left$", lines[-1])


def test_progress_tells_how_clients_own_models_do(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(0, 1, "accuracy")
    progress.update(replace(record(1), personalised_accuracy=0.75))
    progress.close()
    assert capsys.readouterr().out.startswith("round 1/1  accuracy -  personalised 0.7500  train loss 0.2500")


def test_progress_puts_the_loss_of_one_model_beside_its_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(0, 3, "accuracy")
    progress.update(replace(record(1), accuracy=0.25, loss=1.5))
    progress.update(record(2))
    progress.update(replace(record(3), accuracy=None, loss=None, train_loss=0.125))
    progress.close()
    first, last = capsys.readouterr().out.splitlines()
    assert first == "round 1/3  accuracy 0.2500  loss 1.5000"
    assert re.match(r"round 3/3  accuracy 0\.4000 \(round 2\)  loss 0\.6000  train loss 0\.1250  ", last)


def test_evaluations_do_not_remember_who_trained() -> None:
    """cohorts.csv does; of 10,000 rounds of 10,000 clients these are gigabytes."""
    history = History({}, knows=False)
    history.add(Record(1, 3, 0, 0, 0.0, loss=1.0, accuracy=0.5, clients=(1, 2, 3)))
    assert [(each.loss, each.clients) for each in history.evaluations] == [(1.0, ())]
