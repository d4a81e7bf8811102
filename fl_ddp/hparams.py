"""What TensorBoard's table of hyper-parameters knows of a run.

A run tells its own settings only: TensorBoard takes the columns from all runs it shows, those that differ first. With
an `Experiment`, as torch's hparams() writes, it would take those of one run and hide another method's options.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.metadata import (
    PLUGIN_DATA_VERSION,
    PLUGIN_NAME,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo


def session_start(settings: Mapping[str, object], wall: float) -> Summary:
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


def session_end(wall: float) -> Summary:
    """That a run has all its rounds.

    Args:
        wall: seconds since 1970.
    """
    info = SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=wall)
    return _summary(SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=info, version=PLUGIN_DATA_VERSION))


def _summary(tag: str, content: HParamsPluginData) -> Summary:
    plugin = SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=content.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])
