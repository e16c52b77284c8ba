"""Tests `interlace trace` with the real compiled module: its output, its files, and the input that
it refuses.
"""

from __future__ import annotations

import json
import lzma
import os
import random
from pathlib import Path
from typing import Any

import pytest

from interlace.base.errors import UserError
from interlace.model.mechanism_table import BULK_COPY, INLINE, POLLING
from interlace.study import trace_files
from interlace.study.address_map import load_map
from interlace.study.trace_files import pieces
from interlace.workloads import WORKLOADS
from study_helpers import Run

pytest.importorskip("interlace._core")

MACHINE = "4x-volta-nvlink2"
BEGIN = 0x7F0000000000

MAP = f"""gpus = 2
[[range]]
begin = {BEGIN:#x}
bytes = 0x100000
gpu = 0
[[range]]
begin = {BEGIN + 0x100000:#x}
bytes = 0x100000
gpu = 1
[[context]]
id = 0x55
gpu = 1
[[kernels]]
first = 1
last = 9
gpu = 0
"""

HEAD = """-kernel name = k
-kernel id = 1
-grid dim = (4,1,1)
-block dim = (64,1,1)
-shmem = 0
-accelsim tracer version = {version}
-enable lineinfo = 0

#traces format = x

"""


def kernel(version: int) -> str:
    """Return a kernel with four blocks of two warps.

    Each warp loads 32 floats that no other warp loads, and stores to GPU 1.
    """
    end = " 0 \n" if version == 5 else " \n"
    text = HEAD.format(version=version)
    for block in range(4):
        text += f"#BEGIN_TB\n\nthread block = {block},0,0\n\n"
        for warp in range(2):
            at = BEGIN + 128 * (2 * block + warp)
            text += (
                f"warp = {warp}\ninsts = 2\n"
                f"0000 ffffffff 1 R2 LDG.E 1 R4 4 1 {at:#x} 4{end}"
                f"0010 ffffffff 0 STG.E.SYS 2 R4 R2 4 1 {at + 0x100000:#x} 4{end}\n"
            )
        text += "#END_TB\n\n"
    return text


@pytest.fixture
def map_file(tmp_path: Path) -> Path:
    """Write a map file for two GPUs."""
    path = tmp_path / "map.toml"
    path.write_text(MAP)
    return path


def listed(folder: Path) -> Path:
    """Write a list of three kernels. Each kernel file is compressed in another way."""
    zstandard = pytest.importorskip("zstandard")
    (folder / "kernel-1.traceg").write_text(kernel(4))
    (folder / "kernel-2-ctx_0x66.traceg.xz").write_bytes(lzma.compress(kernel(5).encode()))
    packed = zstandard.ZstdCompressor().compress(kernel(5).encode())
    (folder / "kernel-3-ctx_0x55.traceg.zst").write_bytes(packed)
    path = folder / "kernelslist.g"
    path.write_text(
        f"MemcpyHtoD,{BEGIN:#018x},4096\nkernel-1.traceg\n\n"
        "kernel-2-ctx_0x66.traceg.xz\nkernel-3-ctx_0x55.traceg.zst\n"
    )
    return path


