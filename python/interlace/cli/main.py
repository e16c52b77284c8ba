"""The command `interlace`.

Exit codes: 0 for success; 1 if the work failed (a wrong result, a failed device); 2 for input that
cannot be used; 130 after Ctrl-C. Each command imports slow modules only when it needs them.
"""

from __future__ import annotations

import errno
import functools
import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import typer

from interlace.base import interrupts
from interlace.base.errors import UserError, unknown
from interlace.base.files import output_lost
from interlace.base.version import version
from interlace.cli.failures import warn

READER_LEFT = 141  # 128 + SIGPIPE


# the message that typer prints if a group has no command of this name
_NO_COMMAND = re.compile(r"No such command '(.*?)'\.")


class Command(NamedTuple):
    """A command: its line in the list of commands, and the place of its function or subcommands."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "study": Command(
        "interlace.cli.study",
        "study_command",
        "Run a workload with each mechanism, and compare the times.",
    ),
    "sweep": Command(
        "interlace.cli.sweep",
        "sweep_command",
        "Run a workload on every machine of a design space.",
    ),
    "tune": Command(
        "interlace.cli.tune",
        "tune_command",
        "Find and save a workload's fastest mechanism.",
    ),
    "bench": Command(
        "interlace.cli.bench",
        "COMMANDS",
        "Measure copies, loads and the simulator's speed.",
    ),
    "calibrate": Command(
        "interlace.cli.calibrate",
        "calibrate_command",
        "Compare a simulated machine with the real one.",
    ),
    "reproduce": Command(
        "interlace.cli.reproduce",
        "reproduce_command",
        "Compare a paper's figures with Interlace's figures.",
    ),
    "plan": Command(
        "interlace.cli.plan",
        "plan_command",
        "Plan messages over several paths, and explain the plan.",
    ),
    "run": Command(
        "interlace.cli.run",
        "run_command",
        "Run a program as it is, with faster copies.",
    ),
    "config": Command(
        "interlace.cli.config",
        "config_command",
        "List environment variables, and flags for compilers.",
    ),
    "doctor": Command(
        "interlace.cli.doctor",
        "doctor_command",
        "Say which features work here, and why others do not.",
    ),
    "ps": Command(
        "interlace.cli.ps",
        "ps_command",
        "Show what your processes do, and what they wait for.",
    ),
    "locality": Command(
        "interlace.cli.locality",
        "locality_command",
        "Count the remote loads of programs on unified memory.",
    ),
    "cost": Command(
        "interlace.cli.cost",
        "cost_command",
        "Say how much storage simulated hardware takes in a GPU.",
    ),
    "trace": Command(
        "interlace.cli.trace",
        "COMMANDS",
        "Record, convert, describe and replay traces of accesses.",
    ),
    "build-workload": Command(
        "interlace.cli.build_workload",
        "build_workload_command",
        "Compile a workload of your own, for all commands.",
    ),
    "topo": Command(
        "interlace.cli.topo",
        "topo_command",
        "Draw a machine, described or real; measure and save it.",
    ),
}


# Some commands have variants. The second word of the command line selects the variant.
VARIANTS = {
    ("tune", "copy"): Command(
        "interlace.cli.tune_copy",
        "tune_copy_command",
        "Find the fastest way to copy on this machine. Later copies use it.",
    ),
    ("tune", "blocks"): Command(
        "interlace.cli.tune_blocks",
        "tune_blocks_command",
        "Find the fastest way to move batches of blocks. Later batches use it.",
    ),
}


class _Stopped(Exception):  # noqa: N818
    """Ends a command early, with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def commands() -> dict[str, Command]:
    """Return the commands of this installation."""
    return {name: it for name, it in COMMANDS.items() if importlib.util.find_spec(it.module)}


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` as a command that leaves Ctrl-C and closed pipes to `run`, not to typer."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:
            raise _Stopped(interrupts.INTERRUPTED) from None
        except BrokenPipeError:
            raise _Stopped(READER_LEFT) from None

    return call


def _typer() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _group(functions: Mapping[str, Callable[..., Any]]) -> typer.Typer:
    """Return a command with subcommands."""
    group = _typer()

    @group.callback(invoke_without_command=True)
    def top(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for name, function in functions.items():
        group.command(name)(_guarded(function))
    return group


def _app(wanted: str | None, variant: str | None = None) -> typer.Typer:
    """Return the app. Load only the requested command, or the requested variant of it."""
    app = _typer()

    @app.callback(invoke_without_command=True)
    def top(
        context: typer.Context,
        show_version: bool = typer.Option(False, "--version", help="Print the version and end."),
    ) -> None:
        """Moves data between a node's GPUs while they compute, on real and simulated machines."""
        if show_version:
            typer.echo(f"interlace {version()}")
        elif context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for name, command in commands().items():
        if name == wanted and variant is not None:
            other = VARIANTS[name, variant]
            function = getattr(importlib.import_module(other.module), other.function)
            app.add_typer(_group({variant: function}), name=name, help=command.summary)
        elif name == wanted:
            function = getattr(importlib.import_module(command.module), command.function)
            if callable(function):
                app.command(name)(_guarded(function))
            else:
                app.add_typer(_group(function), name=name, help=command.summary)
        else:
            app.command(name, help=command.summary)(lambda: None)
    return app


def _usage_sentence(error: Any) -> str:
    """Return an error of typer's parser as one sentence."""
    if (option := getattr(error, "option_name", None)) and hasattr(error, "possibilities"):
        known = [o for p in error.ctx.command.params for o in p.opts if o.startswith("--")]
        return str(unknown("option", option, [*known, "--help"]))
    text = " ".join(str(error.format_message()).split()).replace("(s)", "")
    context: Any = getattr(error, "ctx", None)
    if context is not None and (name := _NO_COMMAND.match(text)):
        return str(unknown(f"command {context.info_name}", name[1], list(context.command.commands)))
    return text[:1].lower() + text[1:]


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments` and return the exit code."""
    try:
        with interrupts.noted():
            wanted = next((word for word in arguments if not word.startswith("-")), None)
            if wanted is not None and wanted not in (known := commands()):
                raise unknown("command", wanted, tuple(known))
            variant = None
            if wanted is not None:
                following = arguments[arguments.index(wanted) + 1 :][:1]
                variant = next((word for word in following if (wanted, word) in VARIANTS), None)
            app = _app(wanted, variant)
            code = app(args=list(arguments), prog_name="interlace", standalone_mode=False)
            sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _stop(interrupts.INTERRUPTED)
    except Exception as error:
        if interrupts.seen():  # the error replaced a KeyboardInterrupt
            return _stop(interrupts.INTERRUPTED)
        if isinstance(error, UserError):
            return _complain(str(error))
        if isinstance(error, _Stopped):
            return _stop(error.code)
        if isinstance(error, BrokenPipeError):
            return _stop(READER_LEFT)
        if isinstance(error, OSError) and (lost := _lost_output(error)) is not None:
            return _complain(str(output_lost(lost)))
        if isinstance(error, OSError | MemoryError):
            return _fail(error)
        if not hasattr(error, "format_message"):  # errors of typer's parser have this method
            raise
        return _complain(_usage_sentence(error))
    # Typer's own exit prints nothing. The code can also come from a program under `interlace run`.
    if code == interrupts.INTERRUPTED and interrupts.seen():
        return _stop(interrupts.INTERRUPTED)
    return code if isinstance(code, int) else 0


def _complain(sentence: str) -> int:
    warn(sentence.removesuffix("."))
    _leave_output()
    return 2


def _fail(error: OSError | MemoryError) -> int:
    """End the command after an error of the system that no other code has handled."""
    warn("no memory is left" if isinstance(error, MemoryError) else f"{error}")
    _leave_output()
    return 1


def _stop(code: int) -> int:
    if code == interrupts.INTERRUPTED:
        warn("interrupted")
    _leave_output()
    return code


def _lost_output(error: OSError) -> OSError | None:
    """Return the error of standard output, or None if standard output has no error.

    This is the error of a flush, if a flush fails. Otherwise it is `error`, if `error` says that no
    space is left and names no file: Typer prints help without a buffer, so a full disk can raise
    such an error before any flush.
    """
    full = error.filename is None and error.errno == errno.ENOSPC
    return _unwritten() or (error if full else None)


def _unwritten() -> OSError | None:
    """Return the error if standard output cannot take the printed text, or None."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def _leave_output() -> None:
    """Drop the text that standard output does not accept.

    Otherwise Python would report an error when it ends.
    """
    if _unwritten() is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _open_standard_streams() -> None:
    """Open each of the descriptors 0 to 2 that is closed.

    Otherwise the next opened file would get one of these numbers. Text that is printed to a stream
    that was closed is dropped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the new descriptor gets the lowest free number
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            opened = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, opened)


def main() -> None:
    """Run the command line. This function is the entry point."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the locale can lack characters of a file name
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
