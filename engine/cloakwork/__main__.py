"""``python -m cloakwork`` is the command ``cloakwork``."""

import sys

from cloakwork.cli import main

if __name__ == "__main__":
    sys.exit(main())
