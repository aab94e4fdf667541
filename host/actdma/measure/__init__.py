"""The main job: what every activation of a model costs, stored and moved."""

from .inputs import InputError
from .run import Options, measure
from .table import show

__all__ = ["InputError", "Options", "measure", "show"]
