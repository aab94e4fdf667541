"""`actdma report`: what measurements and models have written, as one HTML page that works offline.

It reads JSON files alone, so it needs neither torch nor what wrote them; plotly draws.
"""

from .page import write_page
from .sources import Notice, ReportError

__all__ = ["Notice", "ReportError", "write_page"]
