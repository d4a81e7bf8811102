"""A rank of a run whose ranks share one device, which the program itself refuses; started by torchrun.

`torchrun --nproc_per_node=2 shared_device.py cuda settings.json`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist  # noqa: TID251

from fl_ddp.config.command_line import from_mapping
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.run import run

if __name__ == "__main__":
    prepare()
    device = torch.device("cuda", 0) if sys.argv[1] == "cuda" else torch.device("cpu")
    dist.init_process_group("gloo")
    of_host = cast(dist.ProcessGroup, dist.new_group(backend="gloo"))
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), device, of_host=of_host)
    run(from_mapping(json.loads(Path(sys.argv[2]).read_text())), ranks, StopRequest())
    ranks.close()
