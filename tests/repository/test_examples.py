"""The example logs are what their README says, and their script makes them again."""

import gzip
import hashlib
import importlib.util
import re
import sys
import zlib
from collections import Counter
from types import ModuleType

import pytest

from repository.checkout import ROOT

LOGS = ROOT / "examples" / "logs"
FILES = ("hospital.xes", "hospital.csv", "permit.xes")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """``examples/logs/generate.py`` as a module."""
    spec = importlib.util.spec_from_file_location("generate_example_logs", LOGS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        # As for a script: what lies beside it can be imported.
        patch.syspath_prepend(LOGS)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts(generator: ModuleType) -> dict[str, str]:
    """What the script would write, before compression."""
    made: dict[str, str] = generator.make_texts()
    return made


def rows() -> dict[str, list[str]]:
    """The README's table by file name."""
    lines = re.findall(
        r"^\| `([\w.]+)\.gz` \|(.*)\|$", (LOGS / "README.md").read_text(), re.MULTILINE
    )
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in lines}


@pytest.mark.parametrize("name", FILES)
def test_script_makes_the_same_text(name: str, texts: dict[str, str]) -> None:
    """The same seed gives the same log."""
    assert texts[name].encode() == gzip.decompress((LOGS / f"{name}.gz").read_bytes())


@pytest.mark.skipif(
    "ng" in zlib.ZLIB_RUNTIME_VERSION,
    reason="zlib-ng packs the same text into other bytes than zlib",
)
@pytest.mark.parametrize("name", FILES)
def test_script_makes_the_same_bytes(
    name: str, texts: dict[str, str], generator: ModuleType
) -> None:
    """The compressed files carry no date, no name and no machine."""
    assert generator.gzipped(texts[name]) == (LOGS / f"{name}.gz").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_readme_has_the_digest(name: str) -> None:
    """The README's sha256 is that of the file."""
    digest = hashlib.sha256((LOGS / f"{name}.gz").read_bytes()).hexdigest()
    assert rows()[name][-1].strip("`") == digest


@pytest.mark.parametrize(
    ("name", "log"), [("hospital.xes", 0), ("hospital.csv", 0), ("permit.xes", 1)]
)
def test_readme_has_the_figures(name: str, log: int, generator: ModuleType) -> None:
    """Cases, events, activities, variants and their skew, counted anew."""
    cases = generator.make_logs()[log].cases
    variants = Counter(tuple(event.activity for event in case.events) for case in cases)
    common = sum(count for count in variants.values() if count >= 10)
    alone = sum(count for count in variants.values() if count == 1)
    expected = [
        f"{len(cases):,}",
        f"{sum(len(case.events) for case in cases):,}",
        str(len({activity for variant in variants for activity in variant})),
        str(len(variants)),
        f"{common / len(cases):.1%}".replace("%", " %"),
        f"{alone / len(cases):.1%}".replace("%", " %"),
    ]
    assert rows()[name][1:-1] == expected


def test_nobody_owns_more_than_four_cases(generator: ModuleType) -> None:
    """The figure that a policy's ``max_cases`` relies on."""
    for log, owner in zip(generator.make_logs(), ("patient", "applicant"), strict=True):
        assert max(Counter(case.attributes[owner] for case in log.cases).values()) == 4


def test_events_stand_in_order_of_time(generator: ModuleType) -> None:
    """Inside a case time never runs backwards."""
    for log in generator.make_logs():
        for case in log.cases:
            times = [event.time for event in case.events]
            assert times == sorted(times)
