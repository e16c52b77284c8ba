"""Tests that an untracked kernel costs nothing: its machine code equals that of its twin.

tests/gpu/sass_twins.cu has pairs of kernels `model_x` and `twin_x`. The twin is written by hand.
Both are compiled for sm_90 and disassembled. Each opcode (with its modifiers) must occur equally
often in both. NOP does not count, because it only pads the end of a kernel.

Other tests examine further kernels. A kernel that measures the rate of an operation must have
exactly as many of these operations as the measurement counts. If a kernel states `blocks_at_once`,
there must be enough registers for this number of blocks, with every mechanism. Kernels that are
launched early must not load anything before they have waited.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "gpu" / "sass_twins.cu"
PAIRS = ("axpy", "row_sum", "transpose", "block_sum")

SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


def find_nvcc() -> str | None:
    """Return the nvcc that the build uses."""
    installed = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return os.environ.get("CUDACXX") or installed


def find_nvdisasm() -> str | None:
    """Return the disassembler of the system, of the toolkit, or of a package from PyPI."""
    found = shutil.which("nvdisasm") or shutil.which("/usr/local/cuda/bin/nvdisasm")
    if found:
        return found
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for tool in sorted(Path(folder).glob("**/bin/nvdisasm")):
            if os.access(tool, os.X_OK):
                return str(tool)
    return None


def opcodes(listing: str) -> dict[str, Counter[str]]:
    """Return how often each opcode occurs in each kernel of a listing of nvdisasm."""
    kernels: dict[str, Counter[str]] = {}
    current: Counter[str] | None = None
    for line in listing.splitlines():
        if match := SECTION.match(line):
            current = kernels.setdefault(match[1], Counter())
        elif (match := INSTRUCTION.match(line)) and current is not None and match[1] != "NOP":
            current[match[1]] += 1
    return kernels


def test_opcodes_are_counted() -> None:
    listing = """
	.section	.text.model_x,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!P1 LDG.E.CONSTANT R0, desc[UR4][R2.64] ;
        /*0030*/              @UP0 LDG.E.CONSTANT R0, desc[UR4][R2.64] ;
        /*0040*/                   NOP;
	.section	.text.twin_x,"ax",@progbits
        /*0000*/                   EXIT ;
"""
    assert opcodes(listing) == {
        "model_x": Counter({"LDC": 1, "EXIT": 1, "LDG.E.CONSTANT": 2}),
        "twin_x": Counter({"EXIT": 1}),
    }


def compiled(source: Path, folder: Path, arch: str = "sm_90") -> tuple[Path, str]:
    """Return the machine code of a source file, and the assembler's report on its kernels.

    Each source file is compiled only once, although several tests use it.
    """
    text = source.read_text("utf-8")
    if (text, arch) not in COMPILATIONS:
        COMPILATIONS[text, arch] = _compiled(source, folder, arch)
    return COMPILATIONS[text, arch]


COMPILATIONS: dict[tuple[str, str], tuple[Path, str]] = {}


def _compiled(source: Path, folder: Path, arch: str) -> tuple[Path, str]:
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc (in CUDACXX, PATH or /usr/local/cuda/bin)")
    cubin = folder / f"{source.stem}.cubin"
    options = ["-std=c++20", "-O3", f"-arch={arch}", "--expt-relaxed-constexpr", "-Xptxas", "-v"]
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    words = [nvcc, *options, *folders, "-cubin", "-o", cubin, source]
    return cubin, subprocess.run(words, check=True, capture_output=True, text=True).stderr


def ptx_of(source: Path, folder: Path, arch: str) -> str:
    """Return the PTX of a source file."""
    ptx = folder / f"{source.stem}.ptx"
    words = [find_nvcc(), "-std=c++20", f"-arch={arch}", "--expt-relaxed-constexpr"]
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    subprocess.run([*words, *folders, "-ptx", "-o", ptx, source], check=True)
    return ptx.read_text("utf-8")


def listing_of(source: Path, folder: Path, arch: str = "sm_90") -> str:
    """Return the machine code of a source file as nvdisasm prints it."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("no nvdisasm (of the CUDA toolkit, or the package nvidia-cuda-nvdisasm)")
    cubin, _ = compiled(source, folder, arch)
    run = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True)
    return run.stdout


