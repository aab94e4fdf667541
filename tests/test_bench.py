"""`actdma bench`, and dumps of saved tensors."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import actdma
from actdma import bench
from actdma.cli import main
from actdma.frame import Codec, DType
from actdma.native import NativeBackend

SMALL = ["bench", "--mib", "1", "--repeats", "1"]


@pytest.fixture
def dump(tmp_path):
    """What a small network saves, and the folder it was written to."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3))
    backend = bench.Dump(tmp_path / "saved", NativeBackend())
    with actdma.offload(model, codec="auto", backend=backend, min_bytes=0, min_ratio=0) as session:
        loss = model(torch.randn(2, 3, 32, 32, requires_grad=True)).sum()
    loss.backward()
    return backend.folder, session.report().records


def test_a_dump_has_every_saved_tensor(dump):
    folder, records = dump
    found = list(bench.dump.load(folder))
    assert [data.size for _, _, data in found] == [r.raw_bytes for r in records]
    assert [dtype.name for _, dtype, _ in found] == [r.dtype for r in records]
    assert {"float32", "int64"} <= {r.dtype for r in records}


def test_a_dump_is_not_written_over_another(dump):
    with pytest.raises(bench.DumpError, match="has a dump in it already"):
        bench.Dump(dump[0], NativeBackend())


def test_rows_of_a_dump(dump):
    sets = bench.dumped(dump[0])
    rows = list(bench.bench(NativeBackend(), sets, ["zvc", "ints"], 2, 8192))
    assert {(row.dtype, row.codec) for row in rows} == {
        ("float32", "zvc"),
        ("int64", "zvc"),
        ("int64", "ints"),
    }
    assert all(row.gb_per_s["compress"] > 0 and row.of_memcpy["decompress"] > 0 for row in rows)


def test_ratio_is_that_of_the_frames():
    data = bench.random_data(DType.bfloat16, 0.75, 1 << 20)
    (row,) = bench.bench(NativeBackend(), [data], ["zve"], 1, 1 << 18)
    frame = NativeBackend().compress(data.tensors[0], DType.bfloat16, Codec.ZVE, 1 << 18)
    assert row.ratio == frame.ratio > 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int8", "uint16"])
@pytest.mark.parametrize("zeros", [0, 0.5, 1])
def test_random_data_has_the_zeros_asked_for(dtype, zeros):
    data = bench.random_data(DType[dtype], zeros, 1 << 16)
    elements = data.tensors[0].view(f"u{data.dtype.element_bytes}")
    assert np.mean(elements == 0) == pytest.approx(zeros, abs=0.02)
    assert data.nbytes == 1 << 16


def test_a_backend_that_gives_other_bits_back_is_found():
    class Liar(NativeBackend):
        def decompress(self, frame, out):
            super().decompress(frame, out)
            out[-1] ^= 1

    data = bench.random_data(DType.int8, 0.5, 1 << 16)
    with pytest.raises(RuntimeError, match="zvc through native gave other bits back"):
        list(bench.bench(Liar(), [data], ["zvc"], 1, 8192))


def test_arrays_of_numpy_files(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.zeros((3, 5), np.float32), b=np.arange(7))
    np.save(tmp_path / "one.npy", np.ones(4, np.int16)[::2])
    found = {
        name: (dtype, data.size) for name, dtype, data in bench.dump.load(tmp_path / "two.npz")
    }
    assert found == {"a": (DType.float32, 60), "b": (DType.int64, 56)}
    ((name, dtype, data),) = bench.dump.load(tmp_path / "one.npy")
    assert (name, dtype, data.tolist()) == ("one", DType.int16, [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.actdma", b""),
        ("a.actdma", b"\0" * 640),
        ("a.npy", b"this is none"),
        ("a.npz", b"PK\3\4 nor this"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(bench.DumpError, match=f"{name} cannot be read"):
        list(bench.dump.load(file))


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "p.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(bench.DumpError, match=r"p\.npy cannot be read"):
        list(bench.dump.load(tmp_path / "p.npy"))


def test_lossy_frames_are_refused(tmp_path):
    frame = actdma.compress(np.ones((4, 4), np.float32), actdma.Pool(2))
    (tmp_path / "l.actdma").write_bytes(bytes(frame))
    with pytest.raises(bench.DumpError, match="codec pool is lossy"):
        list(bench.dump.load(tmp_path))


def test_measured_and_modelled_are_different_tables(tmp_path):
    for backend in ("native", "board"):
        json_file = tmp_path / f"{backend}.json"
        arguments = ["--backend", backend, "--codec", "zvc", "--dtype", "float32"]
        board = ["--board", "emulated"] if backend == "board" else []
        assert main([*SMALL, *arguments, *board, "--json", str(json_file)]) == 0
        study = json.loads(json_file.read_text())
        modelled = backend == "board"
        assert study["study"]["kind"] == ("modelled" if modelled else "measured")
        assert ("of memcpy" in study["columns"]) is not modelled
        assert all(len(row) == len(study["columns"]) for row in study["rows"])
        (figures,) = study["figures"]
        # 128 bits at 250 MHz, driver included, is what the emulated board models.
        assert figures["gb_per_s"]["compress"] < 4 or not modelled


def test_the_report_shows_it(tmp_path):
    pytest.importorskip("plotly")
    folder = tmp_path / "results"
    assert main([*SMALL, "--json", str(folder / "bench.json")]) == 0
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    assert "Codecs, native" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "float8"], "unknown dtype 'float8'"),
        (["--dtype", "bool"], "no random data of bool"),
        (["--zeros", "1.5"], "zeros is 1.5"),
        (["--mib", "0"], "0 bytes hold no float32"),
        (["--codec", "lz4"], "unknown codec 'lz4'"),
        (["--codec", "ints", "--dtype", "float32"], "none of the codecs ints takes this data"),
        (["--repeats", "0"], "--repeats is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--backend", "gpu"], "unknown backend 'gpu'"),
        (["--board", "emulated"], "--board goes with --backend board"),
        (["--frame-bytes", "100"], "frame_bytes is 100"),
        (["--dump", "nowhere"], "there is no nowhere"),
        (["--dump", "."], "has no .actdma files in it"),
    ],
)
def test_errors_are_one_sentence(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    size = ["--mib", "1"] if not {"--dump", "--mib"} & set(arguments) else []
    assert main(["bench", *size, *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_dump_takes_no_options_of_random_data(tmp_path, capsys):
    assert main(["bench", "--dump", str(tmp_path), "--zeros", "0.5"]) == 2
    assert "--zeros is of random data" in capsys.readouterr().err
