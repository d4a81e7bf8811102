import fcntl
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from threading import Timer

import pytest

from fl_ddp.config.settings import Choice, Config
from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import RunFolder, default_name

NOW = datetime(2026, 11, 21, 10, 15)
HOLD = """
import sys, time
from pathlib import Path
from threading import Timer
from fl_ddp.results.run_folder import RunFolder
folder = RunFolder.reopen(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def finished_run(out: Path) -> Path:
    with RunFolder.create(Config(out=str(out), name="first"), NOW) as folder:
        (folder.path / "config.yaml").touch()
    return folder.path


def test_default_name_is_data_method_seed_time() -> None:
    config = Config(data=Choice("fl_ddp.datasets.mnist.MNIST"), method=Choice("some.FedProx"), seed=3)
    assert default_name(config, NOW) == "mnist-FedProx-seed3-20261121-101500"


def test_a_default_name_is_none_that_a_folder_cannot_have(tmp_path: Path) -> None:
    config = Config(method=Choice(f"own.{90 * 'Ä'}"), seed=3, out=str(tmp_path))
    with RunFolder.create(config, NOW) as first, RunFolder.create(config, NOW) as second:
        assert first.path.name == f"digits-{65 * 'Ä'}-seed3-20261121-101500"
        assert second.path.name == f"{first.path.name}-2"


def test_default_name_taken_in_the_same_second_gets_a_suffix(tmp_path: Path) -> None:
    config = Config(out=str(tmp_path / "new" / "runs"))
    first, second = (RunFolder.create(config, NOW).path for _ in range(2))
    assert second.name == first.name + "-2" and second.is_dir()


def test_existing_explicit_name_is_refused_and_names_resume(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    with pytest.raises(ConfigError, match=f"--resume {path}"):
        RunFolder.create(Config(out=str(tmp_path), name="first"), NOW)


@pytest.mark.parametrize("name", ["", "..", "a/b", "/a"])
def test_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--name"):
        RunFolder.create(Config(out=str(tmp_path), name=name), NOW)


def test_out_that_cannot_be_written_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in ("file", "file/deeper"):
        with pytest.raises(ConfigError, match="--out") as error:
            RunFolder.create(Config(out=str(tmp_path / out)), NOW)
        assert "\n" not in str(error.value)


def test_reopen_of_a_misspelled_folder_names_the_nearest_run(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    with pytest.raises(ConfigError, match=f"does not exist; did you mean {path}"):
        RunFolder.reopen(tmp_path / "frist")
    with pytest.raises(ConfigError, match=r"no config\.yaml"):
        RunFolder.reopen(tmp_path)


def test_second_writer_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    first = RunFolder.reopen(path)
    with pytest.raises(ConfigError, match="another run is writing"):
        RunFolder.reopen(path)
    first.close()
    RunFolder.reopen(path).close()


def test_lock_of_another_process_names_it_and_ends_with_its_death(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"{path}.*process {holder.pid}"):
            RunFolder.reopen(path)
        holder.kill()
    RunFolder.reopen(path).close()


def test_a_look_at_the_lock_keeps_no_writer_out(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    with (path / ".lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        Timer(0.3, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        RunFolder.reopen(path).close()
