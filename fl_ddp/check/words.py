"""What the user of the checks writes and reads: the command line, its help, the table."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Sequence

from fl_ddp.check.candidate import ends_tasks, has_tasks
from fl_ddp.check.handlers import BY_NAME, Finding
from fl_ddp.check.rules import RULES
from fl_ddp.check.runs import ROUNDS, SETTINGS, Settings
from fl_ddp.config.command_line import tokens
from fl_ddp.config.layers import layer, resolve
from fl_ddp.config.options import Given
from fl_ddp.errors import ConfigError
from fl_ddp.host.stdout import say
from fl_ddp.host.text_table import TextTable

_USAGE = """usage: python -m fl_ddp.check METHOD [--method.option value ...] [--model NAME] [--model.option value ...]
                              [--stream NAME] [--stream.option value ...]

Plays three small rounds of a method again and again, each time in another way, and says in a table what holds.
METHOD is my_file.py:MyMethod, package.module:MyMethod or the name of a method that comes with the package. One that
has an end_of_task is given two tasks of the classes, the second of which begins with round 2; another --stream has
tasks of one round each if it is not told otherwise. The model is an MLP on digits, one channel of 8 x 8 pixels, where
no other is given, such as my_file.py:MyNet with layers that the method needs. The exit code is 0 if nothing fails, 1
if something does, 2 if the input cannot be run. FL_DDP_TRACEBACK=1 shows the whole way to an error.
"""
_TASKS: Settings = {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1}
_WIDTH = 118


def read(argv: Sequence[str]) -> Settings:
    """The settings that choose a method and its options, and its tasks, if it has any.

    Raises:
        ConfigError: there is no such method, stream or option, or a value is impossible.
    """
    if not argv or argv[0].startswith("-"):
        raise ConfigError("METHOD", "is missing", "my_file.py:MyMethod, package.module:MyMethod, or a name as FedProx")
    options = tokens(argv[1:])
    for given in options:
        if given.key.partition(".")[0] not in ("method", "model", "stream") or given.key == "method":
            what = "--method.<option> value, or --model or --stream with a NAME, --model.<option> or --stream.<option>"
            raise ConfigError(given.where, "is no option of the checks", what)
    method, known = Given("method", argv[0], "", typed=False), {each.key for each in options}
    begun = layer(Given(*each) for each in SETTINGS.items())
    tasks: Settings = {"stream.task_rounds": 1} if "stream" in known else {}
    if "stream" not in known and ends_tasks(resolve([begun, layer([method])])):
        tasks = _TASKS
    of_tasks = [Given(*each) for each in tasks.items() if each[0] not in known]
    config = resolve([begun, layer([*of_tasks, method, *options])])
    if ends_tasks(config) and not has_tasks(config):
        what = f"no task ends before the last of the checks' {ROUNDS} rounds, and {config.method.name} acts on its end"
        raise ConfigError("--stream", what, "two tasks or more, and --stream.task_rounds 1 or 2")
    kinds = [("method", config.method)]
    if any(key.startswith("model") for key in known):
        kinds.append(("model", config.model))
    if of_tasks or any(key.startswith("stream") for key in known):
        kinds.append(("stream", config.stream))
    return {kind: choice.class_path for kind, choice in kinds} | {
        f"{kind}.{name}": value for kind, choice in kinds for name, value in choice.init_args.items()
    }


def help_text() -> str:
    """Text of --help: what each check is for."""
    lines = [_USAGE.rstrip()]
    for rule in RULES:
        lines += ["", f"{rule.name}: {rule.meaning}"]
        for paragraph in (inspect.getdoc(rule.gap) or "").split("\n\n"):
            lines += textwrap.wrap(" ".join(paragraph.split()), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def report(findings: Sequence[Finding]) -> int:
    """Print what was found, and tracebacks on stderr; the exit code."""
    for finding in findings:
        sys.stderr.write(finding.way)
    say(table(findings))
    return int(any(finding.verdict == "does not hold" for finding in findings))


def table(findings: Sequence[Finding]) -> str:
    """What was found, a line for each check, a reason below where there is one."""
    rows = [(each.rule, BY_NAME[each.rule].meaning, each.verdict, f"{each.seconds:.1f}") for each in findings]
    head, rule, *held = TextTable(("check", "what must hold", "result", "seconds"), rows, flush_left=3).aligned()
    indent = " " * head.index("what must hold")
    lines = [head, rule]
    for line, finding in zip(held, findings, strict=True):
        lines += [line, indent + finding.reason] if finding.reason else [line]
    failed = [each.rule for each in findings if each.verdict == "does not hold"]
    told = f"{len(failed)} of {len(findings)} checks do not hold: {', '.join(failed)}" if failed else "no check fails"
    return "\n".join([*lines, "", told])
