"""Where pynq looks for this package's bitstreams (entry point ``pynq.overlays``).

The package's path is the cache's folder of this board, so that after ``actdma fetch`` pynq finds
``Overlay("actdma.bit")``. Where nothing was fetched, there is no such folder, and pynq goes on to
the next package's.
"""

from __future__ import annotations

import contextlib

from ..cache import cache_root, machine_name, this_board


def _folder() -> str:
    root, fetched = cache_root(), []
    # pynq imports this for anybody's overlay: a cache that cannot be read is as good as none.
    with contextlib.suppress(OSError):
        fetched = sorted(path.name for path in root.iterdir())
    return str(root / (this_board(fetched) or machine_name() or "none"))


__path__ = [_folder()]
