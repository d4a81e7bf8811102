"""A user's method, in a file of its own, and what is said of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from launching import SMALL, one_thread, options

from fl_ddp.main import main

METHOD = """
import random

import numpy as np
import torch
from dataclasses import dataclass, replace

from fl_ddp.api import FedAvg, Quadratic, Term, Upload, alike, normal


@dataclass(frozen=True)
class Mine(FedAvg):
"""
FIRST = METHOD.count("\n") + 1
"""Line of the file in which the body begins."""


def written(body: str, file: Path) -> dict[str, object]:
    """Settings of a run of the class with this body, in a file that no other test imports."""
    file.write_text(METHOD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n")
    return {**SMALL, "method": f"{file}:Mine", "local_test": 0.3, "out": file.parent}


def said(settings: dict[str, object], capfd: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code of a run in this process, and its lines of errors."""
    capfd.readouterr()
    with one_thread():
        code = main(options(settings))
    return code, capfd.readouterr().err.splitlines()