def loads_before_wait(listing: str) -> dict[str, list[str]]:
    """Return, for each kernel that waits for earlier work (ACQBULK), its loads before the wait."""
    found: dict[str, list[str]] = {}
    name = ""
    loads: list[str] = []
    for line in listing.splitlines():
        if match := SECTION.match(line):
            name, loads = match[1], []
        elif match := INSTRUCTION.match(line):
            if match[1] == "ACQBULK":
                found.setdefault(name, loads.copy())
            elif re.match(r"LDG?\.|LDG?$|ATOM|RED", match[1]):
                loads.append(line.strip())
    return found


def test_loads_before_a_wait_are_seen() -> None:
    listing = """
	.section	.text.early,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.64.CONSTANT R4, desc[UR6][R4.64] ;
        /*0020*/                   ACQBULK ;
        /*0030*/                   LDG.E R0, desc[UR4][R2.64] ;
	.section	.text.plain,"ax",@progbits
        /*0000*/                   LDG.E R0, desc[UR4][R2.64] ;
"""
    (loads,) = loads_before_wait(listing).values()
    assert [load.split()[1] for load in loads] == ["LDG.E.64.CONSTANT"]


def on_gpus(workload: str, folder: Path) -> Path:
    """Return the source file that the build makes from the header of a workload
    (cmake/InterlaceWorkloads.cmake).
    """
    source = folder / f"{workload}_on_gpus.cu"
    lines = [
        f'#include "workload/{workload}.hpp"',
        '#include "interlace/run/on_gpus.hpp"',
        f"INTERLACE_RUN_ON_GPUS(interlace::workload::{workload}_problem);",
        "",
    ]
    source.write_text("\n".join(lines), "utf-8")
    return source


EARLY = re.compile(r"run_grid|run_ranged|run_packing|exchange_kernel")


@pytest.mark.parametrize("source", ["pagerank", "sssp", "jacobi", "ct", "exchange"])
def test_early_kernels_load_nothing_before_they_have_waited(source: str, tmp_path: Path) -> None:
    exchange = ROOT / "src/cuda/region/exchange.cu"
    listing = listing_of(exchange if source == "exchange" else on_gpus(source, tmp_path), tmp_path)
    found = loads_before_wait(listing)
    assert found
    assert set(found) == {name for name in opcodes(listing) if EARLY.search(name)}
    assert not any(found.values())


def test_gpus_of_8_0_run_what_is_guarded(tmp_path: Path) -> None:
    """Check that sources with instructions of compute capability 9.0 also compile for 8.0, where
    these instructions are left out.
    """
    source = tmp_path / "guarded.cu"
    parts = ("agent", "exchange")
    lines = [f'#include "{ROOT}/src/cuda/region/{part}.cu"' for part in parts]
    source.write_text("\n".join([*lines, ""]), "utf-8")
    found = opcodes(listing_of(source, tmp_path, "sm_80"))
    names = " ".join(found)
    assert all(kernel in names for kernel in ("bulk_agent_kernel", "exchange_kernel"))
    later = re.compile(r"ACQBULK|UBLK|SYNCS|PREEXIT|FENCE")
    assert not {op for mix in found.values() for op in mix if later.match(op)}
    bulk = next(mix for name, mix in found.items() if "bulk_agent_kernel" in name)
    assert set(bulk) <= {"BPT.TRAP", "EXIT", "BRA", "MOV", "IMAD.MOV.U32"}


FULL = """
#include "interlace/kernel_device.cuh"
struct full {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t blocks_at_once = 8;
  interlace::local<float> to;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) { lane.store(to, lane.global_index(), 1); });
  }
};
template __global__ void interlace::device::run_grid<interlace::device::untracked, full>(
    const __grid_constant__ full);
"""


def test_a_multiprocessor_of_fewer_threads_holds_fewer_blocks(tmp_path: Path) -> None:
    """Check that, for GPUs with 1536 threads per multiprocessor instead of 2048, ptxas does not
    warn, and the PTX has two bounds.
    """
    source = tmp_path / "full.cu"
    source.write_text(FULL, "utf-8")
    _, said = compiled(source, tmp_path, "sm_89")
    assert "Used " in said
    assert "minnctapersm" not in said
    for arch, blocks in (("compute_89", 6), ("compute_90", 8)):
        assert f".minnctapersm {blocks}" in ptx_of(source, tmp_path, arch)


def test_registers_last_for_all_warps(tmp_path: Path) -> None:
    _, said = compiled(on_gpus("jacobi", tmp_path), tmp_path)
    entries = said.split("Compiling entry function")[1:]
    used = [
        int(re.findall(r"Used (\d+) registers", entry)[0])
        for entry in entries
        if "jacobi_update" in entry
    ]
    # There are four kinds of kernels: untracked as a whole, untracked in ranges, inline, and
    # tracked.
    assert len(used) >= 4
    assert max(used) <= 65536 // 2048


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    return opcodes(listing_of(SOURCE, tmp_path_factory.mktemp("sass")))


