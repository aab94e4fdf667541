"""The step-time model: a training step of a virtualised network, with and without compression.

`timeline` needs nothing but Python; the layers of a network need torch.
"""

from .hardware import DEVICES, LINKS, Device, Link
from .timeline import (
    Event,
    Route,
    Stage,
    Timeline,
    offloaded,
    oracle,
    simulate,
    write_chrome_trace,
)

__all__ = [
    "DEVICES",
    "LINKS",
    "Device",
    "Event",
    "Link",
    "Route",
    "Stage",
    "Timeline",
    "offloaded",
    "oracle",
    "simulate",
    "write_chrome_trace",
]
