"""``python -m flow BOARD``."""

import sys

from .build import main

sys.exit(main())
