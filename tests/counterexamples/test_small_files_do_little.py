"""D14: what a small file may make its reader do is bounded, and the refusal says how to raise the
bound.
"""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from cloakwork.errors import LogError
from cloakwork.log import limits
from cloakwork.log.formats import read_log
from conftest import in_long_form

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<log>\n<trace><string key="concept:name" value="1"/>\n'
)
END = "</trace></log>\n"
MEASURE = """
import re, sys
import cloakwork.log.formats as io
peak = lambda: int(re.search("VmHWM: *\\t*(.*) kB", open("/proc/self/status").read())[1]) // 1024
before = peak()
log = io.read_log(sys.argv[1])
assert log.events.height == int(sys.argv[2]), log
assert log.events["k7"].drop_nulls().to_list() == ["v7"]
print(peak() - before)
"""


def event(attributes: str) -> str:
    return f'<event><string key="concept:name" value="a"/>{attributes}</event>\n'


def refused(path: Path) -> str:
    with pytest.raises(LogError) as refusal:
        read_log(path)
    said = str(refusal.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("suffix", [".xes.gz", ".csv.gz"])
def test_a_value_of_many_megabytes_is_refused(suffix: str, tmp_path: Path) -> None:
    """24 MiB in 24 KiB; it names the option that would allow it."""
    value = "x" * (24 << 20)
    texts = {
        ".xes.gz": HEAD + event(f'<!-- --><string key="note" value="{value}"/>') + END,
        ".csv.gz": f"case_id,activity,timestamp,note\n1,a,2024-03-01,{value}\n",
    }
    path = tmp_path / f"log{suffix}"
    path.write_bytes(gzip.compress(texts[suffix].encode(), 1))
    assert "value-size" in refused(path)


def test_a_file_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal rows without end; the bound begins at a 256th of where it does."""
    assert limits.RATIO_FROM == 64 << 20
    monkeypatch.setattr(limits, "RATIO_FROM", limits.RATIO_FROM // 256)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(
        gzip.compress(b"case_id,activity,timestamp\n" + b"1,a,2024-03-01\n" * (6 << 12), 6)
    )
    assert "unpack-ratio" in refused(path)


def test_too_many_attributes_are_refused(tmp_path: Path) -> None:
    """11,000 of them, in XES as in a table."""
    path = tmp_path / "log.xes"
    path.write_text(
        HEAD + "".join(event(f'<string key="k{n}" value="v"/>') for n in range(11_000)) + END
    )
    assert "attributes=" in refused(path)
    path = tmp_path / "log.csv"
    names = ",".join(f"k{n}" for n in range(11_000))
    path.write_text(f"case_id,activity,timestamp,{names}\n1,a,2024-03-01{',' * 11_000}\n")
    assert "attributes=" in refused(path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("times", ["out of order", *in_long_form("in order")])
def test_many_attributes_with_few_values_take_little_memory(times: str, tmp_path: Path) -> None:
    """3,000 attributes with one value each in 3,000 events are 3,000 values, not 9 million (144
    MB).
    """
    count, path = 3000, tmp_path / "log.xes"
    seconds = range(count) if times == "in order" else range(count, 0, -1)
    stamp = '<date key="time:timestamp" value="2024-03-{:02}T{:02}:{:02}:{:02}+00:00"/>'
    stamps = [stamp.format(1 + s // 86400, s // 3600 % 24, s // 60 % 60, s % 60) for s in seconds]
    events = "".join(event(f'{s}<string key="k{n}" value="v{n}"/>') for n, s in enumerate(stamps))
    path.write_text(HEAD + events + END)
    command = [sys.executable, "-c", MEASURE, str(path), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150  # MiB; 89 measured, to which a full table would add 144
