"""Whether an installed actdma works here: check.py VECTORS, in an empty folder.

Every instruction set of the CPU's codec has to give what vectors.py wrote on the machine that
built it; every codec has to pass through the emulated card, and through the emulated board where
pynq is installed. Needs what actdma itself needs.
"""

import importlib.util
import pickle
import sys
from pathlib import Path

import numpy as np

import actdma
from actdma.codecs import Bsr, Pool
from actdma.frame import HEADER_BYTES, Codec, Descriptor, Status
from actdma.native import _native

ENCODE = 0
LOSSY = {Codec.POOL: Pool(2), Codec.BSR: Bsr(8, density=0.5)}


def encoded(given: bytes) -> bytes:
    """The frame of raw data behind its descriptor."""
    head, raw = given[:HEADER_BYTES], given[HEADER_BYTES:]
    bound = Descriptor.unpack(head).frame_bound + _native.ENCODE_SLACK
    out = np.empty(bound, np.uint8)
    length, _ = _native.encode_frame(raw, head, out)
    return out[:length].tobytes()


def decoded(raw_bytes: int, given: bytes) -> tuple[int, bytes]:
    """Status, and the data where it is good."""
    out = np.empty(raw_bytes, np.uint8)
    status = _native.decode_frame(given, out)
    return status, out.tobytes() if status == Status.GOOD else b""


def check_vectors(path: Path) -> None:
    """Through every instruction set of this machine."""
    vectors = pickle.loads(path.read_bytes())
    for isa in _native.isas():
        _native.set_isa(isa)
        for what, kind, raw_bytes, given, outcome, result in vectors:
            if kind == ENCODE:
                good = encoded(given) == result
            else:
                good = decoded(raw_bytes, given) == (outcome, result)
            if not good:
                sys.exit(f"{isa}: {what}: other bytes or another outcome than the reference's")
        print(f"{isa}: {len(vectors)} vectors")


def check_transfers(device: object) -> None:
    """Every codec there and back."""
    maps = np.maximum(np.random.default_rng(0).standard_normal((100, 100), np.float32), 0)
    with device:
        for codec in Codec:
            data = maps.astype(np.int32) if codec is Codec.INTS else maps
            chosen = LOSSY.get(codec, codec.name.lower())
            frame = actdma.compress(data, chosen, device)
            expected = actdma.compress(data, chosen, "reference")
            if bytes(frame) != bytes(expected):
                sys.exit(f"{type(device).__name__}: {codec.name} gives another frame")
            back = actdma.decompress(frame, device)
            if back.tobytes() != actdma.decompress(expected, "reference").tobytes():
                sys.exit(f"{type(device).__name__}: {codec.name} gives other data back")
    print(f"{type(device).__name__}: {len(Codec)} codecs")


if __name__ == "__main__":
    print(f"actdma {actdma.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
    check_vectors(Path(sys.argv[1]))
    check_transfers(actdma.open_alveo("emulated"))
    if importlib.util.find_spec("pynq"):
        check_transfers(actdma.open_board("emulated"))
