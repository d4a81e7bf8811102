"""What TensorBoard shows of a run: its event file, the page of custom scalars, the table of hyper-parameters.

A run tells its own settings only: TensorBoard takes the columns of its table from all runs it shows, those that differ
first. With an `Experiment`, as torch's hparams() writes, it would take one run's and hide another method's options.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.metadata import (
    PLUGIN_DATA_VERSION,
    PLUGIN_NAME,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from torch.utils.tensorboard import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, histogram

from fl_ddp.host.atomic_file import writing
from fl_ddp.host.stopwatch import COMPILING
from fl_ddp.results.metrics import Columns, curve_of, of_method

_COUNTER = itertools.count()
_SIZE_IN_PNG = slice(16, 24)
"""Bytes of a PNG: width and height."""

Chart = tuple[str, list[str]]
"""What torch's custom_scalars() takes: the kind of chart, and its curves as expressions from the start of a tag."""


class EventFile:
    """One event file, written without the thread of SummaryWriter.

    So a full disk is an error in our own call, and the file can be written under another name first. TensorBoard sees
    it when publish() is called, which also removes the folder's older event files: no step is there twice.
    """

    def __init__(self, folder: Path, columns: Columns, settings: Mapping[str, object], wall: float) -> None:
        """Start a file TensorBoard does not see yet.

        Args:
            folder: of the run.
            columns: of metrics.csv.
            settings: of the run, for the table of hyper-parameters.
            wall: seconds since 1970, the time of the first event.

        Raises:
            RunError: it cannot be written.
        """
        # The name of a later file sorts later: TensorBoard never goes back to an earlier one.
        self._name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER)}"
        )
        # TensorBoard reads whatever has "tfevents" in its name.
        self._path = folder / "events.unfinished"
        with writing(self._path):
            self._file = self._path.open("wb", buffering=0)
        self._records = RecordWriter(self._file)
        self._write(Event(wall_time=wall, file_version="brain.Event:2"))
        self._add(custom_scalars(charts(columns)), 0, wall)  # type: ignore[no-untyped-call]
        self._add(_session_start(settings, wall), 0, wall)

    def publish(self) -> None:
        """Show this file to TensorBoard in place of all older ones of the folder.

        Raises:
            RunError: they cannot be removed.
        """
        with writing(self._path):
            for old in self._path.parent.glob("*tfevents*"):
                old.unlink()
            self._path = self._path.rename(self._path.with_name(self._name))

    def scalars(self, values: Mapping[str, float], step: int, wall: float) -> None:
        """Add one step of many curves as one event: the cost is per event.

        Raises:
            RunError: they cannot be written.
        """
        self._add(
            Summary(value=[Summary.Value(tag=tag, simple_value=v) for tag, v in values.items() if not math.isnan(v)]),
            step,
            wall,
        )

    def histogram(self, tag: str, values: Sequence[float], step: int, wall: float) -> None:
        """Add a histogram of fractions, or of what begins at 0 and goes further, in twentieths.

        Raises:
            RunError: it cannot be written.
        """
        self._add(histogram(tag, np.array(values), np.linspace(0, max(1.0, *values), 21)), step, wall)  # type: ignore[no-untyped-call]

    def image(self, tag: str, png: bytes, step: int, wall: float) -> None:
        """Add an image, PNG.

        Raises:
            RunError: it cannot be written.
        """
        width, height = struct.unpack(">II", png[_SIZE_IN_PNG])
        shown = Summary.Image(encoded_image_string=png, colorspace=4, width=width, height=height)
        self._add(Summary(value=[Summary.Value(tag=tag, image=shown)]), step, wall)

    def end(self, wall: float) -> None:
        """Say that the run has all its rounds.

        Raises:
            RunError: it cannot be written.
        """
        info = SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=wall)
        content = HParamsPluginData(session_end_info=info, version=PLUGIN_DATA_VERSION)
        self._add(_summary(SESSION_END_INFO_TAG, content), 0, wall)

    def close(self) -> None:
        """Close the file.

        Raises:
            RunError: it cannot be written.
        """
        with writing(self._path):
            self._file.close()

    def _add(self, summary: Summary, step: int, wall: float) -> None:
        self._write(Event(wall_time=wall, step=step, summary=summary))

    def _write(self, event: Event) -> None:
        with writing(self._path):
            self._records.write(event.SerializeToString())


def charts(columns: Columns) -> dict[str, dict[str, Chart]]:
    """The page of custom scalars, charts by title, by heading, from top to bottom.

    A class has a chart of its own: TensorBoard colours curves by run, so in one chart of all classes no two of a run
    can be told apart.

    Args:
        columns: of metrics.csv.
    """
    classes, reported = columns.classes, columns.reported
    degrees = {"average": _lines("forgetting_degree/average$"), **_by_class("forgetting_degree", classes)}
    accuracies = {
        "accuracy": _lines("accuracy/global$"),
        "running mean of the accuracy": _lines("Results/accuracy/running_mean$"),
        "forgetting, average over the classes": _lines("forgetting/average$"),
    }
    of_classes = {
        "Accuracy of each class": _by_class("accuracy/class", classes),
        "Forgetting of each class": _by_class("forgetting", classes),
    }
    return {
        "Global model": {
            **(accuracies if columns.score == "accuracy" else {}),
            **{name: _lines(f"{re.escape(curve_of(name))}$") for name in columns.measures},
        },
        **({"Accuracy on each task": _tasks(columns.tasks)} if columns.tasks > 1 else {}),
        **(of_classes if classes else {}),
        **({"Forgetting degree: what local training loses of each class": degrees} if columns.degree else {}),
        **({"Method": {name: _lines(f"{re.escape(of_method(name))}$") for name in reported}} if reported else {}),
        "Loss": {"mean over the test set, mean over local steps": _lines("loss/test$", "loss/train$")},
        "Cost": {
            "bytes sent and received by all clients so far": _lines("traffic/"),
            # which takes a thousand rounds' time
            "seconds per round, compiling aside": _lines(f"time/(?!{COMPILING}$)"),
        },
    }


def _tasks(number: int) -> dict[str, Chart]:
    by_task = {f"task {task}": _lines(f"task_accuracy/{task}$") for task in range(1, number + 1)}
    averages = {
        "average over the tasks so far": _lines("task_accuracy/average$"),
        "average forgetting of the tasks before": _lines("task_forgetting/average$"),
    }
    return averages | by_task


def _by_class(group: str, classes: Sequence[str]) -> dict[str, Chart]:
    return {name: _lines(f"{group}/{re.escape(name)}$") for name in classes}


def _lines(*tags: str) -> Chart:
    return "Multiline", list(tags)


def _session_start(settings: Mapping[str, object], wall: float) -> Summary:
    """A run and its settings: numbers and switches as such, all else as text.

    Args:
        settings: by name; null is one too, so that it differs from a number.
        wall: seconds since 1970.
    """
    info = SessionStartInfo(start_time_secs=wall)
    for name, value in settings.items():
        if isinstance(value, bool):
            info.hparams[name].bool_value = value
        elif isinstance(value, int | float):
            info.hparams[name].number_value = value
        else:
            info.hparams[name].string_value = "null" if value is None else str(value)
    return _summary(SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=info, version=PLUGIN_DATA_VERSION))


def _summary(tag: str, content: HParamsPluginData) -> Summary:
    plugin = SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=content.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])
