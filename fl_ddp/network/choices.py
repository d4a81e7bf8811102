"""What an option can say of any model's layers; without torch, which commands need not wait for."""

from typing import Literal

RunningStatistics = Literal["average", "local", "first"]
Norm = Literal["own", "group"]
