"""The stream of tasks."""

from __future__ import annotations

from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError
from fl_ddp.losses.criterion import ByOutput, Criterion
from fl_ddp.streams.static import Static
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.of_stream import refuse_other_tasks


def build_stream(config: Config, loss: Criterion) -> Stream:
    """The tasks of a configuration.

    Raises:
        ConfigError: they do not fit the options or the loss.
    """
    stream = registry.build(config.stream)
    assert isinstance(stream, Stream)
    refuse_other_tasks(stream, config.rounds)
    if isinstance(loss, ByOutput) and not isinstance(stream, Static):
        what = f"{config.stream.name} is of classes, and --loss {loss.name} has none"
        raise ConfigError("--stream", what, "Static")
    if stream.num_tasks > 1 and (config.stop_at or config.patience):
        what = f"of {stream.num_tasks} tasks each makes the numbers fall anew, so that none of them tells when to end"
        raise ConfigError("--stop_at" if config.stop_at else "--patience", what, "one task, or --rounds")
    return stream
