"""What a sweep is asked for; all other options go to its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fl_ddp.bounds import Count, Seed
from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import refuse_no_name
from launch.input.declared import Folder, Form, Name
from launch.sweeps.points import Axis, read_grid

Grid = Annotated[str, Form("KEY=VALUES")]
PointFile = Annotated[str, Form("FILE", is_path=True)]
Draw = Annotated[str, Form("KEY=LAW")]


@dataclass(frozen=True)
class SweepOptions:
    """The points of the sweep, and its place.

    Attributes:
        grid: values of an option: 0.1,1,10 or 0..4 or [64,32],[128] or 'a,b',c.
        points: points from a list: .csv with a head of keys, or .yaml with a list of mappings.
        random: number of points drawn at random, by the law of each --draw.
        draw: law of an option: uniform(0.01,0.1), loguniform(1e-3,10) or choice(1,2,3).
        draw_seed: seed of the draws: the same ones come again; more of them begin with the same ones [0].
        name: name of the sweep [that of the file of --config].
        out: folder of all sweeps.
        retry: run the failed points, and these alone.
        dry_run: print the commands and stop.
    """

    grid: tuple[Grid, ...] = ()
    points: tuple[PointFile, ...] = ()
    random: Count | None = None
    draw: tuple[Draw, ...] = ()
    draw_seed: Seed | None = None
    name: Name | None = None
    out: Folder = "sweeps"
    retry: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for option, given in {"draw": bool(self.draw), "draw_seed": self.draw_seed is not None}.items():
            if given and self.random is None:
                raise ConfigError(f"--{option}", "says what to draw, but not how often; give --random N")

    def axes(self) -> tuple[Axis, ...]:
        """What --points, --random and --grid vary; seeds mostly come by --grid, and so change fastest.

        Raises:
            ConfigError: one of them is malformed.
        """
        from launch.sweeps.draws import draw, read_laws  # imports torch, which --help need not wait for
        from launch.sweeps.point_file import read_points

        laws = read_laws(self.draw)
        drawn = [] if self.random is None else [draw(self.random, laws, self.draw_seed or 0)]
        return (*(read_points(Path(file)) for file in self.points), *drawn, *map(read_grid, self.grid))

    def folder(self, base: Sequence[str]) -> Path:
        """The sweep's, which has its name.

        Args:
            base: options of all runs, whose --config lends it one.

        Raises:
            ConfigError: it has no name, or none that a folder can have.
        """
        configs = [each.removeprefix("--config=") for each in base if each.startswith("--config=")]
        name = self.name or (Path(configs[-1]).stem if configs else "")
        if not name:
            raise ConfigError("--name", "is missing; the sweep needs a name, or a --config that lends it one")
        refuse_no_name(name)
        return Path(self.out) / name
