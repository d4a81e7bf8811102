"""A user's script for torchrun: the simulations that a JSON file lists, one after another."""

import json
import sys
from pathlib import Path

from fl_ddp import simulate

for settings in json.loads(Path(sys.argv[1]).read_text()):
    simulate(settings)
