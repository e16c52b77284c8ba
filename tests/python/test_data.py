"""Tests the shipped inputs. Scripts must make the same inputs again, and independent formulas must
give the same values.
"""

from __future__ import annotations

import cmath
import gzip
import lzma
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import mmread
from scipy.sparse import csr_array

from interlace.data.graphs import load_graph

DATA = Path(__file__).parents[2] / "data"
DEBIAN, PHANTOM, SIDDON = (
    DATA / f"make_{name}.py"
    for name in ("debian12_dependencies", "shepp_logan", "siddon_projector")
)

# Each entry tests a rule of the Debian script. The rules are about fields over two lines, versions,
# qualifiers, alternatives, virtual packages, a name that no package has, a package that satisfies
# its own clause, duplicates, two versions of a package, and fields that give no edge.
INDEX = """\
Package: apple
Version: 1
Pre-Depends: core (>= 2.0)
Depends: missing | mail-agent | core, core:any (<< 9),
 banana [amd64]
Recommends: zebra

Package: zebra
Depends: nothing-has-this

Package: mailer-b
Provides: mail-agent (= 3), other
Depends: mail-agent

Package: mailer-a
Provides: mail-agent
Depends: mail-agent | core

Package: banana
Depends: virtual-core|zebra, zebra | apple

Package: core
Provides: virtual-core
Description: the last of all
 Depends: zebra

Package: core
Version: 3
Depends: apple
"""
NAMES = ["apple", "banana", "core", "mailer-a", "mailer-b", "zebra"]
EDGES = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 6), (3, 1), (5, 4)]


