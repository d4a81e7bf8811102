"""How the ranks of a run find each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import cache
from itertools import count
from typing import cast

import torch.distributed as dist  # noqa: TID251
from torch.distributed import distributed_c10d  # noqa: TID251
from torch.distributed.rendezvous import rendezvous  # noqa: TID251

from fl_ddp.config.settings import Config, Device
from fl_ddp.errors import ConfigError, RunError, first_line
from fl_ddp.host.device_errors import device_of
from fl_ddp.host.yielding_threads import yielding_threads
from fl_ddp.ranks.collectives import FOR_EVER, Lifeline, Ranks
from fl_ddp.ranks.waiting import all_have

_MEETINGS = count()
_LEAST_TIMEOUT = 1800.0


def join_to_tell(
    config: Config | None, refused: Exception | None, check: Callable[[], None]
) -> tuple[Ranks, Exception | None]:
    """Join the other ranks also where this one cannot do what it is asked for: they would wait for it.

    Args:
        config: what is asked for; None if it cannot be read.
        refused: why it cannot be done.
        check: raises where a stop is asked for before the others have come.

    Returns:
        the ranks, and why this one is refused, which they must agree on.

    Raises:
        RunError: the ranks do not find each other.
    """
    if config is not None:
        try:
            return join(config.device, config.rank_timeout, check), refused
        except ConfigError as error:  # of the device
            refused = error
    return join("cpu", check=check), refused


def join(device: Device, rank_timeout: float = Config.rank_timeout, check: Callable[[], None] = lambda: None) -> Ranks:
    """Join the other ranks that torchrun or Slurm started: NCCL where each of them has a GPU, else gloo.

    Time limits of the backends are out of the way of ours: gloo's is longer, and NCCL's watchdog, which counts the work
    that is queued before a sum, ends no process (TORCH_NCCL_ASYNC_ERROR_HANDLING=0).

    Args:
        device: asked for.
        rank_timeout: seconds that the others may be silent for.
        check: raises where a stop is asked for before they have come.

    Raises:
        ConfigError: the device is not there, or there are more ranks than GPUs.
        RunError: the ranks do not find each other.
    """
    index, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local, local_size = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", size))
    place = device_of(device, local, local_size)
    if size == 1:
        return Ranks(index, size, place)
    try:
        # a second run of the same processes must not find the first one's addresses
        store = distributed_c10d.PrefixStore(f"fl_ddp/{next(_MEETINGS)}", _launchers_store())
    except dist.DistError as error:
        place_to_meet = ":".join(os.environ.get(key, "") for key in ("MASTER_ADDR", "MASTER_PORT"))
        why = str(error).partition("\n")[0]
        raise RunError(f"the ranks do not meet at MASTER_ADDR:MASTER_PORT, {place_to_meet} ({why})") from error
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # torchrun gives its ranks a 1
    os.environ.setdefault("NCCL_ALGO", "^NVLS,NVLSTree")  # whose sums of floats differ from time to time
    patience = max(2 * rank_timeout, _LEAST_TIMEOUT)
    try:
        # one whose options are wrong asks for none, and the others must hear of it
        nccl = all_have(store, size, place.type == "cuda", patience, check)
        with nullcontext() if nccl else yielding_threads():
            dist.init_process_group(
                "nccl" if nccl else "gloo",
                timeout=FOR_EVER if nccl else timedelta(seconds=patience),
                store=store,
                rank=index,
                world_size=size,
                device_id=place if nccl else None,
            )
        if not nccl:
            return Ranks(index, size, place, store, rank_timeout)
        with yielding_threads():
            of_host = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timedelta(seconds=patience)))
            distributed_c10d._set_pg_timeout(FOR_EVER, of_host)  # of its sums; that was to connect
            return Ranks(index, size, place, store, rank_timeout, Lifeline(index, size, store, patience), of_host)
    except RuntimeError as error:
        raise RunError(f"the ranks do not find each other ({first_line(error)})") from error


class MeetingPlace:
    """Where ranks meet that this process starts on this machine; it is there as long as this object."""

    def __init__(self, size: int) -> None:
        """Open it for so many ranks."""
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        self._environment = {
            "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }  # fmt: skip

    def environment(self, index: int) -> dict[str, str]:
        """The variables by which a rank knows its place, and where the others are."""
        return {**self._environment, "RANK": str(index), "LOCAL_RANK": str(index)}


@cache
def _launchers_store() -> distributed_c10d.Store:
    store: distributed_c10d.Store = next(rendezvous("env://"))[0]
    return store
