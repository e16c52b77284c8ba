"""Tests the results page and the timelines."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fake_core import Fake
from interlace.model.mechanism_table import INFINITE_BANDWIDTH, INLINE, PROACT_HARDWARE, SPLIT
from interlace.model.mechanisms import BOUND, DEFAULTS
from interlace.model.run import Event
from interlace.show.timeline import lanes
from study_helpers import MACHINE, Run, study_of

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """The contents of a page. Tags without a match are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.data = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            if len(data) < 1e6:
                self.data = self.data or data
        elif self._open and self._open[-1] != "style":
            self.text.append(data)

    @property
    def figures(self) -> dict[str, Any]:
        return {figure["id"]: figure for figure in json.loads(self.data)}

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(run: Run, tmp_path: Path, *words: object) -> Page:
    out = tmp_path / "page.html"
    ran = run(*words, "--html", out)
    assert ran.code == 0, ran.err
    return Page(out.read_text())


@pytest.mark.usefixtures("core")
def test_the_page_of_a_simulated_study(run: Run, graph: Path, tmp_path: Path) -> None:
    page = page_of(run, tmp_path, *study_of(graph))
    timelines = [f"timeline-{n}" for n in range(len(DEFAULTS))]
    assert list(page.figures) == ["speedup", "scaling", "wire", "overlap", *timelines]
    ids = [attributes.get("id") for _, attributes in page.tags]
    for key in page.figures:
        assert ids.count(key) == 1
    for word in (
        "simulated", "pagerank on 4x-volta-nvlink2", "forty: 40 vertices, 117 edges", "Command",
        "interlace study pagerank --data", "Version", "Date", "Timeline on 4 GPUs",
        "Configurations that were tried and were slower (4)", "opportunity", "captured",
    ):  # fmt: skip
        assert word in page.words, word
    assert "derived" not in json.dumps(page.figures)
    rows = [tag for tag, _ in page.tags if tag == "tr"]
    assert len(rows) == 1 + (1 + 2 * len(DEFAULTS)) + 1 + 4


@pytest.mark.usefixtures("core")
def test_the_page_needs_nothing_else(run: Run, graph: Path, tmp_path: Path) -> None:
    page = page_of(run, tmp_path, *study_of(graph))
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe")
        assert not {"src", "href"} & set(attributes), (tag, attributes)
    text = (tmp_path / "page.html").read_text()
    assert "Plotly" in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.usefixtures("core")