@pytest.mark.parametrize("name", PAIRS)
def test_model_equals_twin(kernels: dict[str, Counter[str]], name: str) -> None:
    model, twin = kernels[f"model_{name}"], kernels[f"twin_{name}"]
    assert sum(twin.values()) > 10
    different = {op: (model[op], twin[op]) for op in model | twin if model[op] != twin[op]}
    assert not different, f"opcode: (model, twin) {different}"


def test_all_pairs_are_compared(kernels: dict[str, Counter[str]]) -> None:
    assert set(kernels) == {f"{side}_{name}" for side in ("model", "twin") for name in PAIRS}


def test_every_kernel_does_what_it_is_for(kernels: dict[str, Counter[str]]) -> None:
    def total(name: str, prefix: str) -> int:
        return sum(n for op, n in kernels[name].items() if op.startswith(prefix))

    for name, mix in kernels.items():
        assert not any(op.startswith(("LDL", "STL")) for op in mix), f"{name} uses local memory"
    # The kernels axpy and row_sum have no barrier. Their loads use the read-only path. The kernel
    # with a tile has one barrier.
    for name in ("model_axpy", "model_row_sum"):
        assert total(name, "BAR") == 0
        assert total(name, "WARPSYNC") == 0
    assert total("model_row_sum", "LDG.E.CONSTANT") > 1
    assert total("model_row_sum", "LDG.E.64.CONSTANT") == 2
    assert total("model_transpose", "BAR") == 1
    assert total("model_block_sum", "SHFL.BFLY") == 5


# For each kernel, maps prefixes of opcodes to the number of operations that the rate is computed
# from. The kernel has a few more of these opcodes, for the loop and for the sum at the end.
RATE_MIXES = {
    "multiply_add_f32": {("FFMA",): 256},
    "multiply_add_f64": {("DFMA",): 256},
    "add_or_xor": {("LOP3",): 128, ("IADD", "VIADD", "IMAD.IADD"): 128},
    "multiply_add_u32": {("IMAD",): 256},
    "any_u32": {("IMAD",): 128, ("LOP3",): 64, ("IADD", "VIADD"): 64},
    "f32_and_u32": {("FFMA",): 128, ("LOP3",): 64, ("IADD", "VIADD"): 64},
}


def test_rates_count_the_instructions_that_there_are(tmp_path: Path) -> None:
    source = tmp_path / "rates.cu"
    lines = ['#include "cuda/rate_kernels.cuh"', "namespace interlace::cuda::rate {"]
    for name in RATE_MIXES:
        lines.append(
            f"template __global__ void compute<{name}>(unsigned int, {name}::type, {name}::type, "
            f"{name}::type*);"
        )
    source.write_text("\n".join([*lines, "}", ""]))
    found = opcodes(listing_of(source, tmp_path))
    assert len(found) == len(RATE_MIXES)
    for name, wanted in RATE_MIXES.items():
        mix = next(mix for kernel, mix in found.items() if f"{len(name)}{name}E" in kernel)
        for prefixes, least in wanted.items():
            counted = sum(n for op, n in mix.items() if op.startswith(prefixes))
            assert least <= counted <= least + 24, (name, prefixes, mix)
        assert 256 <= sum(mix.values()) <= 320, (name, mix)


# For each chain of a calibration, maps prefixes of opcodes to the number of opcodes that have one
# of these prefixes. All of these opcodes except a few are in the loop.
CHAINS = {
    "add": {("LOP3",): 32, ("IADD", "VIADD", "IMAD.IADD"): 32},
    "imad": {("IMAD",): 64},
    "lop3": {("LOP3",): 64},
    "min": {("VIMNMX",): 64},
    "min3": {("VIMNMX3",): 64},
    "imad_hi": {("IMAD.HI",): 64},
    "imad_wide": {("IMAD.WIDE",): 64},
    "f2i": {("F2I",): 64},
    "ffma": {("FFMA",): 64},
    "dfma": {("DFMA",): 64},
    "mufu": {("MUFU.EX2",): 64},
    "shuffle": {("SHFL.BFLY",): 64},
    "reduce": {("REDUX.MIN",): 64, ("MOV", "IMAD.U32", "IMAD.MOV"): 64},
    "ballot": {("VOTE.ANY",): 64, ("ISETP",): 64},
    "barrier": {("BAR.SYNC",): 16},
    "divide_u32": {("MUFU.RCP",): 8, ("IMAD.HI.U32",): 16},
    "divide_f32": {("MUFU.RCP",): 8, ("FCHK",): 8},
}
# The memories of the load loops, in the order of loaded_from. Each memory stands with the opcode of
# a load from this memory.
LOOPS = (("shared", "LDS"), ("l1", "LDG.E.CONSTANT"), ("l2", "LDG.E.STRONG.GPU"))
SMALL = (0, 50, 1000)
# Maps the number of registers of a gather kernel to the number of values that it keeps
# (multiprocessor.cu).
GATHERS = {32: 13, 64: 50, 128: 112}