def replayed(run: Run, file: Path, tmp_path: Path) -> dict[str, Any]:
    out = tmp_path / "replay.json"
    ran = run("trace", "replay", file, "-m", MACHINE, "--json", out)
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def test_accel_sim_from_the_list_to_the_replay(run: Run, tmp_path: Path, map_file: Path) -> None:
    source, out, facts = listed(tmp_path), tmp_path / "out.trace", tmp_path / "out.json"
    ran = run("trace", "convert", source, out, "--map", map_file, "--json", facts)
    assert ran.code == 0, ran.err
    assert "million lines per minute" in ran.out
    trace = json.loads(facts.read_text())["trace"]
    assert (trace["kernels"], trace["blocks"], trace["host_copies"]) == (3, 12, 1)
    assert trace["accesses"] == 3 * 4 * 2 * 2
    assert trace["bytes"] == {"load": 3 * 1024, "store": 3 * 1024, "atomic": 0}
    # The context of kernel 3 says that this kernel ran on GPU 1. The kernel loads from GPU 0 and
    # stores to GPU 1.
    assert trace["bytes_to_home"] == [[2048, 2048], [1024, 1024]]
    assert trace["remote_share"] == 0.5
    assert trace["used_bytes"]["load"] == {"32": 32.0, "64": 64.0, "128": 128.0}
    assert {run["up_to_bytes"]: run["count"] for run in trace["remote_store_runs"]}[128] == 16
    ran = run("trace", "info", out, "--json", facts)
    assert ran.code == 0, ran.err
    again = json.loads(facts.read_text())["trace"]
    assert again == {**trace, "file_bytes": again["file_bytes"]}
    found = replayed(run, out, tmp_path)
    assert found["instructions"] == trace["accesses"]
    assert found["accesses"] == trace["accesses"]  # each access reads a whole line
    assert found["stores"]["payload"] == 2048
    assert found["reads"]["payload"] == 1024
    assert found["remote_transactions"] == 16 + 8
    assert found["host_copies"] == 1
    assert found["time_s"] > 0


def test_info_reads_what_others_wrote_without_a_file(
    run: Run, tmp_path: Path, map_file: Path
) -> None:
    trace = tmp_path / "mem.trace"
    trace.write_text(
        "start, 0.1, GPU_1.SA_00.L1VCache_00, 7@x, *mem.ReadReq, 0x200000040, 64\nend, 0.2, 7@x\n"
    )
    ran = run("trace", "info", trace, "--gpus", 2)
    assert ran.code == 0, ran.err
    assert "1 access of warps" in ran.out
    output = tmp_path / "output.txt"
    addresses = [hex(BEGIN + 8 * k) for k in range(32)]
    output.write_text(
        "hello\nMEMTRACE: CTX 0x0000000000000055 - grid_launch_id 0 - CTA 0,0,0 - warp 3 - LDG.E"
        f" - {' '.join(addresses)} \n"
    )
    ran = run("trace", "info", output, "--map", map_file)
    assert ran.code == 0, ran.err
    assert "16.0 of 32" in ran.out  # the kernel uses every second float
    assert sorted(tmp_path.iterdir()) == sorted([trace, output, map_file])


def test_the_name_of_a_new_file_is_printable(run: Run, tmp_path: Path) -> None:
    words = ("jacobi", "--rows", 64, "-n", 1, "-m", MACHINE, "--gpus", 2)
    ran = run("trace", "record", *words, "-o", tmp_path / "\x1b[2J.trace")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert "\\x1b[2J.trace: " in ran.out


