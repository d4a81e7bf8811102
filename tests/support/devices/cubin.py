"""What ptxas makes of a Triton kernel for an H100 or H200, on a machine without one."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Cubin(NamedTuple):
    """Of a compiled kernel.

    Attributes:
        registers: of a thread.
        stack: bytes of a thread, where registers do not do.
        shared: bytes of a block.
        instructions: how often an instruction stands in it.
    """

    registers: int
    stack: int
    shared: int
    instructions: Mapping[str, int]


def cubin(kernel: Any, pointers: set[str], constants: Mapping[str, object], warps: int, stages: int) -> Cubin:
    """Compile a kernel for sm_90; pointers are to float32 and aligned, all other arguments are int32."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {a: "constexpr" if a in constants else "*fp32" if a in pointers else "i32" for a in names}
    fixed = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in pointers}
    built = triton.compile(
        ASTSource(kernel, signature, fixed, aligned),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": warps, "num_stages": stages},
    )
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(built.asm["cubin"])
        use = _said([str(tools / "cuobjdump"), "--dump-resource-usage", file.name])
        code = _said([str(tools / "nvdisasm"), "-c", file.name])
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", use).groups()  # type: ignore[union-attr]
    seen = {
        name: len(re.findall(rf"\b{name}\b", code)) for name in ("HGMMA", "HMMA", "FFMA", "LDL", "STL", "RED", "ATOM")
    }
    return Cubin(int(registers), int(stack), int(built.metadata.shared), seen)


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
