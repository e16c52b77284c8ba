"""Tests output files. Each file must be complete or absent, and a complete file must be on the
disk.

Each file must also have the right permissions, and no parts may be left.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from interlace.base import files
from interlace.base.errors import UserError

WRITER = """
import os, sys, time
from pathlib import Path
from interlace.base import files
if sys.argv[2] == "named":
    os.O_TMPFILE = os.O_DIRECTORY  # no file system opens a directory for writing
with files.whole_file(Path(sys.argv[1])) as descriptor:
    os.write(descriptor, b"x" * 100000)
    print("written", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test first with unnamed temporary files, and then with named temporary files.

    Some file systems have no unnamed temporary files.
    """
    if request.param == "named":
        # With this value, the call fails with the error "Is a directory", as on such a file system.
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    return str(request.param)


def _killed_while_writing(path: Path, way: str, number: int) -> None:
    words = [sys.executable, "-c", WRITER, str(path), way]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_writer_that_is_killed_leaves_nothing_for_long(
    way: str, tmp_path: Path, number: int
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    _killed_while_writing(path, way, number)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == (2 if way == "named" else 1)
    other = tmp_path / "file.other"
    files.write_all({other: "new"})  # a writer removes only the parts of its own file
    assert len(list(tmp_path.iterdir())) == (3 if way == "named" else 2)
    files.write_all({path: "new"})
    assert path.read_text() == "new"
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_parts_of_a_living_writer_and_other_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    path = tmp_path / "file"
    link = tmp_path / f".file.{'0' * 16}{files.PART_ENDS}"
    link.symlink_to(tmp_path / "elsewhere")
    with files.whole_file(path) as descriptor:
        os.write(descriptor, b"first")
        files.write_all({path: "second"})
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert sorted(tmp_path.iterdir()) == [link, path]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    with files.whole_file(path) as descriptor:
        part = stat.S_IMODE(os.fstat(descriptor).st_mode)
        assert part & ~mode == 0, "the part is open to more people than the file"
        os.write(descriptor, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.usefixtures("way")
def test_the_mask_of_the_process_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:

        def touched(_: int) -> int:
            raise AssertionError("other threads see the mask of the process")

        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", touched)
            files.write_all({tmp_path / "file": "text"})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.usefixtures("way")
def test_contents_are_on_the_disk_before_the_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    seen: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(part: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        seen.append("name")
        replace(part, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    files.write_all({path: "new"})
    assert seen == ["file", "name", "folder"]


@pytest.mark.usefixtures("way")
def test_the_files_that_can_be_written_are(tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    missing = [tmp_path / "no" / "page.html", Path("/dev/full")]
    with pytest.raises(UserError) as caught:
        files.write_all({first: "1", missing[0]: "", missing[1]: "full", last: "2"})
    assert str(caught.value) == (
        f"{missing[0]} cannot be written: No such file or directory; "
        "/dev/full cannot be written: No space left on device"
    )
    assert (first.read_text(), last.read_text()) == ("1", "2")
    assert sorted(tmp_path.iterdir()) == [first, last]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
def test_a_link_of_another_user_in_a_folder_for_everybody_is_refused(tmp_path: Path) -> None:
    folder, victim = tmp_path / "everybody", tmp_path / "victim"
    folder.mkdir()
    folder.chmod(0o1777)
    victim.write_text("old")
    link = folder / "out.json"
    link.symlink_to(victim)
    files.write_all({link: "new"})  # this link belongs to the same user
    assert victim.read_text() == "new"
    os.lchown(link, 12345, 12345)
    for write in (
        lambda: files.write_all({link: "newer"}),
        lambda: files.check_writable(link, "--json"),
    ):
        with pytest.raises(UserError, match=r"is a link that another user made|Permission denied"):
            write()
    assert victim.read_text() == "new"


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="pipe is not a regular file"), files.whole_file(pipe):
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.usefixtures("way")
def test_a_long_name_has_a_part(tmp_path: Path) -> None:
    path = tmp_path / ("\N{ROCKET}" * 60)
    files.write_all({path: "text"})
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_show_its_files_takes_one(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    folder.chmod(0o300)
    try:
        files.write_all({folder / "file": "text"})
    finally:
        folder.chmod(0o700)
    assert (folder / "file").read_text() == "text"


# --- standard output ------------------------------------------------------------------------------


def _cost(redirected: str, json_file: Path) -> subprocess.CompletedProcess[str]:
    line = f'exec "$0" -m interlace cost 4x-volta-nvlink2 --json "$1" {redirected}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, str(json_file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (
            ">/dev/full",
            2,
            "interlace: standard output cannot be written: No space left on device\n",
        ),
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
    ],
)
def test_files_are_written_whatever_becomes_of_standard_output(
    tmp_path: Path, redirected: str, code: int, said: str
) -> None:
    path = tmp_path / "r.json"
    ended = _cost(redirected, path)
    assert (ended.returncode, ended.stderr) == (code, said)
    assert json.loads(path.read_text())["format"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_complaint_that_cannot_be_printed_is_an_exit_code(tmp_path: Path) -> None:
    lost = _cost("2>/dev/full", tmp_path / "no" / "r.json")
    assert (lost.returncode, lost.stdout) == (2, "")
