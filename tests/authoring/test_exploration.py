"""What ``explore`` shows of a log."""

import polars as pl
import pytest

import cloakwork
from authoring.sample_logs import NATURES, rich_log
from cloakwork.authoring.exploration import INTERNAL
from cloakwork.errors import LogError, PolicyError
from cloakwork.plan.policies import parse_policy

RICH = rich_log()


def test_it_is_what_suggest_sees():
    """A row an attribute, the counts of the log, and the policy itself."""
    found = cloakwork.explore(RICH)
    assert (found.cases, found.events, found.activities, found.variants) == (60, 180, 3, 3)
    table = found.to_polars()
    assert dict(zip(table["name"], table["nature"], strict=True)) == NATURES
    assert table.schema["alone"] == pl.Float64 and table.schema["follows_activity"] == pl.Boolean
    said = {"dataset": "d", "owner": "o", "purpose": "a study"}
    policy = parse_policy(found.suggest("internal", name="Mine!", **said).text)
    assert (policy.metadata.name, policy.metadata.dataset) == ("mine", "d")
    with pytest.raises(PolicyError, match=r"metadata\.purpose is still to be filled in"):
        parse_policy(found.suggest(dataset="d", owner="o").text)


def test_notebooks_show_that_it_is_internal():
    """With names that try to be markup."""
    frame = RICH.to_polars().with_columns(pl.lit("x").alias("<script>alert(1)</script>\u202e"))
    html = cloakwork.explore(frame)._repr_html_()
    assert INTERNAL in html and "<script" not in html and "\u202e" not in html
    assert "&lt;script&gt;" in html


def test_any_kind_of_log_is_taken(tmp_path):
    """A path, a table of polars or pandas; nothing else."""
    path = tmp_path / "log.csv"
    path.write_text("case_id,activity,timestamp\n1,a,2024-01-01 10:00:00\n", "utf-8")
    for log in (path, str(path), RICH.to_polars(), RICH.to_pandas()):
        assert cloakwork.explore(log).cases in (1, 60)
    with pytest.raises(LogError, match="must be an EventLog"):
        cloakwork.explore(7)  # type: ignore[arg-type]
    assert cloakwork.explore(cloakwork.EventLog.empty()).to_polars().height == 0
