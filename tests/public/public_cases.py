"""All that public implementations ran, by their file of numbers and their name in it."""

from __future__ import annotations

from collections.abc import Mapping

from continual_cases import CONTINUAL
from library_cases import LIBRARIES
from official_cases import OFFICIAL
from public_case import Case

CASES: Mapping[str, Case] = {**LIBRARIES, **OFFICIAL, **CONTINUAL}
