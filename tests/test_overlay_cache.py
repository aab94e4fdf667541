"""``actdma fetch``, the cache of bitstreams, and who looks into it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import actdma
from actdma.board import BoardError, open_on, opener
from actdma.cli import main
from actdma.overlay import cache
from actdma.overlay.cache import FetchError, fetch
from toolchain import ROOT, environment


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The cache of this test."""
    monkeypatch.setenv("ACTDMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BOARD", raising=False)
    return tmp_path / "cache"


def make_set(folder: Path, board: str = "kv260", bitstream: bytes = b"bits") -> Path:
    """A set of files as ``make -C overlay`` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "actdma.bit").write_bytes(bitstream)
    (folder / "actdma.hwh").write_text("<EDKSYSTEM/>")
    (folder / "actdma.json").write_text(json.dumps({"board": board}))
    return write_manifest(folder)


def write_manifest(folder: Path) -> Path:
    lines = []
    for file in sorted(folder.glob("actdma.*")):
        if file.suffix != ".sha256":
            lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    (folder / "actdma.sha256").write_text("".join(lines))
    return folder


@contextlib.contextmanager
def served(folder: Path):
    """A local HTTP server; its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_from_a_folder(root, tmp_path, capsys):
    source = make_set(tmp_path / "built")
    assert main(["fetch", "--board", "kv260", "--from", str(source)]) == 0
    assert capsys.readouterr().out == f"wrote {root / 'kv260/actdma.bit'}\n"
    names = ["actdma.bit", "actdma.hwh", "actdma.json", "actdma.sha256"]
    assert sorted(path.name for path in (root / "kv260").iterdir()) == names
    assert [path.name for path in root.iterdir()] == ["kv260"]
    opener.check_files(root / "kv260/actdma.bit")


def test_from_a_url(root, tmp_path):
    make_set(tmp_path / "site/v1")
    with served(tmp_path / "site") as url:
        assert fetch("kv260", f"{url}/v1/") == root / "kv260/actdma.bit"
    assert (root / "kv260/actdma.bit").read_bytes() == b"bits"


def test_a_later_set_takes_the_place_of_the_former(root, tmp_path):
    fetch("kv260", make_set(tmp_path / "a", bitstream=b"old"))
    (root / "kv260/stale.bit").touch()
    fetch("kv260", make_set(tmp_path / "b", bitstream=b"new"))
    assert (root / "kv260/actdma.bit").read_bytes() == b"new"
    assert not (root / "kv260/stale.bit").exists()


def spoil_hash(folder):
    (folder / "actdma.hwh").write_text("<OTHER/>")


def spoil_board(folder):
    make_set(folder, board="zcu104")


def spoil_json(folder):
    (folder / "actdma.json").write_text("[]")
    write_manifest(folder)


def nest_json(folder):
    (folder / "actdma.json").write_text("[" * 100_000)
    write_manifest(folder)


def append(line):
    def spoil(folder):
        with (folder / "actdma.sha256").open("a") as file:
            file.write(line + "\n")

    return spoil


def remove(name):
    return lambda folder: (folder / name).unlink()


def unlist(folder):
    text = (folder / "actdma.sha256").read_text().splitlines(keepends=True)
    (folder / "actdma.sha256").write_text("".join(x for x in text if ".hwh" not in x))


