"""``python -m micrograd_core``: the command ``micrograd``, where scripts are not on the path."""

from __future__ import annotations

import sys

from micrograd_core.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
