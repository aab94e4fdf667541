"""What the codecs do on this machine or board: ``actdma bench``."""

from .dump import Dump, DumpError
from .run import CODECS, DTYPES, Data, bench, dumped, published, random_data

__all__ = [
    "CODECS",
    "DTYPES",
    "Data",
    "Dump",
    "DumpError",
    "bench",
    "dumped",
    "published",
    "random_data",
]
