"""``PYTHONPATH=engine:tests python -m verifier_corpus FOLDER`` writes it to a new folder."""

import sys
from pathlib import Path

from verifier_corpus.corpus import write_corpus

if len(sys.argv) != 2 or Path(sys.argv[1]).exists():
    sys.exit(f"{__doc__}")
print(f"{len(write_corpus(Path(sys.argv[1])))} releases, with the verdict on each in verdicts.json")
