"""How all tests share the machine: files dealt to workers, cores, one cache of compiled steps, patience."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

LONGEST = (
    "test_every_method.py", "test_two_ranks.py", "test_check.py", "test_failures.py", "test_resume.py",
    "test_interrupt.py", "test_sweep.py",
)  # fmt: skip
"""Files that take longest: workers begin with them, lest one is left with such a file when the others are done."""

# a busy machine is no mistake of the code
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests wait for the processes that they start."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Give every worker its share of the cores, which what it starts inherits; then let tests compute as runs do."""
    for name in ("CI", "BUILD_NUMBER"):  # where they are set, pytest compares all bytes of two pictures, for minutes
        os.environ.pop(name, None)
    workers = len(config.getoption("tx"))
    share = str(max(len(os.sched_getaffinity(0)) // max(workers, 1), 1))
    os.environ.setdefault("OMP_NUM_THREADS", share)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", share)
    if not workers:
        from fl_ddp.host.environment import prepare  # imports torch, which the process that deals files out can spare

        prepare()
        import pretend_device  # noqa: F401  # autograd knows of no device that comes after its first use, in any file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that take longest first, where there are workers to deal them to."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def imports_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports of files that it wrote is unknown to the next one, whose files may have the same names."""
    written, path, known = str(tmp_path_factory.getbasetemp()), list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(written):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def draws_of_its_own() -> None:
    """What a test itself draws from torch's generator, as modules do for weights, is not for other tests to say."""
    import torch  # as above

    torch.manual_seed(0)  # noqa: TID251  # of nets that tests write, whose weights no seed of a run draws


@pytest.fixture(autouse=True)
def as_runs_compute(request: pytest.FixtureRequest) -> Iterator[None]:
    """On a GPU tests compute as runs do, the same bits every time and products of float32 as IEEE has them."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    from fl_ddp.arithmetic.repeatable import repeatable  # as above

    with repeatable("cuda", tf32=False):
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what reads the real data where there are none."""
    if item.get_closest_marker("data") and "FL_DDP_DATA" not in os.environ:
        pytest.skip("FL_DDP_DATA names no folder with the real data")
