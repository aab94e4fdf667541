"""``python -m actdma`` is ``actdma``."""

import sys

from .cli import main

sys.exit(main())
