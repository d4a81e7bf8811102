"""What the processes of the checks have in common: it is imported once, in the process that they are forked from."""

from __future__ import annotations

import importlib
import os

from fl_ddp.host.environment import prepare

# compiling one small model is done before a pool of compilers has started
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# a look at a GPU before the fork, which the compiler's import takes, would let no child compile
os.environ["CUDA_VISIBLE_DEVICES"] = ""
prepare()  # before the compiler is imported, which then looks where to keep what it makes

for name in ("fl_ddp.check.handlers", "fl_ddp.compiler.fused_update", "torch._inductor.compile_fx"):
    importlib.import_module(name)
