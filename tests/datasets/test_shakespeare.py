"""Who says what in Shakespeare's plays, and the samples that are cut of it."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from launching import SMALL, simulated

from fl_ddp.datasets import shakespeare
from fl_ddp.datasets.shakespeare import ALPHABET, FILE, Shakespeare, plays, speeches, tokens
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Inputs

TEXT = Path(__file__).with_name("texts") / "shakespeare.txt"
LINES = TEXT.read_text(encoding="utf-8").splitlines()
WORKS = {title: speeches(lines) for title, lines in plays(LINES)}


def source(folder: Path, text: str = "", length: int = 80, test_share: float = 0.2) -> Shakespeare:
    (folder / "Shakespeare").mkdir()
    (folder / "Shakespeare" / FILE).write_text(text or TEXT.read_text(encoding="utf-8"), encoding="utf-8")
    return Shakespeare(root=str(folder), length=length, test_share=test_share)


def text_of(row: Inputs) -> str:
    return "".join(ALPHABET[place] for place in row)


def test_the_alphabet_is_leafs() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 80 and "".join(sorted(ALPHABET)) == ALPHABET


def test_speeches_are_their_speakers() -> None:
    assert {title: {name: len(said) for name, said in work.items()} for title, work in WORKS.items()} == {
        "THE SONNETS": {},
        "AS YOU LIKE IT": {"ORLANDO": 5, "ADAM": 1, "OLIVER": 4},
        "THE COMEDY OF ERRORS": {"AEGEON": 2, "DUKE": 2},
    }
    orlando = WORKS["AS YOU LIKE IT"]["ORLANDO"]
    assert orlando[0].startswith("As I remember, Adam, it was upon this fashion bequeathed me by will but poor a ")
    assert orlando[0].endswith("to breed me well; and there begins my sadness.")
    assert " ".join(orlando[1].split()) == (
        "Go apart, Adam, and thou shalt hear how he will shake me up. [ADAM retires]"
    )
    assert WORKS["AS YOU LIKE IT"]["OLIVER"][3] == "Know you where you are, sir?"
    assert WORKS["THE COMEDY OF ERRORS"]["DUKE"][1] == (
        "Well, Syracusian, say in brief the cause Why thou departed'st from thy native home."
    )


def test_samples_are_all_stretches_and_what_follows(tmp_path: Path) -> None:
    arrays = source(tmp_path, length=30).load()
    assert arrays.owners is not None and arrays.owners.test is not None
    assert arrays.owners.names == (
        "AS YOU LIKE IT: OLIVER",
        "AS YOU LIKE IT: ORLANDO",
        "THE COMEDY OF ERRORS: AEGEON",
        "THE COMEDY OF ERRORS: DUKE",
    )
    assert arrays.num_tokens == len(arrays.classes) == 80 and arrays.classes[:3] == ("newline", "space", "!")
    said = WORKS["AS YOU LIKE IT"]["ORLANDO"]
    for x, y, owner, of_split in (
        (arrays.x_train, arrays.y_train, arrays.owners.train, said[:4]),
        (arrays.x_test, arrays.y_test, arrays.owners.test, said[4:]),
    ):
        whole, mine = " ".join(" ".join(of_split).split()), owner == 1
        assert x.dtype == np.int8 and mine.sum() == len(whole) - 30
        for i, (row, follows) in enumerate(zip(x[mine], y[mine], strict=True)):
            assert text_of(row) == whole[i : i + 30] and ALPHABET[follows] == whole[i + 30]


def test_other_characters_and_more_spaces_are_left_out() -> None:
    assert text_of(tokens("A  caf\u00e9,\n 3 * 4")) == "A caf, 3  4"


@pytest.mark.parametrize(("share", "tested"), [(0.2, 1), (0.4, 2), (0.79, 3)])
def test_a_share_of_the_speeches_is_tested(share: float, tested: int, tmp_path: Path) -> None:
    arrays = source(tmp_path, length=10, test_share=share).load()
    assert arrays.owners is not None and arrays.owners.test is not None
    said = " ".join(WORKS["AS YOU LIKE IT"]["ORLANDO"][5 - tested :])
    place = arrays.owners.names.index("AS YOU LIKE IT: ORLANDO")
    assert (arrays.owners.test == place).sum() == len(" ".join(said.split())) - 10


def test_what_is_missing_or_something_else_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        Shakespeare(root=str(tmp_path)).load()
    for part in (FILE, str(tmp_path / "Shakespeare"), "--data.download true"):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match=r"no speeches are found in it, as in 1994-01-100\.zip of Project Gutenberg"):
        source(tmp_path, "HAMLET.\nTo be, or not to be").load()


def test_the_archive_is_fetched_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "there.zip", "w") as archive:
        archive.write(TEXT, FILE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setattr(shakespeare, "_URL", f"http://127.0.0.1:{server.server_port}/there.zip")
        arrays = Shakespeare(root=str(tmp_path), download=True, length=20).load()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert len(arrays.x_train) > 500


@pytest.mark.slow
def test_each_speaker_trains_on_his_own_and_is_tested_on_it(tmp_path: Path) -> None:
    source(tmp_path)
    options: dict[str, object] = {
        "data": "Shakespeare", "data.root": str(tmp_path), "data.length": 20, "partition": "Natural", "clients": 4,
        "cohort": 4, "model": "CharLSTM", "model.hidden": 8, "rounds": 2, "local_test": 0.1, "local_test_from": "test",
    }  # fmt: skip
    run = simulated({**SMALL, **options}, tmp_path)
    arrays = Shakespeare(root=str(tmp_path), length=20).load()
    assert arrays.owners is not None and arrays.owners.test is not None
    divided = json.loads((run / "partition.json").read_text(encoding="utf-8"))
    for parts, owner in ((divided["clients"], arrays.owners.train), (divided["local_test"], arrays.owners.test)):
        assert parts == [np.flatnonzero(owner == client).tolist() for client in range(4)]


def test_who_has_a_sample_s_characters_and_none_after_them_is_left_out(tmp_path: Path) -> None:
    said = ["ANN. Abcdefghij", "BOB. Abcdefghijk", "ANN. What is tested of her", "BOB. What is tested of him"]
    text = "A PLAY\n\nby William Shakespeare\n\n" + "".join(f"  {speech}\n\n" for speech in said)
    arrays = source(tmp_path, text, length=10).load()
    assert arrays.owners is not None and arrays.owners.names == ("A PLAY: BOB",) and len(arrays.x_train) == 1