def script(path: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script of data/ as a user does."""
    command = [sys.executable, path, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def remade(path: Path, output: Path, *options: str) -> bool:
    """Return whether a script makes the shipped file of this name again."""
    done = script(path, *options, "--output", output)
    assert done.returncode == 0, done.stderr
    shipped = (DATA / output.name).read_bytes()
    # Compares only the unpacked text, because another version of zlib may compress the text
    # differently.
    assert shipped[:8] == output.read_bytes()[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    return gzip.decompress(shipped) == gzip.decompress(output.read_bytes())


# --- Debian -------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["plain", "gz", "xz"])
def test_debian_script_on_a_small_index(tmp_path: Path, packing: str) -> None:
    index, output, names = tmp_path / "Packages", tmp_path / "out.mtx", tmp_path / "names.txt"
    data = INDEX.encode()
    index.write_bytes(
        {"plain": data, "gz": gzip.compress(data), "xz": lzma.compress(data)}[packing]
    )
    done = script(DEBIAN, index, "--output", output, "--names", names)
    assert done.returncode == 0, done.stderr
    assert (
        "6 packages, 7 edges; clauses: 4 through a provider, 1 unresolved, 1 satisfied by the "
        "package itself"
    ) in done.stderr
    lines = output.read_text().splitlines()
    assert lines[0] == "%%MatrixMarket matrix coordinate pattern general"
    content = [line for line in lines if not line.startswith("%")]
    assert content[0] == "6 6 7"
    assert [tuple(map(int, line.split())) for line in content[1:]] == EDGES
    assert names.read_text().splitlines() == NAMES


def test_debian_bytes_depend_on_the_index_alone(tmp_path: Path) -> None:
    (tmp_path / "Packages").write_text(INDEX)
    outputs = [tmp_path / "a.mtx.gz", tmp_path / "b.mtx.gz"]
    for output in outputs:
        assert script(DEBIAN, tmp_path / "Packages", "--output", output).returncode == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    # An index with the same packages in another order must give the same edges.
    (tmp_path / "Packages").write_text("\n\n".join(reversed(INDEX.rstrip().split("\n\n"))) + "\n")
    assert script(DEBIAN, tmp_path / "Packages", "--output", outputs[1]).returncode == 0
    first, second = (load_graph(output) for output in outputs)
    assert np.array_equal(first.columns, second.columns)
    assert np.array_equal(first.offsets, second.offsets)


def test_shipped_debian_graph() -> None:
    graph = load_graph(DATA / "debian12-dependencies.mtx.gz")
    assert graph.name == "debian12-dependencies"
    assert (graph.rows, graph.edges) == (63436, 264191)
    needed_by = np.diff(graph.offsets)
    assert needed_by.max() == 21808
    assert graph.out_degree.max() == 332
    assert np.count_nonzero(graph.out_degree == 0) == 7588
    targets = np.repeat(np.arange(graph.rows), needed_by)
    assert not np.any(targets == graph.columns)  # no self-loops
    keys = targets * graph.rows + graph.columns
    assert np.all(np.diff(keys) > 0)  # no duplicates


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the index is empty"),
        (b"Version: 1\n", "line 1: the entry has no 'Package:' field"),
        (b"Package: a\n\n\nVersion: 1\n", "line 4: the entry has no 'Package:' field"),
        (b"Package: a\njust text\n", "line 2: expected 'Field: value'"),
        (b"Package: ab\nDepends: (>= 1)\n", "package ab: '(>= 1)' is not a relation"),
        (b"\xff\xfe", "is not text"),
        (gzip.compress(INDEX.encode())[:-20], "cannot be unpacked"),
        (lzma.compress(INDEX.encode())[:-20], "cannot be unpacked"),
    ],
)
def test_debian_bad_index(tmp_path: Path, content: bytes, words: str) -> None:
    index, output = tmp_path / "Packages", tmp_path / "out.mtx.gz"
    index.write_bytes(content)
    refused(script(DEBIAN, index, "--output", output), words)
    assert list(tmp_path.iterdir()) == [index]  # no incomplete file is left


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    """Check for exit code 2, and for one line of output that contains these words."""
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_bad_options(tmp_path: Path) -> None:
    refused(script(DEBIAN, tmp_path / "none"), "No such file or directory; check the path")
    refused(script(DEBIAN, tmp_path), "Is a directory")
    refused(script(PHANTOM, "--size", "0"), "argument --size: 0 is not in 1 .. 4096")
    refused(script(PHANTOM, "--output", tmp_path / "no" / "x.mtx"), "No such file or directory")
    refused(script(SIDDON, "--angles", "x"), "argument --angles: invalid int value")
    refused(script(SIDDON, "--bins", "0"), "argument --bins: 0 is not in")


# --- Phantom ------------------------------------------------------------------------------------

# centre, half axes, angle in degrees, level in Table 1 of the paper, usual level
TABLE = [
    ((0, 0), (0.69, 0.92), 0, 2, 1),
    ((0, -0.0184), (0.6624, 0.874), 0, -0.98, -0.8),
    ((0.22, 0), (0.11, 0.31), -18, -0.02, -0.2),
    ((-0.22, 0), (0.16, 0.41), 18, -0.02, -0.2),
    ((0, 0.35), (0.21, 0.25), 0, 0.01, 0.1),
    ((0, 0.1), (0.046, 0.046), 0, 0.01, 0.1),
    ((0, -0.1), (0.046, 0.046), 0, 0.01, 0.1),
    ((-0.08, -0.605), (0.046, 0.023), 0, 0.01, 0.1),
    ((0, -0.605), (0.023, 0.023), 0, 0.01, 0.1),
    ((0.06, -0.605), (0.023, 0.046), 0, 0.01, 0.1),
]


def dense(path: Path) -> NDArray[np.float64]:
    return np.asarray(mmread(path), dtype=np.float64)


def point_value(x: float, y: float, level: int) -> float:
    """Return the phantom's level at a point, computed with quadratic forms. The function turns the
    ellipses with complex numbers.
    """
    total = 0.0
    for (cx, cy), (a, b), degrees, *levels in TABLE:
        z = complex(x - cx, y - cy) * cmath.rect(1, -math.radians(degrees))
        if (z.real / a) ** 2 + (z.imag / b) ** 2 <= 1:
            total += levels[level]
    return total


@pytest.mark.parametrize("size", [64, 256])
def test_phantom_is_remade(tmp_path: Path, size: int) -> None:
    name = f"shepp-logan-{size}.mtx.gz"
    assert remade(PHANTOM, tmp_path / name, "--size", str(size))


def test_phantom_values() -> None:
    image = dense(DATA / "shepp-logan-256.mtx.gz")
    assert image.shape == (256, 256)
    generator = np.random.default_rng(1)
    for row, column in generator.integers(0, 256, (4000, 2)).tolist():
        x, y = (column + 0.5) / 128 - 1, 1 - (row + 0.5) / 128
        assert image[row, column] == pytest.approx(point_value(x, y, 1), abs=1e-9)
    # Except for pixels at edges, the total is the sum of the ellipses' areas times their levels.
    mass = sum(math.pi * a * b * levels[1] for _, (a, b), _, *levels in TABLE)
    assert image.sum() * (2 / 256) ** 2 == pytest.approx(mass, rel=2e-3)
    # The head must be upright: the small round ellipse is at the bottom, and the large one is at
    # the top.
    assert image[int(128 * 1.605), 128] == pytest.approx(0.3)
    assert image[int(128 * 0.395), 128] == pytest.approx(0.2)
    assert sorted(set(image.ravel().tolist())) == [0, 0.1, 0.2, 0.3, 0.4, 1]


def test_phantom_of_the_paper(tmp_path: Path) -> None:
    output = tmp_path / "x.mtx"
    done = script(PHANTOM, "--size", "48", "--contrast", "original", "--output", output)
    assert done.returncode == 0, done.stderr
    image = dense(output)
    for row in range(48):
        for column in range(48):
            x, y = (column + 0.5) / 24 - 1, 1 - (row + 0.5) / 24
            assert image[row, column] == pytest.approx(point_value(x, y, 0), abs=1e-9)


# --- Projector ----------------------------------------------------------------------------------

SIZE, ANGLES, BINS = 64, 45, 92


@pytest.fixture(scope="module")
def projector() -> csr_array:
    return csr_array(mmread(DATA / "siddon-64.mtx.gz"))


def chord(ray: int, low: tuple[float, float], side: float, bins: int = BINS) -> float:
    """Return the length of a ray in the square with the lower left corner `low`. (The method is
    that of Liang and Barsky.)
    """
    turn = math.radians(4 * (ray // bins))
    distance = ray % bins - (bins - 1) / 2
    start = (distance * math.cos(turn), distance * math.sin(turn))
    begin, end = -math.inf, math.inf
    for position, slope, edge in zip(start, (-math.sin(turn), math.cos(turn)), low, strict=True):
        if slope == 0:
            if not edge <= position < edge + side:
                return 0.0
            continue
        ends = sorted(((edge - position) / slope, (edge + side - position) / slope))
        begin, end = max(begin, ends[0]), min(end, ends[1])
    return max(0.0, end - begin)


def test_projector_is_remade(tmp_path: Path) -> None:
    assert remade(SIDDON, tmp_path / "siddon-64.mtx.gz")


def test_projector_rows_are_chords_of_the_image(projector: csr_array) -> None:
    assert projector.shape == (ANGLES * BINS, SIZE * SIZE)
    sums = np.asarray(projector.sum(axis=1)).ravel()
    exact = [chord(ray, (-SIZE / 2, -SIZE / 2), SIZE) for ray in range(ANGLES * BINS)]
    # A ray crosses at most 128 pixels, and the length in each pixel is rounded.
    assert np.abs(sums - exact).max() < 128 * 0.5e-7
    assert projector.data.min() > 0
    assert projector.data.max() <= math.sqrt(2)


def test_projector_entries_are_chords_of_pixels(projector: csr_array) -> None:
    entries = projector.toarray()
    generator = np.random.default_rng(2)
    for ray in generator.integers(0, ANGLES * BINS, 12).tolist():
        for pixel in range(SIZE * SIZE):
            row, column = divmod(pixel, SIZE)
            low = (column - SIZE / 2, SIZE / 2 - 1 - row)
            assert entries[ray, pixel] == pytest.approx(chord(ray, low, 1), abs=0.51e-7)


def test_projector_sum_rule(projector: csr_array) -> None:
    # The lengths of rays that are 1 apart, summed over one pixel, are the area of the pixel:
    # exactly at angle 0, and nearly at other angles. The lengths summed over all pixels are the
    # area of the image at each angle.
    by_angle = [projector[a * BINS : (a + 1) * BINS] for a in range(ANGLES)]
    assert np.array_equal(np.asarray(by_angle[0].sum(axis=0)).ravel(), np.ones(SIZE * SIZE))
    for part in by_angle:
        assert part.sum() == pytest.approx(SIZE * SIZE, rel=2e-3)
    mean = np.asarray(projector.sum(axis=0)).ravel() / ANGLES
    assert mean.mean() == pytest.approx(1, rel=1e-3)
    assert np.abs(mean - 1).max() < 0.15


def test_projector_times_phantom_is_the_sinogram(projector: csr_array) -> None:
    image = dense(DATA / "shepp-logan-64.mtx.gz")
    sinogram = projector @ image.ravel()
    exact = np.zeros(ANGLES * BINS)
    half = SIZE / 2
    for ray in range(ANGLES * BINS):
        turn, distance = math.radians(4 * (ray // BINS)), ray % BINS - (BINS - 1) / 2
        for (cx, cy), (a, b), degrees, *levels in TABLE:
            own = turn - math.radians(degrees)
            width = (a * math.cos(own)) ** 2 + (b * math.sin(own)) ** 2
            offset = distance / half - cx * math.cos(turn) - cy * math.sin(turn)
            if offset**2 < width:
                length = 2 * a * b * math.sqrt(width - offset**2) / width
                exact[ray] += levels[1] * length * half
    assert np.abs(sinogram - exact).mean() < 0.03 * exact.max()


@pytest.mark.parametrize(("size", "angles", "bins"), [(1, 1, 1), (3, 4, 5), (8, 2, 12), (5, 7, 3)])
def test_projector_of_other_sizes(tmp_path: Path, size: int, angles: int, bins: int) -> None:
    output = tmp_path / "x.mtx"
    options = [f"--size={size}", f"--angles={angles}", f"--bins={bins}", f"--output={output}"]
    done = script(SIDDON, *options)
    assert done.returncode == 0, done.stderr
    matrix = csr_array(mmread(output))
    assert matrix.shape == (angles * bins, size * size)
    # At angle 0, rays run along y, so a ray inside the image is as long as a side of the image.
    inside = np.abs(np.arange(bins) - (bins - 1) / 2) < size / 2
    assert np.array_equal(np.asarray(matrix[:bins].sum(axis=1)).ravel(), inside * float(size))


def test_readme_states_the_files() -> None:
    readme = (DATA / "README.md").read_text()
    shipped = sorted(DATA.glob("*.mtx.gz"))
    assert shipped
    for file in shipped:
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{file.name}`"))
        size, shape, nnz = (cell.strip() for cell in row.split("|")[2:5])
        matrix = mmread(file)
        assert size == str(file.stat().st_size)
        assert shape == "{} x {}".format(*matrix.shape)
        assert nnz == ("dense" if isinstance(matrix, np.ndarray) else str(matrix.nnz))
    assert sum(line.startswith("| `") for line in readme.splitlines()) == len(shipped)