def test_the_charts_show_the_rows(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    page = page_of(run, tmp_path, *study_of(graph, "--json", out))
    rows = {(r["gpus"], r["mechanism"]): r for r in json.loads(out.read_text())["rows"]}
    names = [name for name in DEFAULTS if name != BOUND]
    speedup = {trace["name"]: trace for trace in page.figures["speedup"]["data"]}
    assert list(speedup) == [*names, "opportunity"]
    for name in names:
        assert speedup[name]["x"] == ["2 GPUs", "4 GPUs"]
        assert speedup[name]["y"] == [rows[gpus, name]["speedup"] for gpus in (2, 4)]
    assert speedup["opportunity"]["y"] == [rows[g, INLINE]["opportunity"] for g in (2, 4)]
    scaling = {trace["name"]: trace for trace in page.figures["scaling"]["data"]}
    assert list(scaling) == ["linear", *names, "opportunity"]
    assert scaling[INLINE]["x"] == [1, 2, 4]
    assert scaling[INLINE]["y"][0] == 1
    wire = {trace["name"]: trace for trace in page.figures["wire"]["data"]}
    assert list(wire) == ["useful", "protocol", "wasted"]
    assert wire["useful"]["y"][-1] == "proact-hardware, 4 GPUs "
    useful = rows[4, PROACT_HARDWARE]["wire"]["useful"]
    assert wire["useful"]["x"][-1] == pytest.approx(useful / 1e3)
    assert "(kB)" in page.figures["wire"]["layout"]["xaxis"]["title"]["text"]
    overlap = {trace["name"]: trace for trace in page.figures["overlap"]["data"]}
    assert overlap[INLINE]["y"][-1] == pytest.approx(100 * rows[4, INLINE]["overlap"])


@pytest.mark.usefixtures("cuda")
def test_a_measured_page_marks_what_is_derived(run: Run, graph: Path, tmp_path: Path) -> None:
    page = page_of(run, tmp_path, "study", "pagerank", "--data", graph)
    names = [trace["name"] for trace in page.figures["speedup"]["data"]]
    assert names[-1] == "opportunity (derived)"
    for word in ("measured", "infinite-bandwidth*", "* marks derived values", "580.1, CUDA 13.0"):
        assert word in page.words, word


@pytest.mark.usefixtures("core")
def test_a_page_of_one_gpu(run: Run, graph: Path, tmp_path: Path) -> None:
    page = page_of(run, tmp_path, *study_of(graph, "--gpus", 1))
    assert list(page.figures) == ["timeline-0"]
    assert "it sends nothing" in page.words


@pytest.mark.usefixtures("core")
def test_a_page_without_the_bound(run: Run, graph: Path, tmp_path: Path) -> None:
    page = page_of(run, tmp_path, *study_of(graph, "--mechanisms", "inline,bulk-copy"))
    assert list(page.figures)[:3] == ["speedup", "scaling", "wire"]
    assert "overlap" not in page.figures
    page = page_of(run, tmp_path, *study_of(graph, "--mechanisms", INFINITE_BANDWIDTH))
    assert "times as fast as one" in page.words


@pytest.mark.usefixtures("core")
def test_names_cannot_break_the_page(run: Run, graph: Path, tmp_path: Path) -> None:
    odd = tmp_path / "</script><b>&amp;.mtx.gz".replace("/", "_")
    odd.write_bytes(graph.read_bytes())
    page = page_of(run, tmp_path, *study_of(odd))
    assert "<_script><b>&amp;" in page.words
    assert "b" not in [tag for tag, _ in page.tags]
    text = (tmp_path / "page.html").read_text()
    data = re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    json.loads(data[1])


def test_many_events_are_cut(run: Run, core: Fake, graph: Path, tmp_path: Path) -> None:
    whole = core.run_pagerank

    def longer(*arguments: Any, **named: Any) -> dict[str, Any]:
        made = whole(*arguments, **named)
        made["timeline"] = [
            {"device": 0, "track": "copy", "name": "x", "start_s": n / 1e6, "end_s": (n + 2) / 1e6}
            for n in range(4000)
        ]
        return made

    core.run_pagerank = longer  # type: ignore[method-assign]
    page = page_of(run, tmp_path, *study_of(graph, "--gpus", 1))
    assert "The first 1500 of 4000 events." in page.words
    assert len(page.figures["timeline-0"]["data"][0]["x"]) == 1500


# --- timelines ------------------------------------------------------------------------------------


def test_lanes_do_not_overlap() -> None:
    events = [
        Event(0, "copy", "a", 0, 4),
        Event(0, "copy", "b", 1, 2),
        Event(0, "copy", "c", 2, 3),
        Event(0, "copy", "d", 1, 5),
        Event(0, "odd", "e", 0, 1),
        Event(0, "kernel", "f", 0, 1),
        Event(0, "kernel", "g", 1, 2),
    ]
    found = {lane: [event.name for event in own] for lane, own in lanes(events).items()}
    assert found == {
        "kernel": ["f", "g"],
        "copy": ["a"],
        "copy 2": ["b", "c"],
        "copy 3": ["d"],
        "odd": ["e"],
    }


@pytest.mark.usefixtures("core")
def test_the_trace_file(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    assert run(*study_of(graph, "--timeline", out, "--gpus", "2,4")).code == 0
    trace = json.loads(out.read_text())
    assert trace["otherData"]["gpus"] == 4
    assert trace["otherData"]["machine"] == MACHINE
    events = trace["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(names.values())[:5] == [
        *(f"bulk-copy: GPU {n}" for n in range(4)),
        next(name for name in names.values() if name.startswith(SPLIT)),
    ]
    assert len(names) == 4 * len(DEFAULTS)
    assert "polling (64 KiB, 4096 threads): GPU 0" in names.values()
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X"}
    ends: dict[tuple[int, int], float] = {}
    for span in spans:
        key = span["pid"], span["tid"]
        assert threads[key].split()[0] == span["cat"]
        assert span["dur"] >= 0
        assert span["ts"] >= ends.get(key, 0) - 1e-6
        ends[key] = span["ts"] + span["dur"]
    assert min(span["ts"] for span in spans) == 0
    assert max(span["dur"] for span in spans) < 100  # spans are in microseconds


# --- in a browser ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_window(run: Run, graph: Path, tmp_path: Path, width: int) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium")
    page_of(run, tmp_path, *study_of(graph))
    page = (tmp_path / "page.html").read_text()
    probe = """<script>addEventListener("load", function () {
      var wide = document.documentElement;
      var charts = Array.from(document.querySelectorAll(".chart"));
      parent.postMessage(JSON.stringify({
        window: innerWidth, page: wide.scrollWidth, charts: charts.length,
        drawn: document.querySelectorAll(".chart .main-svg").length > 0,
        cut: charts.filter(function (c) { return c.scrollWidth > c.clientWidth + 1; }).length
      }), "*"); });</script></body>"""
    (tmp_path / "probed.html").write_text(page.replace("</body>", probe))
    # The minimum width of a window is larger than the width of a telephone, so the page is in a
    # frame.
    frame = tmp_path / "frame.html"
    frame.write_text(
        '<!DOCTYPE html><p id="said"></p><script>addEventListener("message", function (e) {'
        'document.getElementById("said").textContent = e.data; });</script>'
        f'<iframe src="probed.html" style="width:{width}px;height:900px;border:0"></iframe>'
    )
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--allow-file-access-from-files",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=9000",
         f"--window-size={width + 40},1000", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = re.search(r'<p id="said">(.*?)</p>', done.stdout)
    assert said is not None, done.stderr[-2000:]
    found = json.loads(said[1])
    assert found == {
        "window": width,
        "page": width,
        "charts": 4 + len(DEFAULTS),
        "drawn": True,
        "cut": 0,
    }
