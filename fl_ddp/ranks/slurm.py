"""A task of Slurm as a rank: what torchrun would have told it, read from the environment that srun gives it."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Mapping

_FIRST_PORT, _NUM_PORTS = 10000, 20000
"""Below the ports that Linux gives to outgoing connections."""


def node_address(name: str) -> str:
    """The name of a node if it is known here, else the address that Slurm has for it."""
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        found = re.search(r"\bNodeAddr=(\S+)", _output("scontrol", "show", "node", name, "--oneliner"))
        return found[1] if found else name
    return name


def rank_variables(environment: Mapping[str, str], address_of: Callable[[str], str] = node_address) -> dict[str, str]:
    """The variables of torchrun for one task of a Slurm step; none for any other process.

    A batch script and the shell of an allocation are no tasks, though Slurm tells them of tasks, too. What torchrun has
    set holds; so do MASTER_ADDR, MASTER_PORT and OMP_NUM_THREADS of anyone.

    Args:
        environment: of the process.
        address_of: finds the address of a node.
    """
    if "RANK" in environment or "SLURM_STEP_NUM_TASKS" not in environment or "SLURM_PROCID" not in environment:
        return {}
    local_size = _tasks_of_nodes(environment["SLURM_STEP_TASKS_PER_NODE"])[int(environment["SLURM_NODEID"])]
    cores = int(environment.get("SLURM_CPUS_ON_NODE", 1)) // local_size
    variables = {
        "RANK": environment["SLURM_PROCID"],
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(local_size),
        "MASTER_PORT": str(_port(int(environment["SLURM_JOB_ID"]), int(environment["SLURM_STEP_ID"]))),
        # torch would take all cores of the node where Slurm does not keep tasks to their own
        "OMP_NUM_THREADS": environment.get("SLURM_CPUS_PER_TASK", str(max(cores, 1))),
    }
    if variables["WORLD_SIZE"] != "1" and "MASTER_ADDR" not in environment:
        variables["MASTER_ADDR"] = address_of(_first_node(environment["SLURM_STEP_NODELIST"]))
    return {key: value for key, value in variables.items() if key not in environment}


def _port(job: int, step: int) -> int:
    """Two jobs, or steps of a job, that meet on a node have different ones."""
    return _FIRST_PORT + (job * 16 + step) % _NUM_PORTS


def _first_node(nodes: str) -> str:
    """n01 of n[01-03,7],m2."""
    first = re.match(r"(?:[^,\[]|\[[^]]*\])+", nodes)
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", first[0]) if first else nodes


def _tasks_of_nodes(text: str) -> list[int]:
    """[2, 2, 1] of 2(x2),1."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in found for _ in range(int(times or 1))]


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
