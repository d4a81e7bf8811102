"""Tasks of Slurm as ranks, from the environments that Slurm gives to its processes."""

from __future__ import annotations

import pytest

from fl_ddp.ranks.slurm import node_address, rank_variables

BATCH = {
    "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)",
}  # fmt: skip
STEP = {
    **BATCH, "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}  # fmt: skip


def variables(environment: dict[str, str]) -> dict[str, str]:
    return rank_variables(environment, lambda name: f"address of {name}")


def test_a_task_of_a_step_is_a_rank() -> None:
    found = variables(STEP)
    port = int(found.pop("MASTER_PORT"))
    assert 1024 < port < 32768
    assert found == {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "address of n1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "environment",
    [
        {},
        BATCH,
        {"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "4", "SLURM_NTASKS": "4"},
        {**STEP, "RANK": "0", "WORLD_SIZE": "8"},
    ],
    ids=["elsewhere", "batch script", "salloc", "torchrun"],
)
def test_other_processes_are_left_as_they_are(environment: dict[str, str]) -> None:
    assert variables(environment) == {}


def test_what_is_set_holds() -> None:
    given = {"MASTER_ADDR": "here", "MASTER_PORT": "1234", "OMP_NUM_THREADS": "5"}
    assert variables({**STEP, **given}).keys() == {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}


@pytest.mark.parametrize(
    ("cores", "threads"),
    [({"SLURM_CPUS_PER_TASK": "3"}, "3"), ({"SLURM_CPUS_ON_NODE": "9"}, "4"), ({"SLURM_CPUS_ON_NODE": "1"}, "1")],
)
def test_a_task_has_as_many_threads_as_cores(cores: dict[str, str], threads: str) -> None:
    assert variables({**STEP, **cores})["OMP_NUM_THREADS"] == threads


def test_a_single_task_needs_no_address() -> None:
    alone = {**STEP, "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert "MASTER_ADDR" not in variables({**alone, "SLURM_STEP_TASKS_PER_NODE": "1"})


def test_jobs_and_steps_that_meet_have_ports_of_their_own() -> None:
    steps = [(job, step) for job in range(41, 61) for step in range(4)]
    ports = {variables({**STEP, "SLURM_JOB_ID": str(j), "SLURM_STEP_ID": str(s)})["MASTER_PORT"] for j, s in steps}
    assert len(ports) == len(steps)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"), ("n[01-03,7]", "n01"), ("n[7,1-3],m2", "n7"), ("m2,n[1-2]", "m2"),
        ("rack[1-2]node[03-04].site", "rack1node03.site"), ("gpu-a[1],gpu-b[2]", "gpu-a1"),
    ],
)  # fmt: skip
def test_the_first_node_is_where_ranks_meet(nodes: str, first: str) -> None:
    assert variables({**STEP, "SLURM_STEP_NODELIST": nodes})["MASTER_ADDR"] == f"address of {first}"


@pytest.mark.parametrize(("node", "tasks"), [(0, "2"), (1, "2"), (2, "1"), (3, "4")])
def test_nodes_may_have_different_numbers_of_tasks(node: int, tasks: str) -> None:
    uneven = {**STEP, "SLURM_NODEID": str(node), "SLURM_STEP_TASKS_PER_NODE": "2(x2),1,4"}
    assert variables(uneven)["LOCAL_WORLD_SIZE"] == tasks


def test_a_name_that_is_known_needs_no_slurm() -> None:
    assert node_address("localhost") == "localhost"


def test_a_name_that_nobody_knows_stays_as_it_is() -> None:
    assert node_address("no-such-node.invalid") == "no-such-node.invalid"
