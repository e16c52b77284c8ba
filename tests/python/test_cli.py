"""Tests the command line. Any wrong input must give one sentence and exit code 2."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fake_core import Fake, FakeCuda
from interlace.base.errors import UserError, unknown
from interlace.base.installation import built, built_without_cuda
from interlace.base.interrupts import INTERRUPTED
from interlace.base.version import version
from interlace.cli import main as cli
from interlace.cli.bench import COMMANDS as BENCHES
from interlace.machine.shipped import shipped_machines
from interlace.workloads import WORKLOADS, options_of_all
from interlace.workloads.options import option_of
from study_helpers import MACHINE, Run, study_of

MACHINES = ", ".join(shipped_machines())
SWEEP = Path(__file__).resolve().parents[2] / "docs/example/sweep.toml"
BANNER = "%%MatrixMarket matrix coordinate pattern general\n"


def interlace(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Start the command in a separate process."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-m", "interlace.cli.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
        check=False,
        **options,  # type: ignore[call-overload]
    )


# --- wrong input ----------------------------------------------------------------------------------

STUDY = ["study", "pagerank", "--data", "{graph}", "--machine", MACHINE]
RMAT = ["study", "pagerank", "--machine", MACHINE]
WRONG: list[tuple[list[str], str]] = [
    (["studdy"], "there is no command 'studdy' (did you mean study?); give one of {commands}"),
    (
        ["study"],
        f"study needs the name of a workload; give one of {', '.join(WORKLOADS)}",
    ),
    (
        ["study", "pgerank"],
        "there is no workload 'pgerank' (did you mean pagerank?); "
        f"give one of {', '.join(WORKLOADS)}",
    ),
    (
        [*STUDY, "--mechanisms", "bulk-copy,inlin"],
        "there is no mechanism 'inlin' (did you mean inline?); "
        "give one of bulk-copy, multi-path, split, inline, polling, device-launch, copy-engine, "
        "proact-hardware, serial-copy, write-combining, finepack, config-packet, gps, packed, "
        "nccl, nvshmem, unified-memory, infinite-bandwidth, tuned",
    ),
    (
        ["study", "pagerank", "--data", "{graph}", "--machine", "4x-volta-nvlink"],
        "there is no machine '4x-volta-nvlink' (did you mean 4x-volta-nvlink2?); "
        "give one of {machines}, or the path of a .toml file",
    ),
    (
        [*STUDY, "--gpu", "2"],
        "there is no option '--gpu' (did you mean --gpus?); give one of "
        f"{', '.join(map(option_of, options_of_all()))}, "
        "--machine, --gpus, --share-gpu, --mechanisms, --split, --chunks, --threads, --warmup, "
        "--repeats, --profile, --no-profile, --whole, --jobs, --json, --inside, --html, "
        "--timeline, --help",
    ),
    (["--verson"], "there is no option '--verson' (did you mean --version?); "
                   "give one of --version, --help"),
    ([*STUDY, "--json"], "option '--json' requires an argument"),
    ([*STUDY, "more"], "got unexpected extra argument (more)"),
    (["bench", "copie"], "there is no command bench 'copie' (did you mean copy?); give one of "
                         "blocks, collective, copy, load, overlap, park, simulator, updates"),
    (["trace", "x"], "there is no command trace 'x'; give one of info, convert, replay, record"),
    # GPUs
    ([*STUDY, "--gpus", "0"], "--gpus '0': the number of GPUs must be at least 1, not 0"),
    ([*STUDY, "--gpus", "1,2,8"], "--gpus 8: 4x-volta-nvlink2 has 4 GPUs"),
    *(
        (
            [*STUDY, "--gpus", text],
            f"--gpus '{text}': give whole numbers of GPUs with commas between them, such as 1,2,4",
        )
        for text in ("two", "1.5", "-1", "", "1,,2", "1 2", "²", "9999999999")
    ),
    # data
    (
        ["study", "pagerank", "--machine", MACHINE],
        "pagerank needs a graph; give --data FILE, or --rmat SCALE, --cage ROWS, --crawl PAGES or "
        "--rgg VERTICES to generate one",
    ),
    ([*STUDY, "--rmat", "10"], "--data and --rmat exclude each other; give one of them"),
    ([*STUDY, "--seed", "10"], "--seed is for generated graphs; leave it out with --data"),
    ([*STUDY, "--edge-factor", "10"], "--edge-factor is for --rmat; leave it out with --data"),
    ([*RMAT, "--rmat", "0"], "--rmat 0: give a scale from 1 to 32"),
    ([*RMAT, "--rmat", "33"], "--rmat 33: give a scale from 1 to 32"),
    ([*RMAT, "--rmat", "ten"], "--rmat 'ten': give a whole number"),
    (
        [*RMAT, "--rmat", "4", "--edge-factor", "0"],
        "R-MAT edge factor 0: give a number from 1 to 2**32 - 1",
    ),
    ([*RMAT, "--rmat", "4", "--seed", "-1"], "R-MAT seed -1: give a number from 0 to 2**64 - 1"),
    ([*RMAT, "--data", "{folder}/none.mtx"], "{folder}/none.mtx does not exist; check the path"),
    ([*RMAT, "--data", "{folder}"], "{folder} is a directory; name a graph file in it"),
    (
        [*RMAT, "--data", "{folder}/broken.mtx"],
        "{folder}/broken.mtx, line 3: expected two integers, found '1 x'; correct the line",
    ),
    (
        [*RMAT, "--data", "{folder}/range.mtx"],
        "{folder}/range.mtx, line 3: index 4 is outside 1 .. 3; correct the line or the sizes",
    ),
    (
        [*RMAT, "--data", "{folder}/empty.mtx"],
        "{folder}/empty.mtx, line 2: the graph has no edges; name another file",
    ),
    (
        [*RMAT, "--data", "{folder}/cut.mtx.gz"],
        "{folder}/cut.mtx.gz is cut off (its gzip stream does not end); get it anew",
    ),
    # outputs
    ([*STUDY, "--json", "{folder}"], "--json {folder} is a directory; give the name of a file"),
    ([*STUDY, "--html", "/"], "--html /: give the name of a file"),
    (
        [*STUDY, "--html", "{folder}/none/x.html"],
        "--html {folder}/none/x.html: there is no directory {folder}/none",
    ),
    (
        [*STUDY, "--timeline", "{graph}/x"],
        "--timeline {graph}/x: {graph} is not a directory",
    ),
    (
        [*STUDY, "--json", "{folder}/x", "--html", "{folder}/./x"],
        "--html and --json are both {folder}/x; give two different names",
    ),
    ([*STUDY, "--json", "/dev/full"], "/dev/full cannot be written: No space left on device"),
    # numbers
    ([*STUDY, "--iterations", "0"], "--iterations 0: give a number from 1 to 1000000"),
    ([*STUDY, "-n", "1000001"], "--iterations 1000001: give a number from 1 to 1000000"),
    ([*STUDY, "-n", "1e3"], "--iterations '1e3': give a whole number"),
    ([*STUDY, "--tolerance", "0"], "--tolerance 0: give a number above 0 and below 1"),
    ([*STUDY, "--tolerance", "1"], "--tolerance 1: give a number above 0 and below 1"),
    ([*STUDY, "--tolerance", "nan"], "--tolerance nan: give a number above 0 and below 1"),
    ([*STUDY, "--tolerance", "small"], "--tolerance 'small': give a number"),
    ([*STUDY, "--damping", "1.1"], "--damping 1.1: give a number from 0 to 1"),
    ([*STUDY, "--split", "0,2"], "--split '0,2': the number of ranges must be at least 1, not 0"),
    *(
        (
            [*STUDY, "--chunks", text],
            f"--chunks '{text}': give sizes from 4K to 256M with commas between them, such as "
            "64K,256K,1M",
        )
        for text in ("", "64", "64KB", "2K", "257M", "1G", "0K", "-1M", "1.5M", "64K,,1M", "²K")
    ),
    *(
        (
            [*STUDY, "--threads", text],
            f"--threads '{text}': give multiples of 32 from 32 to 65536 with commas between them, "
            "such as 4096,16384",
        )
        for text in ("", "0", "31", "33", "65568", "4K", "-32", "4096,,32", "²")
    ),
    ([*STUDY, "--jobs", "0"], "--jobs 0: give a number of at least 1"),
    (
        [*STUDY, "--warmup", "1"],
        "--warmup is for real GPUs; a simulated run always takes the same time, so leave out "
        "either --warmup or --machine",
    ),
    # real GPUs
    (
        ["study", "pagerank", "--rmat", "4"],
        "{no_cuda}; kernels on GPUs need CUDA; copies, load, save and "
        "interlace run still work; name a machine to simulate with --machine: "
        "{machines}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0][1:]) for w in WRONG])
def test_wrong_input(
    run: Run, core: Fake, graph: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "broken.mtx").write_text(BANNER + "3 3 2\n1 x\n1 2\n")
    (tmp_path / "range.mtx").write_text(BANNER + "3 3 2\n1 4\n1 2\n")
    (tmp_path / "empty.mtx").write_text(BANNER + "3 3 0\n")
    (tmp_path / "cut.mtx.gz").write_bytes(gzip.compress(b"x" * 1000)[:-9])
    before = sorted(tmp_path.iterdir())
    names = {
        "graph": graph,
        "folder": tmp_path,
        "machines": MACHINES,
        "commands": ", ".join(cli.commands()),
        "no_cuda": built_without_cuda(built()),
    }
    ran = run(*(word.format(**names) for word in words))
    assert ran.err == f"interlace: {sentence.format(**names)}\n"
    assert ran.code == 2
    assert sorted(tmp_path.iterdir()) == before
    if "/dev/full" not in words:  # only the study itself can find this error
        assert ran.out == ""
        assert core.calls == []


def test_a_broken_machine_file(run: Run, core: Fake, graph: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("format = 1\ntitle = [\n1 2]\n")
    ran = run("study", "pagerank", "--data", graph, "--machine", path)
    assert ran.code == 2
    assert ran.err.startswith(f"interlace: {path}, line 3: this is not TOML: ")
    assert core.calls == []


def test_no_gpu_and_no_driver(run: Run, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.gpus = 0
    ran = run("study", "pagerank", "--rmat", "4")
    hint = f"name a machine to simulate with --machine: {MACHINES}\n"
    assert (ran.code, ran.err) == (2, f"interlace: there is no GPU here; {hint}")

    def fail() -> None:
        raise RuntimeError("no NVIDIA driver")

    monkeypatch.setattr(cuda, "device_info", fail)
    ran = run("study", "pagerank", "--rmat", "4")
    assert ran.err == f"interlace: the GPUs cannot be used (no NVIDIA driver); {hint}"
    assert ran.code == 2
    ran = run("study", "pagerank", "--rmat", "4", "--repeats", "0")
    assert ran.err == "interlace: --repeats 0: give a number of at least 1\n"


def test_more_gpus_than_are_there(run: Run, cuda: FakeCuda) -> None:
    cuda.gpus = 1
    ran = run("study", "pagerank", "--rmat", "4", "--gpus", "2")
    said = "--gpus 2: 1x Fake H200 has 1 GPU; --share-gpu lets several devices share a GPU"
    assert (ran.code, ran.err) == (2, f"interlace: {said}\n")


def test_a_missing_core(run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "interlace._core", None)
    ran = run(*study_of(graph))
    assert ran.code == 2
    assert ran.err.startswith("interlace: the compiled part of Interlace cannot be loaded (")
    assert ran.err.endswith("; install Interlace anew with ./quickstart\n")


# --- the frame ------------------------------------------------------------------------------------


def test_help_and_version(run: Run) -> None:
    assert run("--version").out == f"interlace {version()}\n"
    for words in ([], ["--help"], ["-h"]):
        ran = run(*words)
        assert ran.code == 0
        lines = [line.split(maxsplit=1) for line in ran.out.splitlines() if line]
        assert ["bench", "Measure copies, loads and the simulator's speed."] in lines
        assert "..." not in ran.out.partition("Commands:")[2]  # every line must fit in 80 columns
        words = "Run a workload with each mechanism, and compare the times."
        assert ["study", words] in lines
    ran = run("study", "--help")
    assert ran.code == 0
    assert "-n, --iterations N" in ran.out
    assert "-w, --warmup N" in ran.out


def test_help_states_each_default_once(run: Run) -> None:
    for words in (*([name] for name in cli.commands()), *(["bench", name] for name in BENCHES)):
        text = " ".join(run(*words, "--help").out.split())
        assert re.findall(r"\[default: ([^\]]*)\] \[default: \1\]", text) == [], words


def test_only_commands_that_exist_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = cli.Command("interlace.not_there", "command", "Nothing.")
    monkeypatch.setitem(cli.COMMANDS, "missing", missing)
    assert "missing" not in run("--help").out
    assert "there is no command 'missing'" in run("missing").err


def test_errors_of_a_program_are_not_hidden(
    run: Run, core: Fake, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(core, "run_pagerank", wrong)
    with pytest.raises(TypeError, match="a bug"):
        run(*study_of(graph))


def test_an_interrupt_that_typer_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "version", lambda: signal.raise_signal(signal.SIGINT))
    assert run("--version") == (130, "", "interlace: interrupted\n")


def test_names_are_suggested() -> None:
    assert str(unknown("fruit", "aple", ["apple", "pear"])) == (
        "there is no fruit 'aple' (did you mean apple?); give one of apple, pear"
    )
    assert isinstance(unknown("fruit", "x", ["apple"]), UserError)
    assert str(unknown("fruit", "x", ["apple"])) == "there is no fruit 'x'; give apple"


@pytest.mark.usefixtures("core")
def test_a_reader_who_leaves_costs_no_file(graph: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from fake_core import Fake\n"
        "sys.modules['interlace._core'] = Fake()\n"
        "from interlace.cli import main as cli\n"
        "cli.main()\n"
    )
    out = tmp_path / "out.json"
    receiver, sender = os.pipe()
    os.close(receiver)
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, script, *map(str, study_of(graph, "--json", out, "--gpus", 1))],
        stdout=sender,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
        check=False,
    )
    os.close(sender)
    assert (done.returncode, done.stderr) == (141, "")
    assert out.exists()


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    "words",
    [
        ["study", "pagerank", "--rmat", "5", "--gpus", "1", "--machine", MACHINE],
        ["plan", "gpu0", "gpu1", "1M", "--machine", MACHINE],
        ["topo", MACHINE],
        ["cost", MACHINE],
        ["config"],
    ],
)
def test_json_on_standard_output(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    if words[0] in ("plan", "topo", "cost"):
        monkeypatch.undo()  # removes the fake core
        pytest.importorskip("interlace._core")
    monkeypatch.chdir(tmp_path)
    ran = run(*words, "--json", "-")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["version"]
    assert not Path("-").exists()


@pytest.mark.usefixtures("core")
def test_no_input_is_overwritten(run: Run, graph: Path, tmp_path: Path) -> None:
    before = graph.read_bytes()
    (tmp_path / "link").symlink_to(graph)
    tune = ["tune", "pagerank", "--data", graph, "--machine", MACHINE]
    record = ["trace", "record", "pagerank", "--data", graph, "--machine", MACHINE]
    for words, option in (
        (study_of(graph, "--json", graph), "--json"),
        (study_of(graph, "--html", tmp_path / "link"), "--html"),
        ([*tune, "--out", graph], "--out"),
        ([*record, "--output", graph], "--output"),
    ):
        ran = run(*words)
        assert (ran.code, ran.out) == (2, "")
        name = tmp_path / "link" if option == "--html" else graph
        assert (
            ran.err == f"interlace: --data and {option} are both {name}; give two different names\n"
        )
    assert graph.read_bytes() == before


def test_a_device_cannot_keep_runs(run: Run) -> None:
    ran = run("sweep", SWEEP, "--runs", "/dev/full")  # reading this device would never end
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == "interlace: /dev/full is not a regular file; give the name of a regular file\n"
    )


@pytest.mark.usefixtures("core")
def test_json_and_a_page_cannot_both_be_standard_output(run: Run, graph: Path) -> None:
    ran = run(*study_of(graph, "--json", "-", "--html", "-"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "interlace: --html and --json are both -; give two different names\n"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["trace", "convert", "{graph}", "-"], "OUT"),
        (["trace", "record", "pagerank", "--data", "{graph}", "--machine", MACHINE, "-o", "-"],
         "--output"),
        (["sweep", str(SWEEP), "--runs", "-"], "--runs"),
    ],
)  # fmt: skip
def test_what_cannot_go_to_standard_output(
    run: Run, graph: Path, words: list[str], option: str
) -> None:
    ran = run(*(word.format(graph=graph) for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == f"interlace: {option} -: this file cannot be standard output; give a file name\n"
    )


LAUNCHER = Path(__file__).parents[2] / "python/launcher/interlace"


@pytest.mark.parametrize("start", [["-m", "interlace"], ["-c", "{start}"], [str(LAUNCHER)]])
def test_ctrl_c_while_modules_are_loaded(tmp_path: Path, start: list[str]) -> None:
    # The command line imports typer first. This stand-in for typer sends Ctrl-C during its import.
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    )
    entry = (
        "from interlace.cli.start import main; main()"  # this is the code of the installed script
    )
    done = subprocess.run(
        [sys.executable, *(word.format(start=entry) for word in start), "topo"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interlace: interrupted\n"


def test_ctrl_c_while_the_package_is_loaded(tmp_path: Path) -> None:
    # This stand-in for the package sends Ctrl-C during its import.
    (tmp_path / "interlace").mkdir()
    (tmp_path / "interlace/__init__.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    )
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "topo"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_is_answered_after_few_imports() -> None:
    package = Path(cli.__file__).parents[2]
    code = (
        f"import os, sys; sys.path.insert(0, {str(package)!r}); before = set(sys.modules)\n"
        "from interlace.cli.start import INTERRUPTED; print(INTERRUPTED)\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    number, modules = done.stdout.splitlines()
    assert int(number) == INTERRUPTED
    assert modules.split() == [
        "__future__", "interlace", "interlace.cli", "interlace.cli.start"
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["plan", "--help"]])
def test_a_full_disk_behind_help(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "interlace", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    said = "interlace: standard output cannot be written: No space left on device\n"
    assert done.stderr == said


def test_a_locale_without_the_letters_of_a_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interlace", "topo", "\u65e5.toml"],
        capture_output=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONIOENCODING": "ascii:strict",
        },
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"interlace: ")
    assert b"Traceback" not in done.stderr


def test_the_command_starts_quickly() -> None:
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert interlace("study", "--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5  # CPU seconds do not depend on other load; 0.25 is usual


@pytest.mark.parametrize("words", [["--version"], ["study", "--help"], ["bench", "--help"]])
def test_nothing_heavy_is_loaded_for_help(words: list[str]) -> None:
    heavy = "numpy", "scipy", "plotly"
    code = (
        "import sys; from interlace.cli import main as cli; "
        f"cli.run({words!r}); print([m for m in {heavy!r} if m in sys.modules])"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
