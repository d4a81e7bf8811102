"""Options that do nothing beside another one are told of, and no others."""

from __future__ import annotations

import pytest

from fl_ddp.config.command_line import parse
from fl_ddp.config.idle_options import idle_options

LATE = ["--stragglers", "0.1", "--local_epochs", "2"]
HUB = ["--data", "HuggingFace", "--data.dataset", "ylecun/mnist"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ["--model", "CharLSTM", "--model.dropout", "0.3", "--model.layers", "1"],
            ["--model.dropout 0.3 does nothing beside --model.layers 1"],
        ),
        (
            ["--model", "ResNet18", "--model.groups", "8", "--model.norm", "batch"],
            ["--model.groups 8 does nothing beside --model.norm batch"],
        ),
        (
            ["--stream", "ClassGroups", "--stream.join", "0.1", "--stream.leave", "0.1"],
            [
                "--stream.join 0.1 does nothing beside --stream.enrolment all",
                "--stream.leave 0.1 does nothing beside --stream.enrolment all",
            ],
        ),
        (["--stream.task_rounds", "5"], ["--stream.task_rounds 5 does nothing beside --stream.tasks 1"]),
        (
            ["--stream.tasks", "2", "--stream.keep", "0.1", "--stream.budget", "fixed"],
            [
                "--stream.keep 0.1 does nothing beside --stream Static",
                "--stream.budget fixed does nothing beside --stream Static",
            ],
        ),
        (
            ["--data", "Csv", "--data.path", "a.csv", "--data.test_path", "b.csv", "--data.test_seed", "3"],
            ["--data.test_seed 3 does nothing beside --data.test_path b.csv"],
        ),
        ([*HUB, "--data.test_share", "0.3"], ["--data.test_share 0.3 does nothing beside --data.test test"]),
        (
            ["--local_test_from", "test"],
            [
                "--local_test_from test does nothing beside --local_test 0, with which clients have no own tests",
            ],
        ),
        (["--client_sampling", "samples"], ["--client_sampling samples does nothing: the cohort is all 20 clients"]),
        (["--client_sampling", "samples", "--cohort", "19"], []),
        (
            ["--augment", "flip", "--method", "FilVer"],
            ["--augment does nothing to FilVer's clients, but is its pre-training's alone"],
        ),
        (["--augment", "flip"], []),
        ([*LATE, "--cohort", "4"], ["--stragglers 0.1 are none of a cohort of 4"]),
        ([*LATE, "--cohort", "6"], []),
        (
            ["--lr_schedule", "step", "--lr_step", "5", "--lr_decay", "0.1", "--rounds", "5"],
            ["--lr_step 5: the learning rate does not fall in 5 rounds"],
        ),
        (["--lr_schedule", "step", "--lr_step", "4", "--lr_decay", "0.1", "--rounds", "5"], []),
        (
            ["--lr_schedule", "warmup_cosine", "--lr_warmup", "6", "--rounds", "5"],
            ["--lr_warmup 6: --lr is not reached in 5 rounds"],
        ),
        (["--lr_schedule", "warmup_cosine", "--lr_warmup", "5", "--rounds", "5"], []),
        (["--init", ""], ["--init is empty: the run begins with the weights of its seed"]),
        (["--model", "CharLSTM", "--model.dropout", "0.3"], []),
        (["--model", "CharLSTM", "--model.layers", "1"], []),
        (["--model", "ResNet18", "--model.groups", "8"], []),
        (["--model", "torchvision.models.resnet18", "--model.norm", "group"], []),
        (["--stream", "ClassGroups", "--stream.join", "0.1", "--stream.enrolment", "random"], []),
        (["--stream.tasks", "2", "--stream.task_rounds", "5"], []),
        (["--data", "Csv", "--data.path", "a.csv", "--data.test_share", "0.3"], []),
        ([*HUB, "--data.test", "null", "--data.test_share", "0.3"], []),
    ],
)
def test_what_does_nothing_is_told(given: list[str], told: list[str]) -> None:
    assert list(idle_options(parse(given))) == [f"warning: {line}" for line in told]
