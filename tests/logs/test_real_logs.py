"""Real logs, where they lie beside the repository: the counts that their publishers and the
literature give.
"""

from pathlib import Path

import pytest

from cloakwork.log.eventlog import ACTIVITY, CASE_ID
from cloakwork.log.formats import read_log, write_log
from cloakwork.log.formats.xes_fast import fast_chunks
from cloakwork.log.formats.xes_full import full_chunks
from cloakwork.log.variants import variants_of
from conftest import SHARED, in_long_form
from log_equality import assert_same_log, read_by

LOGS = SHARED / "logs"
pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the real logs are not beside this checkout"
)

# cases, events, activities, variants
COUNTS = {
    "bpic2011_hospital.csv.gz": (1143, 150291, 624, 981),
    "bpic2012.xes.gz": (13087, 262200, 24, 4366),
    "bpic2012_a.xes.gz": (13087, 60849, 10, 17),
    "bpic2013_incidents.xes.gz": (7554, 65533, 4, 1511),
    "bpic2013_open_problems.xes.gz": (819, 2351, 3, 108),
    "bpic2014_f.xes.gz": (41353, 369485, 9, 14948),
    "bpic2015_1.xes.gz": (1199, 52217, 398, 1170),
    "bpic2015_5.xes.gz": (1156, 59083, 389, 1153),
    "bpic2020_domestic_declarations.xes.gz": (10500, 56437, 17, 99),
    "bpic2020_international_declarations.xes.gz": (6449, 72151, 34, 753),
    "bpic2020_permit_log.xes.gz": (7065, 86581, 51, 1478),
    "ccc19.xes.gz": (20, 697, 29, 20),
    "hospital_billing_10k_sample.csv.gz": (10000, 49951, 16, 288),
    "production.xes.gz": (225, 9906, 26, 217),
    "receipt.xes.gz": (1434, 8577, 27, 116),
    "road_traffic_fines.xes.gz": (150370, 561470, 11, 231),
    "sepsis.xes.gz": (1050, 15214, 16, 846),
    "unrineweginfectie.xes.gz": (1650, 6973, 10, 50),
}
ALWAYS = ("hospital_billing_10k_sample.csv.gz", "receipt.xes.gz")
"""One of each format; the others in the long form."""
# What the full parser reads in two seconds or less; the larger ones were compared by hand.
SMALLER = sorted(
    name for name, (_, events, *_) in COUNTS.items() if ".xes" in name and events < 55_000
)


def _real(name: str) -> Path:
    if not (LOGS / name).is_file():
        pytest.skip(f"shared/logs has no {name}")
    return LOGS / name


@pytest.mark.parametrize("name", [*ALWAYS, *in_long_form(*sorted(COUNTS.keys() - {*ALWAYS}))])
def test_counts_are_the_published_ones(name: str) -> None:
    """Cases, events, activities and variants; two letters are an id like any other."""
    log = read_log(_real(name), keep=lambda attribute: False)
    counted = (
        log.cases.height,
        log.events.height,
        log.events[ACTIVITY].n_unique(),
        len(variants_of(log)),
    )
    assert COUNTS[name] == counted
    if name.startswith(("hospital_billing", "sepsis")):
        assert "NA" in log.cases[CASE_ID].to_list()


def test_every_real_log_is_counted() -> None:
    """A log that is added to the folder is added to the table."""
    assert sorted(COUNTS) == sorted(path.name for path in LOGS.iterdir() if path.suffix == ".gz")


@pytest.mark.parametrize("name", ["receipt.xes.gz", *in_long_form(*SMALLER)])
def test_both_readers_agree_on_real_logs(name: str) -> None:
    """The fast reader takes each of them, with all its attributes, and gives what the full parser
    gives. The log element of receipt carries counts per resource; no column comes from it.
    """
    full = read_by(full_chunks, _real(name))
    assert_same_log(full, read_by(fast_chunks, _real(name)))
    assert not [name for name in full.columns if "meta_" in name or "library" in name]


@pytest.mark.parametrize("name", ["receipt.xes.gz", *in_long_form("sepsis.xes.gz")])
@pytest.mark.parametrize(
    "suffix", [".xes.gz", ".csv", ".parquet", *in_long_form(".xes", ".csv.gz")]
)
def test_real_logs_survive_being_written(name: str, suffix: str, tmp_path: Path) -> None:
    """In every format; the order of columns is that of the log."""
    log = read_log(_real(name))
    path = tmp_path / f"log{suffix}"
    write_log(log, path, suffix.removesuffix(".gz").removeprefix("."))  # type: ignore[arg-type]
    back = read_log(path)
    assert back.events.select(log.events.columns).equals(log.events)
    assert back.cases.select(log.cases.columns).equals(log.cases)
    assert back.offsets.tolist() == log.offsets.tolist()
