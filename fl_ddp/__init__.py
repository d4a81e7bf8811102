"""fl_ddp: a federated-learning simulator for the study of forgetting."""

from fl_ddp.version import __version__

__all__ = ["__version__", "simulate"]


def simulate(config: object = None) -> dict[str, object]:
    """Run a simulation from a notebook or script, as the command line would.

    Ctrl-C stops it after the current local step and saves the last finished round; simulate({"resume": folder}) goes on
    with it. A second Ctrl-C raises KeyboardInterrupt at once; then the last checkpoint is what there is.

    Args:
        config: a Config, a mapping shaped like the YAML (short names, nested or dotted) or the path of a YAML file;
            nothing runs the default.

    Returns:
        what summary.json holds, and `folder`.

    Raises:
        ConfigError: the configuration cannot be run.
        RunError: the run failed.
        InterruptedRunError: Ctrl-C or SIGTERM (fl_ddp.errors); the text names the folder and the finished rounds.
    """
    from fl_ddp.run import simulate as start

    return start(config)