def test_a_recorded_run_again(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "run.trace"
    words = ("jacobi", "--rows", 512, "-n", 2, "-m", MACHINE, "--gpus", 2)
    for mechanism in (INLINE, BULK_COPY):
        ran = run("trace", "record", *words, "--mechanism", mechanism, "--output", out)
        assert ran.code == 0, ran.err
        assert ran.out.rstrip().endswith("The result is right.")
        direct = tmp_path / "study.json"
        ran = run("study", *words, "--mechanisms", mechanism, "--json", direct)
        assert ran.code == 0, ran.err
        row = next(it for it in json.loads(direct.read_text())["rows"] if it["gpus"] == 2)
        found = replayed(run, out, tmp_path)
        assert found["accesses"] == row["sim"]["accesses"]
        assert found["remote_transactions"] == row["sim"]["remote_transactions"]
        moved = ("stores", "reads", "copies", "exchanges")
        assert sum(found[kind]["wire"] for kind in moved) == sum(row["wire"].values())
        assert found["time_s"] == row["time_s"]


def error_of(run: Run, *words: object) -> str:
    ran = run("trace", *words)
    assert ran.code == 2, (ran.out, ran.err)
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    return ran.err.removeprefix("interlace: ").rstrip("\n")


def test_wrong_files_are_refused_with_the_place(run: Run, tmp_path: Path, map_file: Path) -> None:
    source = tmp_path / "kernel-1.traceg"
    out = tmp_path / "out.trace"
    source.write_text(kernel(4).replace(" 4 \n", " \n", 1))
    message = error_of(run, "convert", source, out, "--map", map_file)
    assert message.startswith(f"{source}, line 17: the line ends before the stride")
    # There is no incomplete file.
    assert sorted(tmp_path.iterdir()) == sorted([source, map_file])
    source.write_text(kernel(4)[:-30])
    message = error_of(run, "info", source, "--map", map_file)
    assert message.startswith(f"{source}, line ")
    source.write_text(kernel(4).replace(f"{BEGIN:#x}", "0x1230", 1))
    message = error_of(run, "convert", source, out, "--map", map_file)
    assert f"{source}, line 17: address 0x1230 is in no GPU's range" in message
    packed = tmp_path / "kernel-2.traceg.xz"
    packed.write_bytes(lzma.compress(kernel(4).encode())[:-9])
    assert "is cut off" in error_of(run, "info", packed, "--map", map_file)
    packed.write_bytes(b"\xfd7zXZ\0 and nothing more that is any")
    assert "is not a sound xz file" in error_of(run, "info", packed, "--map", map_file)
    other = tmp_path / "notes.txt"
    other.write_text("words\n")
    assert "does not look like a file of the formats accel-sim, nvbit, mgpusim" in error_of(
        run, "info", other
    )
    source.write_text(kernel(4))
    assert run("trace", "convert", source, out, "--map", map_file).code == 0
    whole = out.read_bytes()
    out.write_bytes(whole[:-5])
    size = len(whole) - 5
    assert error_of(run, "info", out).startswith(f"{out}, byte {size}: the file ends in the chunk")
    assert error_of(run, "replay", out, "-m", MACHINE).startswith(f"{out}, byte {size}: ")
    out.write_bytes(whole[:40] + b"\xaa" + whole[41:])
    assert f"{out}, byte " in error_of(run, "replay", out, "-m", MACHINE)
    listed_file = tmp_path / "kernelslist.g"
    listed_file.write_text("kernel-9.traceg\n")
    message = error_of(run, "convert", listed_file, out, "--map", map_file)
    assert message.startswith(f"{listed_file}, line 1: there is no file")


def test_wrong_options_are_refused(run: Run, tmp_path: Path, map_file: Path) -> None:
    trace = tmp_path / "mem.trace"
    trace.write_text("start, 0.1, GPU_1.SA_00.L1VCache_00, 7@x, *mem.ReadReq, 0x100000040, 64\n")
    out = tmp_path / "out.trace"
    assert "--gpus is missing" in error_of(run, "info", trace)
    assert "--map: a trace of MGPUSim itself says" in error_of(
        run, "info", trace, "--map", map_file, "--gpus", 2
    )
    assert "give 1 to 16" in error_of(run, "info", trace, "--gpus", 17)
    assert "needs two files" in error_of(run, "convert", trace)
    assert "there is no format" in error_of(run, "info", trace, "--format", "csv")
    assert "name another component with --component" in error_of(
        run, "info", trace, "--gpus", 1, "--component", "L9"
    )
    assert "is not a trace of Interlace" in error_of(run, "replay", trace, "-m", MACHINE)
    assert run("trace", "convert", trace, out, "--gpus", 1).code == 0
    assert "IN and OUT are both" in error_of(run, "convert", trace, trace, "--gpus", 1)
    assert "is already a trace of Interlace" in error_of(run, "convert", out, trace)
    assert "--gpus is for traces of other tools" in error_of(run, "info", out, "--gpus", 1)
    assert "--machine is missing" in error_of(run, "replay", out)
    assert "give one of inline, " in error_of(run, "replay", out, "-m", MACHINE, "--mechanism", "x")
    assert "--output is missing" in error_of(run, "record", "jacobi", "-m", MACHINE)
    assert "no recordable mechanism 'polling'" in error_of(
        run, "record", "jacobi", "-m", MACHINE, "-o", out, "--mechanism", POLLING
    )
    assert "has 4 GPUs" in error_of(run, "record", "jacobi", "-m", MACHINE, "-o", out, "-g", 5)


def test_results_do_not_replace_what_is_read_or_written(
    run: Run, tmp_path: Path, map_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, out = Path("kernel-1.traceg"), Path("out.trace")
    source.write_text(kernel(4))
    convert = ("convert", source, out, "--map", map_file)
    assert "--json and OUT are both" in error_of(run, *convert, "--json", tmp_path / out)
    assert not out.exists()
    assert "IN and --json are both" in error_of(run, *convert, "--json", f"./{source}")
    assert "--map and --json are both" in error_of(run, *convert, "--json", map_file)
    info = ("info", source, "--map", map_file)
    assert "FILE and --json are both" in error_of(run, *info, "--json", source)
    assert "--map and --json are both" in error_of(run, *info, "--json", map_file)
    assert (source.read_text(), map_file.read_text()) == (kernel(4), MAP)
    assert run("trace", *convert).code == 0
    converted = out.read_bytes()
    replay = ("replay", out, "-m", "m.toml")
    assert "FILE and --json are both" in error_of(run, *replay, "--json", out)
    assert "--machine and --json are both" in error_of(run, *replay, "--json", "m.toml")
    assert out.read_bytes() == converted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus = 2\n[[range]\ngpu = 0", ", line 2: this is not TOML"),
        ("gpus = 2\n", "missing required field range"),
        ("gpus = 17\nrange = []\n", "gpus: expected int <= 16"),
        (MAP.replace("gpu = 1", "gpu = 2", 1), "range[1].gpu is 2, but gpus is 2"),
        (MAP.replace("bytes = 0x100000", "bytes = 0x100001", 1), "range[0] and range[1] overlap"),
        (MAP.replace("gpu = 0\n", "", 1), "range[0] needs either gpu or page_bytes"),
        (MAP.replace("gpu = 0\n", "page_bytes = 5000\n", 1), "give a power of two"),
        (MAP.replace("bytes = 0x100000", "bytes = -1", 1), "range[0].bytes: expected int >= 1"),
        (MAP.replace("bytes", "size", 1), "range[0]: "),
        (MAP.replace("last = 9", "last = 0"), "kernels[0].last is smaller than kernels[0].first"),
        (MAP + "[[context]]\nid = 0x55\ngpu = 0\n", "two [[context]] tables have the same id"),
        (MAP.replace("id = 0x55", f"id = {1 << 70}"), "context[0].id: expected int <= 9223"),
        (MAP.replace("last = 9", f"last = {1 << 70}"), "kernels[0].last: expected int <= 9"),
        (
            MAP.replace("gpu = 0\n", f"page_bytes = {1 << 70}\n", 1),
            "range[0].page_bytes: expected int <= 4611686018427387904",
        ),
        (MAP.replace("0x7f0000000000", f"{1 << 70}", 1), "range[0] ends after the last address"),
        (MAP.replace("0x100000", f"{1 << 70}", 1), "range[0] ends after the last address"),
        (
            f"gpus = {'[' * 101}{']' * 101}\n",
            ": this is not a map file, because it is too deeply nested",
        ),
    ],
)
def test_wrong_maps_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(UserError) as refused:
        load_map(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


def test_what_is_no_file_of_a_map(tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    os.mkfifo(path)
    with pytest.raises(UserError, match="is not a regular file; a map is a"):
        load_map(path)
    path.unlink()
    path.write_bytes(MAP.encode() + b"#\xff")
    with pytest.raises(UserError, match="is not UTF-8 text: byte 0xff at offset"):
        load_map(path)
    path.write_bytes(MAP.encode() + b"#" * (16 << 20))
    with pytest.raises(UserError, match="is larger than 16 MiB; this is not a map file"):
        load_map(path)


def test_where_a_kernel_ran(map_file: Path) -> None:
    places = load_map(map_file)
    assert places.gpu_of("kernel-3.traceg") == 0
    assert places.gpu_of("kernel-3-ctx_0x55.traceg.xz") == 1
    with pytest.raises(UserError, match=r"on which GPU kernel-10\.traceg ran"):
        places.gpu_of("kernel-10.traceg")


def test_padding_of_xz_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xz"
    text = random.Random(2).randbytes(5000)
    packed = lzma.compress(text)
    for part in (
        len(packed),
        len(packed) + 1,
        1 << 14,
    ):  # some pieces end at the border of two parts, and some contain the border
        monkeypatch.setattr(trace_files, "PACKED_PIECE", part)
        for padding in (0, 4, 3 << 14):
            path.write_bytes(packed + bytes(padding))
            assert b"".join(pieces(path)) == text
            path.write_bytes(packed + bytes(padding) + packed)
            assert b"".join(pieces(path)) == text + text
    for wrong in (bytes(4) + packed, bytes(99), packed + bytes(4) + b"no stream"):
        path.write_bytes(wrong)
        with pytest.raises(UserError, match=r"is not a sound xz file|is cut off"):
            list(pieces(path))


@pytest.mark.parametrize("packing", ["", ".xz", ".zst"])
def test_how_long_a_list_may_be(
    run: Run, tmp_path: Path, map_file: Path, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    """The limit is for the unpacked text of a list. Empty lines count, too."""
    zstandard = pytest.importorskip("zstandard")
    monkeypatch.setattr(trace_files, "MAX_LIST_BYTES", 4 << 20)
    generator = random.Random(3)
    places = (BEGIN + 4 * generator.getrandbits(18) for _ in range(100_000))
    lines = "".join(f"MemcpyHtoD,{place:#018x},4\n" for place in places)
    pack = {"": bytes, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}[packing]
    path, out = tmp_path / f"kernelslist.g{packing}", tmp_path / "out.trace"
    path.write_bytes(pack(lines.encode()))
    assert run("trace", "convert", path, out, "--map", map_file).code == 0
    path.write_bytes(pack(lines.encode() + b"\n" * (4 << 20)))
    error = error_of(run, "convert", path, out, "--map", map_file)
    assert error == f"{path} is too long for a list of kernels; give a list of at most 4 MiB"


def test_packed_files_come_in_pieces(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = random.Random(1).randbytes(1 << 20) + bytes(8 << 20)
    for name, packed in (
        ("a.xz", lzma.compress(text[: 1 << 20]) + lzma.compress(text[1 << 20 :])),
        ("a.zst", zstandard.ZstdCompressor().compress(text)),
        ("a", text),
    ):
        path = tmp_path / name
        path.write_bytes(packed)
        seen = list(pieces(path))
        assert b"".join(seen) == text
        assert name == "a.zst" or max(map(len, seen)) <= 1 << 20


def test_a_writer_that_fails_or_is_killed_leaves_no_part(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "t.trace"
    out.parent.mkdir()
    link = out.with_name(f"t.trace.part{os.getpid()}")
    link.symlink_to(tmp_path / "victim")  # older versions wrote to this name first
    words = ("jacobi", "--rows", 64, "-n", 1, "--machine", MACHINE, "--gpus", 2)
    assert run("trace", "record", *words, "-o", out).code == 0
    assert not (tmp_path / "victim").exists()
    kept = out.read_bytes()
    monkeypatch.setattr(WORKLOADS["jacobi"], "allowed_error", lambda _: -1.0)
    ran = run("trace", "record", *words, "-o", out)
    assert ran.code == 1
    assert out.read_bytes() == kept
    assert sorted(out.parent.iterdir()) == [out, link]
