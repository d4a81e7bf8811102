"""docs/results.md and README.md say what the files of results give."""

from __future__ import annotations

import shutil
from pathlib import Path

import page
import pytest

from fl_ddp.errors import ConfigError

RESULTS = page.ROOT / "benchmarks" / "results"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of all files of results."""
    return Path(shutil.copytree(RESULTS, tmp_path / "results"))


def test_the_page_is_what_the_files_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["--check"]) == 0, f"python benchmarks/page.py\n{capsys.readouterr().out}"


def test_a_number_of_a_file_that_changes_changes_the_page(results: Path) -> None:
    file = results / "fisher_cpu2.json"
    before = page.pages(results).results
    file.write_text(file.read_text().replace('"due": 1.5', '"due": 1.25'))
    after = page.pages(results).results
    changed = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert [(old.replace("| 1.5 |", "| 1.2 |") == new) for old, new in changed] == [True]


def test_readme_must_say_another_speed_then(results: Path) -> None:
    readme = (page.ROOT / "README.md").read_text()
    assert page.says(readme, page.pages(results).speed)
    file = results / "rounds_cpu2.json"
    file.write_text(file.read_text().replace('"speedup": ', '"speedup": 1'))
    assert not page.says(readme, page.pages(results).speed)


def test_a_file_that_nothing_shows_is_refused(results: Path) -> None:
    shutil.copy(results / "fisher_cpu2.json", results / "other.json")
    with pytest.raises(ConfigError, match="nothing shows other"):
        page.pages(results)


def test_check_tells_what_would_change_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    written = page.pages()
    monkeypatch.setattr(page, "ROOT", tmp_path)
    monkeypatch.setattr(page, "pages", lambda: written)
    (tmp_path / "README.md").write_text(f"It is fast.\n{written.speed}")
    old = tmp_path / "docs" / "results.md"
    old.write_text(written.results.replace("# Results", "# Other results"))
    assert page.main(["--check"]) == 1
    out = capsys.readouterr().out
    assert "-# Other results\n+# Results\n" in out and "# Other results" in old.read_text()
    assert page.main([]) == 0 and old.read_text() == written.results
    assert page.main(["--check"]) == 0
    (tmp_path / "README.md").write_text("It is fast.")
    assert page.main(["--check"]) == 1
    assert "README.md does not say:\nLocal steps" in capsys.readouterr().err
