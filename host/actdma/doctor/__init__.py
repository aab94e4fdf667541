"""What of actdma works on this machine, and what to do about the rest: ``actdma doctor``."""

from .examination import examine
from .finding import Finding, State, verdict

__all__ = ["Finding", "State", "examine", "verdict"]
