"""The TensorBoard event file of a run."""

from __future__ import annotations

import io
import itertools
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars

from fl_ddp.atomic_file import writing
from fl_ddp.hparams import session_end, session_start
from fl_ddp.layout import layout

_COUNTER = itertools.count()


class EventFile:
    """One event file, written without the thread of SummaryWriter.

    So a full disk is an error in our own call, and the file can be written under another name first. TensorBoard sees
    it when publish() is called, which also removes the folder's older event files: no step is there twice.
    """

    def __init__(self, folder: Path, classes: Sequence[str], settings: Mapping[str, object], wall: float) -> None:
        """Start a file TensorBoard does not see yet.

        Args:
            folder: of the run.
            classes: names of the labels.
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
        self._add(custom_scalars(layout(classes)), 0, wall)  # type: ignore[no-untyped-call]
        self._add(session_start(settings, wall), 0, wall)

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

    def figure(self, tag: str, figure: Figure, step: int, wall: float) -> None:
        """Add an image of a figure.

        Raises:
            RunError: it cannot be written.
        """
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=figure.dpi)
        width, height = figure.canvas.get_width_height()
        shown = Summary.Image(encoded_image_string=image.getvalue(), colorspace=4, width=width, height=height)
        self._add(Summary(value=[Summary.Value(tag=tag, image=shown)]), step, wall)

    def end(self, wall: float) -> None:
        """Say that the run has all its rounds.

        Raises:
            RunError: it cannot be written.
        """
        self._add(session_end(wall), 0, wall)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, summary: Summary, step: int, wall: float) -> None:
        self._write(Event(wall_time=wall, step=step, summary=summary))

    def _write(self, event: Event) -> None:
        with writing(self._path):
            self._records.write(event.SerializeToString())
