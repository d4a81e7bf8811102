"""Tables of features and labels: what is read, which rows are the test set, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import parse
from fl_ddp.datasets.csv_file import Csv
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Targets

HEAD = "a,label,b\n"
ROWS = "".join(f"{i},{i % 3},{-i / 2}\n" for i in range(20))


def refusal(source: Dataset) -> str:
    """The one line that a source refuses with."""
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def written(folder: Path, content: str, name: str = "mine.csv") -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


def rows(arrays: Arrays) -> tuple[list[float], list[float]]:
    """The first feature of each training and test sample."""
    return arrays.x_train[:, 0].tolist(), arrays.x_test[:, 0].tolist()


def test_all_other_columns_are_features(tmp_path: Path) -> None:
    arrays = Csv(path=written(tmp_path, HEAD + ROWS)).load()
    assert arrays.x_train.dtype == np.float32 and arrays.x_train.shape == (16, 2) and arrays.x_test.shape == (4, 2)
    for x, y in ((arrays.x_train, arrays.y_train), (arrays.x_test, arrays.y_test)):
        np.testing.assert_array_equal(x[:, 1], -x[:, 0] / 2)
        np.testing.assert_array_equal(y, x[:, 0] % 3)
    train, test = rows(arrays)
    assert sorted(train + test) == list(range(20)) and train == sorted(train) and test == sorted(test)
    assert arrays.classes == ("0", "1", "2") and arrays.owners is None


def test_the_test_set_is_the_same_in_all_runs_and_of_each_class_alike(tmp_path: Path) -> None:
    path = written(tmp_path, "a,label\n" + "".join(f"{i},{'rare' if i % 10 else 'often'}\n" for i in range(1000)))
    first, again = Csv(path=path).load(), Csv(path=path).load()
    assert rows(first) == rows(again)
    assert Counter(first.y_test.tolist()) == {0: 20, 1: 180}
    assert Counter(Csv(path=path, test_share=0.29).load().y_test.tolist()) == {0: 29, 1: 261}
    assert rows(first) != rows(Csv(path=path, test_seed=1).load())
    assert len(set(np.diff(first.x_test[:, 0]).tolist())) > 5, "drawn at random"


def test_words_are_classes_in_the_order_of_the_alphabet(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffa; kind \n" + "1;oak\n2; ash\n\n3;oak \n4;Elm\n5;7\n")
    arrays = Csv(path=path, label="kind", delimiter=";", test_share=0.4).load()
    assert arrays.classes == ("7", "Elm", "ash", "oak")
    named = dict(zip(rows(arrays)[0] + rows(arrays)[1], [*arrays.y_train, *arrays.y_test], strict=True))
    assert named == {1: 3, 2: 2, 3: 3, 4: 1, 5: 0}


def test_a_second_file_is_the_test_set(tmp_path: Path) -> None:
    path = written(tmp_path, "a,label,who\n1,0,x\n2,2.0,y\n3,1,x\n")
    test = written(tmp_path, "label,a,who\n3,4,z\n0,5,y\n", "test.csv")
    arrays = Csv(path=path, test_path=test, client="who").load()
    assert rows(arrays) == ([1, 2, 3], [4, 5])
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == ([0, 2, 1], [3, 0])
    assert arrays.classes == ("0", "1", "2", "3")
    assert arrays.owners is not None and arrays.owners.names == ("x", "y", "z")
    assert arrays.owners.train.tolist() == [0, 1, 0]
    assert arrays.owners.test is not None and arrays.owners.test.tolist() == [2, 1]


def test_samples_keep_their_clients_where_the_test_set_is_drawn(tmp_path: Path) -> None:
    path = written(tmp_path, "a,label,who\n" + "".join(f"{i},{i % 2},c{i % 7}\n" for i in range(40)))
    arrays = Csv(path=path, client="who").load()
    assert arrays.owners is not None and arrays.owners.test is not None
    for x, owner in ((arrays.x_train, arrays.owners.train), (arrays.x_test, arrays.owners.test)):
        assert x.shape[1] == 1
        np.testing.assert_array_equal(owner, x[:, 0] % 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "mine.csv: is empty; accepted: a CSV file whose first line names its columns"),
        ("\n\n", "mine.csv: is empty"),
        (HEAD, "mine.csv: has no rows below its header"),
        ("1,2,3\n4,5,6\n", "mine.csv: begins with numbers (1, 2, 3); accepted: a CSV file whose first line names"),
        ("a,b\n1,2\n", "mine.csv has no column label; accepted: a, b"),
        ("a;label\n1;2\n", "mine.csv has no column label; accepted: --data.delimiter ';'"),
        ("a\tlabel\n1\t2\n", "mine.csv has no column label; accepted: --data.delimiter tab"),
        ("a|label\n1|2\n", "mine.csv has no column label; accepted: a|label"),
        ("a,a,label\n1,2,0\n", "mine.csv: two columns are named 'a'; accepted: distinct names"),
        (",a,label\n0,2,0\n", "mine.csv: column 1 has no name, as pandas writes an index; such a number is no feature"),
        ("label\n0\n", "mine.csv: has no features beside label"),
        (HEAD + "1,0,2\n3,0\n", "mine.csv: line 3 has 2 cells, the header 3"),
        (HEAD + "1,0,2\n\n3,0,x y\n", "mine.csv: line 4, column b: 'x y' is no number; accepted: features that are"),
        (HEAD + "1,0,2\n3,0,\n", "mine.csv: line 3, column b: '' is no number"),
        (HEAD + "1,0,2\nnan,0,1\n", "mine.csv: line 3, column a: nan is no number"),
        (HEAD + "1,0,1e300\n", "mine.csv: line 2, column b: 1e+300 is no number"),
        (HEAD + "1,,2\n", "mine.csv: line 2, column label: the cell is empty"),
        (
            HEAD + "1,0.5,2\n3,1,2\n" * 5,
            "mine.csv: y_train: float64 of shape [8] are no labels; accepted: whole",
        ),
        (HEAD + "1,-1,2\n3,1,2\n" * 5, "label -1 is not one of the 2 classes from 0 up"),
        (HEAD + "1,70,2\n3,1,2\n" * 5, "mine.csv: y_train: label 70 among 8 samples; labels count from 0 up, or"),
        (HEAD + "1,0,2\n3,1,2\n", "--data.test_share: 0.2 of 2 samples leaves none to test on"),
        ('a,label\n"1,0\n' + "2,0\n" * 50_000, "mine.csv: cannot be read as a table (field larger than field limit"),
    ],
)
def test_wrong_tables_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    assert message in refusal(Csv(path=written(tmp_path, content)))


@pytest.mark.parametrize("cell", ["NA", "nan", "2,5", "inf", "1e39", "1_0"])
@pytest.mark.parametrize("targets", ["numbers", "binary"])
def test_targets_that_are_no_numbers_are_refused_with_their_place(tmp_path: Path, cell: str, targets: Targets) -> None:
    good = "a;label\n1;0\n2;1\n\n3;1.0\n" + "4;0\n" * 9
    path, bad = written(tmp_path, good), written(tmp_path, f"{good}7;{cell}\n8;0\n", "bad.csv")
    expected = f"{bad}: line 15, column label: {cell!r} is no number; accepted: targets that are finite numbers"
    for source in (Csv(path=bad, delimiter=";"), Csv(path=path, test_path=bad, delimiter=";")):
        with pytest.raises(ConfigError) as error:
            source.load(targets)
        assert str(error.value) == expected
    assert Csv(path=path, delimiter=";").load(targets).y_train.dtype == np.float32


def test_targets_are_the_numbers_that_are_written(tmp_path: Path) -> None:
    for cells in (["3", "10", "2"], ["2.5", "-1e-1", "7"]):
        path = written(tmp_path, "a,label\n" + "".join(f"{cell},{cell}\n" for cell in cells))
        arrays = Csv(path=path, test_path=path).load("numbers")
        np.testing.assert_array_equal(arrays.y_train, np.array(cells, np.float32)[:, None])


def test_what_options_name_must_be_there(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + ROWS)
    assert "--data.path: no file is named" in refusal(Csv())
    assert f"--data.path: {tmp_path}/no.csv does not exist" in refusal(Csv(path=f"{tmp_path}/no.csv"))
    assert f"--data.test_path: {tmp_path}/no.csv does not" in refusal(Csv(path=path, test_path=f"{tmp_path}/no.csv"))
    assert "--data.client: " in (line := refusal(Csv(path=path, client="who"))) and "has no column who" in line
    (tmp_path / "latin.csv").write_bytes(HEAD.encode() + b"1,\xe9,2\n")
    assert "latin.csv: cannot be read as a table" in refusal(Csv(path=f"{tmp_path}/latin.csv"))
    other = written(tmp_path, "b,label,a\n1,0,2\n", "other.csv")
    message = f"{other}: has the columns b, a, {path} has a, b; accepted: the same features in the same order"
    assert refusal(Csv(path=path, test_path=other)) == message
    with pytest.raises(ConfigError, match=r"--data\.test_share: 1\.0 is impossible; accepted: 0 < test_share < 1"):
        Csv(path=path, test_share=1.0)


def test_both_files_are_stored_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(parse(["--data=x.csv", "--data.test_path=y.csv"]))
    assert config.data.init_args["path"] == f"{tmp_path}/x.csv"
    assert config.data.init_args["test_path"] == f"{tmp_path}/y.csv"


def test_a_table_as_excel_writes_it_may_begin_with_its_labels(tmp_path: Path) -> None:
    arrays = Csv(path=written(tmp_path, "\ufefflabel,a\r\n" + "".join(f"{i % 2},{i}\r\n" for i in range(10)))).load()
    assert sorted(rows(arrays)[0] + rows(arrays)[1]) == list(range(10)) and arrays.classes == ("0", "1")
