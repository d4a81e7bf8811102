"""The kernels of lanes' convolutions, without a GPU: in Triton's interpreter, and compiled for sm_90."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="this installation of torch is without Triton")
pytestmark = pytest.mark.cuda_code

REGISTERS = 255
FLOAT32, POINTERS = "*fp32", {"x", "w", "y", "dy", "dx", "dw"}


def interpreted(*options: str) -> None:
    """Run the tests of interpreted.py in a process that interprets Triton."""
    file = Path(__file__).with_name("interpreted.py")
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *options, str(file)]
    run = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]


def test_outputs_and_gradients_of_small_convolutions() -> None:
    interpreted()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_outputs_and_gradients_of_the_layers_of_shipped_models() -> None:
    interpreted("-m", "slow")


@pytest.mark.parametrize("precision", ["ieee", pytest.param("tf32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["output", "input", "weight"])
def test_kernels_of_an_h200_keep_their_sums_in_registers(name: str, precision: str, tmp_path: Path) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from fl_ddp.convolutions import in_triton

    kernel, blocks = getattr(in_triton, f"{name}_kernel"), getattr(in_triton, name.upper())
    tile = {"block_m": blocks.rows, "block_n": blocks.columns, "block_k": blocks.inner}
    constants = {"kernel_h": 3, "kernel_w": 3, **tile, "precision": precision}
    names = kernel.arg_names
    signature = {a: "constexpr" if a in constants else FLOAT32 if a in POINTERS else "i32" for a in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, a in enumerate(names) if a in POINTERS}
    built = triton.compile(
        ASTSource(kernel, signature, {(names.index(a),): value for a, value in constants.items()}, aligned),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": blocks.warps, "num_stages": in_triton.STAGES},
    )
    assert not re.search(r"^\s*(@\S+ )?(atom|red)\.", built.asm["ptx"], re.MULTILINE)
    (tmp_path / "kernel.cubin").write_bytes(built.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    told = subprocess.run(
        [tool, "--dump-resource-usage", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", told)
    assert found, told
    assert int(found[1]) <= REGISTERS and int(found[2]) == 0, told
    if precision == "tf32":
        assert "wgmma" in built.asm["ptx"] or "mma.sync" in built.asm["ptx"]