@pytest.fixture(scope="module")
def multiprocessor(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the machine code of the kernels of a calibration, and the assembler's report."""
    folder = tmp_path_factory.mktemp("multiprocessor")
    source = folder / "multiprocessor.cu"
    numbers = "unsigned int, unsigned int"
    lines = ['#include "bench/multiprocessor_kernels.cuh"']
    lines.append("namespace interlace::bench::multiprocessor {")
    for name in CHAINS:
        step = f"step_{name}"
        lines.append(
            f"template __global__ void chain<{step}>(unsigned int, {step}::type, {step}::type, "
            f"{step}::type*, timing);"
        )
    for memory, _ in LOOPS:
        lines += [
            f"template __global__ void loop<loaded_from::{memory}, {unroll}>(const float*, "
            f"{numbers}, float*, timing);"
            for unroll in (1, 2, 4)
        ]
    lines += [
        f"template __global__ void small_kernel<{count}, 0>(float, float, float*);"
        for count in SMALL
    ]
    lines += [
        f"template __global__ void gather<{registers}, {held}>(const float*, "
        "const unsigned int*, unsigned int, const float*, float*);"
        for registers, held in GATHERS.items()
    ]
    source.write_text("\n".join([*lines, "}", ""]), "utf-8")
    return listing_of(source, folder), compiled(source, folder)[1]


def loops_of(listing: str) -> dict[str, list[Counter[str]]]:
    """Return, for each kernel, the opcodes between each backward branch and its target."""
    found: dict[str, list[Counter[str]]] = {}
    places: dict[str, int] = {}
    code: list[str] = []
    name = ""
    for line in listing.splitlines():
        if match := SECTION.match(line):
            name, places, code = match[1], {}, []
        elif match := re.match(r"^(\.L_x_\d+):", line):
            places[match[1]] = len(code)
        elif (match := INSTRUCTION.match(line)) and name:
            code.append(match[1])
            back = re.search(r"`\((\.L_x_\d+)\)", line)
            if match[1] == "BRA" and back and back[1] in places:
                found.setdefault(name, []).append(Counter(code[places[back[1]] :]))
    return found


def total(mix: Counter[str], prefixes: str | tuple[str, ...]) -> int:
    return sum(n for op, n in mix.items() if op.startswith(prefixes))


def test_chains_have_the_operations_that_are_measured(multiprocessor: tuple[str, str]) -> None:
    found = loops_of(multiprocessor[0])
    for name, wanted in CHAINS.items():
        symbol = f"{len('step_' + name)}step_{name}E"
        loops = next(loops for kernel, loops in found.items() if symbol in kernel)
        chain = max(loops, key=lambda mix: sum(mix.values()))
        for prefixes, least in wanted.items():
            assert least <= total(chain, prefixes) <= least + 4, (name, prefixes, chain)
        if not name.startswith("divide"):
            assert sum(chain.values()) <= sum(wanted.values()) + 8, (name, chain)


def test_loops_have_as_many_loads_in_flight_as_they_are_unrolled(
    multiprocessor: tuple[str, str],
) -> None:
    found = loops_of(multiprocessor[0])
    for number, (_, load) in enumerate(LOOPS):
        for unroll in (1, 2, 4):
            symbol = f"4loopILNS0_11loaded_fromE{number}ELj{unroll}E"
            loops = next(loops for kernel, loops in found.items() if symbol in kernel)
            adding = [mix for mix in loops if total(mix, "FADD") and not total(mix, "BAR")]
            assert max(total(mix, load) for mix in adding) == unroll, (symbol, adding)


def test_small_kernels_are_straight_and_gathers_hold_their_registers(
    multiprocessor: tuple[str, str],
) -> None:
    listing, report = multiprocessor
    mixes = opcodes(listing)
    for count in SMALL:
        mix = next(m for k, m in mixes.items() if f"small_kernelILj{count}E" in k)
        assert mix["FFMA"] == count
        assert sum(mix.values()) <= count + 16
    entries = report.split("Compiling entry function")[1:]
    for registers in GATHERS:
        entry = next(one for one in entries if f"gatherILj{registers}E" in one)
        used = int(re.findall(r"Used (\d+) registers", entry)[0])
        assert registers - 8 < used <= registers
        assert "0 bytes spill stores" in entry


COMPILED = re.compile(r"compiled_as<([^{]*)>\{(\d+), (\d+)\}")
GRID = re.compile(r"run_grid<untracked, (.*?) ?>\(")
GRANULE = 8  # the number of registers of a thread is a multiple of this


def plain_name(text: str) -> str:
    """Return the name of a kernel, in a form that headers and demangled symbols share."""
    name = re.sub(r"interlace::(device::|workload::)?|workload::|\s", "", text)
    return re.sub(r"(\d)u\b", r"\1", name)


def demangled(symbols: list[str]) -> list[str]:
    tool = shutil.which("c++filt")
    if tool is None:
        pytest.skip("no c++filt")
    run = subprocess.run(
        [tool], input="\n".join(symbols), check=True, capture_output=True, text=True
    )
    return run.stdout.splitlines()


# Other tests compile the kernels of these workloads anyway. With INTERLACE_TEST_KERNELS=all, pytest
# tests the kernels of all workloads.
SOME = ("pagerank", "sssp", "jacobi", "ct")
ALL = (*SOME, "als", "diffusion", "eqwp", "hit")


@pytest.mark.parametrize(
    "workload", ALL if os.environ.get("INTERLACE_TEST_KERNELS") == "all" else SOME
)
def test_headers_know_what_the_compiler_makes_of_kernels(workload: str, tmp_path: Path) -> None:
    """Check that simulated kernels have the registers and the code size of compiled kernels."""
    source = on_gpus(workload, tmp_path)
    listing = listing_of(source, tmp_path)
    entries = compiled(source, tmp_path)[1].split("Compiling entry function")[1:]
    registers = {
        re.findall(r"'(\w+)'", entry)[0]: int(re.findall(r"Used (\d+) registers", entry)[0])
        for entry in entries
    }
    mixes = opcodes(listing)
    names = list(registers)
    found: dict[str, tuple[int, int]] = {}
    for symbol, name in zip(names, demangled(names), strict=True):
        if match := GRID.search(name.replace("interlace::device::", "")):
            found[plain_name(match[1])] = (registers[symbol], sum(mixes[symbol].values()))
    header = " ".join((ROOT / f"src/workload/{workload}.hpp").read_text("utf-8").split())
    stated = {
        plain_name(name): (int(used), int(code)) for name, used, code in COMPILED.findall(header)
    }
    assert stated
    assert stated.keys() <= found.keys()
    for name, (used, code) in stated.items():
        assert -(-used // GRANULE) == -(-found[name][0] // GRANULE), name
        assert code == pytest.approx(found[name][1], rel=0.1), name


@pytest.mark.parametrize("workload", ["pagerank", "sssp"])
def test_headers_know_how_loops_over_edges_are_unrolled(workload: str, tmp_path: Path) -> None:
    """Check that loops of edge_units.hpp have as many loads in flight as this header says."""
    header = (ROOT / "src/workload/shared/edge_units.hpp").read_text("utf-8")
    stated = {
        name: int(re.findall(rf"\b{name} = (\d+);", header)[0])
        for name in ("unroll", "short_unroll")
    }
    loops = next(
        loops
        for kernel, loops in loops_of(listing_of(on_gpus(workload, tmp_path), tmp_path)).items()
        if "run_gridINS0_9untracked" in kernel and "edge_units" in kernel
    )
    # Loops over the edges of a block write to shared memory. Loops over short rows read from shared
    # memory.
    inner = [mix for mix in loops if not total(mix, "BAR") and not total(mix, ("SHFL", "REDUX"))]
    assert max(total(mix, "STS") for mix in inner if total(mix, "LDG")) == stated["unroll"]
    short = max(
        (mix for mix in inner if not total(mix, ("LDG", "STS"))), key=lambda mix: total(mix, "LDS")
    )
    assert total(short, "LDS") == stated["short_unroll"]
    if workload == "sssp":  # one operation finds the minimum of three values
        assert total(short, "VIMNMX3") == stated["short_unroll"] // 2
