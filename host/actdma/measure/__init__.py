"""The main job: what every activation of a model costs, stored and moved."""

from .inputs import InputError, need
from .plot import plot
from .records import write_csv
from .run import Options, Step, compare, identical, measure
from .table import show

__all__ = [
    "InputError",
    "Options",
    "Step",
    "compare",
    "identical",
    "measure",
    "need",
    "plot",
    "show",
    "write_csv",
]
