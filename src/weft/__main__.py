"""`python -m weft`: the same as the command `weft`."""

import sys

from weft.demo.cli import main

sys.exit(main())
