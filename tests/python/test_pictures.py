"""Tests that the committed pictures are those that their scripts draw.

Each mechanism must have a picture.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlace.model.mechanism_table import ROWS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    for name in (
        "picture",
        "mechanism_pictures",
        "terminal_pictures",
        "measured_pictures",
        "updates_chart",
        "workloads_chart",
    ):
        monkeypatch.delitem(sys.modules, f"make_{name}", raising=False)


@pytest.mark.usefixtures("scripts")
def test_the_readme_has_the_picture_that_is_drawn() -> None:
    import make_picture

    for name, theme in make_picture.THEMES.items():
        file = DOCS / f"overlap-{name}.svg"
        assert file.read_text(encoding="utf-8") == make_picture.draw(theme), file.name


@pytest.mark.usefixtures("scripts")
def test_each_mechanism_has_the_picture_that_is_drawn() -> None:
    import make_mechanism_pictures

    assert list(make_mechanism_pictures.PICTURES) == [row.name for row in ROWS]
    folder = DOCS / "explanation/pictures"
    made = make_mechanism_pictures.made()
    assert {file.name for file in folder.iterdir()} == set(made)
    page = (DOCS / "explanation/mechanisms.md").read_text(encoding="utf-8")
    for name, text in made.items():
        assert (folder / name).read_text(encoding="utf-8") == text, name
        assert f"pictures/{name}" in page


@pytest.mark.usefixtures("scripts")
def test_each_terminal_has_the_picture_that_is_drawn() -> None:
    import make_terminal_pictures

    made = make_terminal_pictures.made()
    assert made
    page = (DOCS / "how-to/troubleshooting.md").read_text(encoding="utf-8")
    for name, text in made.items():
        assert (DOCS / "how-to/pictures" / name).read_text(encoding="utf-8") == text, name
        assert f"pictures/{name}" in page


@pytest.mark.usefixtures("scripts")
def test_each_chart_shows_the_measured_figures() -> None:
    import make_measured_pictures

    made = make_measured_pictures.made()
    assert {file.name for file in make_measured_pictures.PICTURES.iterdir()} == set(made)
    pages = [
        (DOCS / name).read_text(encoding="utf-8")
        for name in ("explanation/benchmarks.md", "how-to/parked-memory.md")
    ]
    for name, text in made.items():
        assert (make_measured_pictures.PICTURES / name).read_text(encoding="utf-8") == text, name
        assert any(f"measured/{name}" in page for page in pages), name


@pytest.mark.usefixtures("scripts")
def test_the_page_of_packed_updates_has_the_chart_that_is_drawn() -> None:
    import make_updates_chart

    page = (DOCS / "explanation/packed-updates.md").read_text(encoding="utf-8")
    for path, text in make_updates_chart.made().items():
        assert path.read_text(encoding="utf-8") == text, path.name
        assert f"charts/{path.name}" in page


@pytest.mark.usefixtures("scripts")
def test_the_page_of_the_simulator_has_the_chart_that_is_drawn() -> None:
    import make_workloads_chart

    page = (DOCS / "explanation/simulator.md").read_text(encoding="utf-8")
    for path, text in make_workloads_chart.made().items():
        assert path.read_text(encoding="utf-8") == text, path.name
        assert f"charts/{path.name}" in page
    with pytest.raises(ValueError, match="a ratio is"):
        make_workloads_chart.place(2.0)
