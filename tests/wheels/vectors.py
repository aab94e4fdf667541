"""Writes the vectors of test_native_neon.py, and what the reference makes of them, for check.py."""

import pickle
import sys
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_native_neon import hostile, lossless, lossy

if __name__ == "__main__":
    pairs = list(lossless())
    damaged = hostile([frame for _, frame in pairs], 600)
    vectors = [
        (vector.what, vector.kind, vector.raw_bytes, vector.given, vector.outcome, vector.result)
        for vector in chain(*pairs, *lossy(), damaged)
    ]
    Path(sys.argv[1]).write_bytes(pickle.dumps(vectors))
