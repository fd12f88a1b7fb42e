"""A release without times, opened as a folder, packed, and as its log alone."""

from pathlib import Path

import cloakwork
from cloakwork.publishing.folder import pack_folder
from cloakwork.publishing.opened import opened_log
from cloakwork.testing.contract_logs import log_of
from conftest import EXAMPLES

LOG = "case:concept:name,concept:name\n1,a\n1,b\n2,b\n"


def test_a_release_without_times_is_opened_in_each_form(tmp_path: Path) -> None:
    folder, packed = tmp_path / "release", tmp_path / "release.zip"
    folder.mkdir()
    policy = cloakwork.load_policy(EXAMPLES.parents[1] / "policies" / "dp-control-flow.yaml")
    plan = cloakwork.make_plan(policy)
    (folder / "plan.json").write_text(plan.model_dump_json(), "utf-8")
    (folder / "statement.json").write_text("{}", "utf-8")
    (folder / "log.csv").write_text(LOG, "utf-8")
    pack_folder(folder, packed)
    for source in (folder, packed):
        opened = opened_log(source)
        assert opened.log.events["concept:name"].to_list() == ["a", "b", "b"]
        assert opened.log.events["time:timestamp"].null_count() == 3
        assert opened.plan == plan
    alone = cloakwork.risk(log_of([list("ab"), ["b"]] * 5), folder / "log.csv").attack(
        "linking/sequence"
    )
    assert alone.after is not None
