"""``python -m flow BOARD``."""

import sys

try:
    from .build import main
except Exception as error:
    if type(error).__name__ != "BuildError":
        raise
    sys.exit(f"overlay: {error}")

if __name__ == "__main__":
    sys.exit(main())