DIGEST = "0" * 64
SPOILS = {
    "no manifest": (remove("actdma.sha256"), "cannot fetch actdma.sha256 from .*: No such file"),
    "no file": (remove("actdma.bit"), "cannot fetch actdma.bit from .*: No such file"),
    "hash": (spoil_hash, "actdma.hwh of .* has SHA-256 [0-9a-f]{64}, not .* as listed"),
    "other board": (spoil_board, "was built for zcu104, not kv260"),
    "json": (spoil_json, "actdma.json names no board"),
    "nested json": (nest_json, "actdma.json names no board"),
    "not listed": (unlist, "lists no actdma.hwh"),
    "path up": (append(f"{DIGEST}  ../../actdma.bit"), "is not a SHA-256 and the name of a file"),
    "absolute path": (append(f"{DIGEST}  /etc/passwd.bit"), "is not a SHA-256 and the name"),
    "backslash": (append(f"{DIGEST}  a\\b.bit"), "is not a SHA-256 and the name of a file"),
    "hidden": (append(f"{DIGEST}  .bashrc.bit"), "is not a SHA-256 and the name of a file"),
    "code": (append(f"{DIGEST}  __init__.py"), "lists __init__.py; allowed are .bit, .hwh, .json"),
    "digest": (append("1234  x.bit"), "'1234  x.bit' is not a SHA-256"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_bad_sets_leave_the_cache_as_it_is(spoil, root, tmp_path, capsys):
    """Nothing is written, and the former set stays."""
    fetch("kv260", make_set(tmp_path / "good", bitstream=b"former"))
    change, message = SPOILS[spoil]
    source = make_set(tmp_path / "bad", bitstream=b"worse")
    change(source)
    with pytest.raises(FetchError, match=message):
        fetch("kv260", source)
    assert main(["fetch", "--board", "kv260", "--from", str(source)]) == 2
    assert capsys.readouterr().err.startswith("actdma: ")
    assert (root / "kv260/actdma.bit").read_bytes() == b"former"
    assert [path.name for path in root.iterdir()] == ["kv260"]


def test_unknown_board(tmp_path):
    with pytest.raises(FetchError, match="there is no board 'u50'; known are zcu104, kv260"):
        fetch("u50", tmp_path)
    with pytest.raises(FetchError, match="there is no board 'emulated'"):
        fetch("emulated", tmp_path)


def test_network_failures(tmp_path):
    with served(tmp_path) as url, pytest.raises(FetchError, match=f"{url}: .*404"):
        fetch("kv260", url)
    with pytest.raises(FetchError, match=r"cannot fetch actdma\.sha256 from .*: .*refused"):
        fetch("kv260", url)
    for source in ("http://", "http://a b/"):
        with pytest.raises(FetchError, match=r"cannot fetch actdma\.sha256 from http"):
            fetch("kv260", source)
    with pytest.raises(FetchError, match=r"only folders, http:// and https:// will do"):
        fetch("kv260", "file:///etc")


def test_sizes_are_limited(tmp_path, monkeypatch):
    source = make_set(tmp_path / "set", bitstream=b"x" * 100)
    monkeypatch.setattr(cache, "_MAX_FILE", 99)
    with pytest.raises(FetchError, match=r"actdma\.bit of .* is larger than 99 bytes"):
        fetch("kv260", source)


def test_what_is_read_as_a_whole_is_short(tmp_path):
    source = make_set(tmp_path / "set")
    (source / "actdma.json").write_text('{"board": "kv260"}' + " " * (1 << 20))
    write_manifest(source)
    with pytest.raises(FetchError, match=r"actdma\.json of .* is larger than 1048576 bytes"):
        fetch("kv260", source)


def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACTDMA_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match=r"cannot write .*file/kv260"):
        fetch("kv260", make_set(tmp_path / "set"))


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("ACTDMA_CACHE", "~/mine")
    assert cache.cache_root() == Path.home() / "mine"
    monkeypatch.delenv("ACTDMA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/x")
    assert cache.cache_root() == Path("/var/x/actdma")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_root() == Path.home() / ".cache/actdma"


@pytest.mark.parametrize(
    ("name", "board"),
    [("KV260", "kv260"), ("Pynq-Z2", "pynq-z2"), ("AUP-ZU3-8GB", "aup-zu3"), ("ZCU111", None)],
)
def test_which_board_this_is(name, board, monkeypatch, tmp_path):
    known = ["zcu104", "kv260", "aup-zu3", "pynq-z2"]
    monkeypatch.setenv("BOARD", name)
    assert cache.this_board(known) == board
    monkeypatch.setenv("BOARD", "another")
    (tmp_path / "pynq_board").write_text(name + "\0")
    monkeypatch.setattr(cache, "_DEVICE_TREE", tmp_path / "pynq_board")
    assert cache.this_board(known) == board


# ---- the opener ----


@pytest.fixture
def machine(monkeypatch):
    """This process runs on a KV260 whose fabric is the emulated one, as far as the opener sees."""
    with actdma.emulation.install(timed=False, cache=False) as emulation:
        monkeypatch.setattr(opener, "find_device", lambda: (emulation.device, ""))
        monkeypatch.setenv("BOARD", "KV260")
        yield emulation


def test_a_real_board_takes_its_overlay_from_the_cache(machine, tmp_path):
    source = make_set(tmp_path / "set")
    shutil.copy(Path(machine.bitfile).with_suffix(".hwh"), source / "actdma.hwh")
    fetch("kv260", write_manifest(source))
    with actdma.open_board("hardware") as board:
        info = board.info()
        x = np.arange(5000, dtype=np.float32)
        frame = actdma.compress(x, backend=board)
        np.testing.assert_array_equal(actdma.decompress(frame, backend=board), x)
    assert (info["kind"], info["board"]) == ("hardware", "Kria KV260")
    assert info["part"] == "xck26-sfvc784-2LV-c"


def test_a_real_board_without_an_overlay(machine, root):
    with pytest.raises(BoardError, match="run actdma fetch --board kv260 --from"):
        actdma.open_board("hardware")


def test_a_cached_set_that_was_changed(machine, root, tmp_path):
    fetch("kv260", make_set(tmp_path / "set"))
    (root / "kv260/actdma.bit").write_bytes(b"other")
    with pytest.raises(BoardError, match=r"actdma\.bit is not the file that"):
        actdma.open_board("hardware")
    (root / "kv260/actdma.sha256").write_text("nonsense\n")
    with pytest.raises(BoardError, match=r"actdma\.sha256: 'nonsense' is not a SHA-256"):
        actdma.open_board("hardware")


def test_a_real_board_asks_for_no_interrupts(machine, monkeypatch):
    """pynq would open /dev/uio for them, and wants an event loop, which a worker thread has not."""
    parse, opened = machine.device.get_bitfile_metadata, []

    def with_interrupts(*arguments):
        parser = parse(*arguments)
        parser.assign_interrupts_to_ip()
        assert parser.ip_dict["axi_dma_compress"]["interrupts"]
        return parser

    def work():
        with actdma.open_board("hardware", bitfile=machine.bitfile) as board:
            opened.append(board.kind)

    monkeypatch.setattr(machine.device, "get_bitfile_metadata", with_interrupts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert opened == ["hardware"]


def test_pl_clock_is_what_timing_was_met_at():
    """Where the boot loader's PLL is not Vivado's, the .hwh's dividers would overclock the
    fabric."""
    with actdma.emulation.install(timed=False, cache=False) as emulation:
        crl_apb, iopll = 0xFF5E_0000, 0x20
        faster = 2 * 60 << 8 | 1 << 16
        emulation.device.write_registers(crl_apb + iopll, faster.to_bytes(4, "little"))
        with open_on(emulation) as board:
            assert board.info()["clock_mhz"] == pytest.approx(250, rel=1e-3)


# ---- pynq's own discovery ----


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python part of the package, installed in a folder with its entry points."""
    folder = tmp_path_factory.mktemp("site")
    # In one run, so that the build leaves no egg-info in the sources.
    steps = ["egg_info", "--egg-base", folder, "build_py", "--build-lib", folder]
    command = [sys.executable, "setup.py", "-q", *steps]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def python(code, folder, **env):
    variables = environment(PYTHONPATH=str(folder), PYTHONWARNINGS="ignore", **env)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


FIND = """
from pynq.bitstream import Bitstream
try:
    print(Bitstream({name!r}, device=object()).bitfile_name)
except OSError as error:
    print(error)
"""


def test_pynq_finds_what_was_fetched(installed, root, tmp_path):
    code = FIND.format(name="actdma.bit")
    env = {"BOARD": "KV260", "ACTDMA_CACHE": str(root)}
    assert "does not exist" in python(code, installed, **env)
    fetch("kv260", make_set(tmp_path / "set"))
    assert python(code, installed, **env).strip() == str(root / "kv260/actdma.bit")
    assert "does not exist" in python(code, installed, ACTDMA_CACHE=str(root), BOARD="ZCU104")


def test_other_overlays_are_found_without_our_bitstream(installed, tmp_path):
    (tmp_path / "theirs.bit").touch()
    code = f"import os; os.chdir({str(tmp_path)!r})" + FIND.format(name="theirs.bit")
    assert python(code, installed).strip() == str(tmp_path / "theirs.bit")


def test_pynq_delivers_the_notebooks(installed, tmp_path):
    code = (
        "import sys; from pynq._cli.get_notebooks import main\n"
        f"sys.argv = ['x', '-o', '-p', {str(tmp_path)!r}, 'actdma']; main()"
    )
    python(code, installed)
    delivered = {path.name for path in (tmp_path / "actdma").glob("*.ipynb")}  # and scripts
    assert delivered == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
