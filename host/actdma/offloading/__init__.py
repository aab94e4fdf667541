"""The PyTorch side: what autograd saves goes through a codec, and comes back for backward."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("actdma.offload needs PyTorch: pip install 'actdma[torch]'") from error

from .plan import Plan
from .ranks import gathered
from .records import NoGain, Record, Report
from .session import Session, empty_cache, offload

__all__ = ["NoGain", "Plan", "Record", "Report", "Session", "empty_cache", "gathered", "offload"]
