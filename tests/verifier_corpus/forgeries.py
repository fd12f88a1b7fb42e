"""Each forgery as a function that changes a good release: by somebody on the way, who has no key;
or by the signer, who signs whatever is said.
"""

import base64
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cloakwork.api import pack
from cloakwork.base.costs import DiscreteLaplace
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import SIDECAR_FILE, pack_folder
from cloakwork.publishing.from_plan import plan_bytes, statement_of
from cloakwork.publishing.keys import SigningKey, canonical, seal
from cloakwork.publishing.statement import PrivacyStatement, file_digest, statement_payload


@dataclass(frozen=True)
class Release:
    """A copy of a good release, to be forged."""

    folder: Path
    key: SigningKey
    stranger: SigningKey
    goods: dict[str, Path]

    @property
    def envelope(self) -> dict[str, Any]:
        """The envelope as JSON values."""
        return dict(json.loads((self.folder / "statement.json").read_bytes()))

    @property
    def payload(self) -> bytes:
        """What is signed."""
        return base64.b64decode(self.envelope["payload"])

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return dict(json.loads((self.folder / "plan.json").read_bytes()))

    @property
    def log(self) -> Path:
        """The file of the log."""
        return next(self.folder.glob("log.*"))

    def write_envelope(self, envelope: dict[str, Any]) -> None:
        """An envelope in the form in which they are written."""
        (self.folder / "statement.json").write_bytes(canonical(envelope) + b"\n")

    def sign(self, payload: bytes) -> None:
        """The signer signs these bytes."""
        (self.folder / "statement.json").write_bytes(seal(payload, self.key))

    def sign_again(self, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
        """The signer signs the files as they are now, and a statement that is changed."""
        statement = json.loads(self.payload)
        for subject in statement["subject"]:
            file = self.folder / subject["name"]
            if file.is_file():
                subject["digest"]["sha256"] = file_digest(file)
        change(statement)
        self.sign(canonical(statement))

    def sign_predicate(self, **changes: Any) -> None:
        """The signer changes fields of the predicate."""
        self.sign_again(lambda statement: statement["predicate"].update(changes))

    def state_plan(self, change: Callable[[dict[str, Any]], object]) -> None:
        """The signer changes the plan, and states what such a plan would."""
        value = self.plan
        change(value)
        plan = Plan.model_validate(value)
        (self.folder / "plan.json").write_bytes(plan_bytes(plan))
        said = PrivacyStatement.model_validate(json.loads(self.payload)["predicate"])
        stated = statement_of(
            plan,
            said.release,
            released=said.released,
            private=True,
            ledger_entry=said.ledger_entry,
            issued=said.issued,
            recorded={row.step: row.recorded for row in said.recorded},
        )
        names = [each["name"] for each in json.loads(self.payload)["subject"]]
        self.sign(statement_payload(stated, {n: file_digest(self.folder / n) for n in names}))

    def write_plan(self, content: bytes) -> None:
        """The signer signs a plan in these bytes."""
        (self.folder / "plan.json").write_bytes(content)
        self.sign_again()

    def pack(self) -> Path:
        """The release as one file in its place."""
        file = self.folder.with_suffix(".zip")
        pack(self.folder, file, public_key=self.folder.with_name("signer.pub.pem"))
        shutil.rmtree(self.folder)
        return file


@dataclass(frozen=True)
class Forgery:
    """What is done to the good release ``of``."""

    of: str
    make: Callable[[Release], object]


FORGERIES: dict[str, Forgery] = {}


def _forgery(of: str = "csv") -> Callable[[Callable[[Release], object]], object]:
    def add(make: Callable[[Release], object]) -> object:
        FORGERIES[make.__name__.replace("_", "-")] = Forgery(of, make)
        return make

    return add


# --- on the way: the signature and its envelope


@_forgery()
def signed_by_a_stranger(release: Release) -> None:
    (release.folder / "statement.json").write_bytes(seal(release.payload, release.stranger))


@_forgery()
def signed_by_a_stranger_under_the_signers_id(release: Release) -> None:
    envelope = json.loads(seal(release.payload, release.stranger))
    envelope["signatures"][0]["keyid"] = release.key.keyid
    release.write_envelope(envelope)


@_forgery()
def statement_changed_after_it_was_signed(release: Release) -> None:
    changed = release.payload.replace(b'"k":3', b'"k":9')
    release.write_envelope(release.envelope | {"payload": base64.b64encode(changed).decode()})


@_forgery()
def statement_without_signature(release: Release) -> None:
    release.write_envelope(release.envelope | {"signatures": []})


@_forgery()
def statement_of_another_release(release: Release) -> None:
    shutil.copy(release.goods["noisy"] / "statement.json", release.folder)


@_forgery()
def envelope_of_another_type(release: Release) -> None:
    release.write_envelope(release.envelope | {"payloadType": "text/plain"})


@_forgery()
def envelope_says_more(release: Release) -> None:
    release.write_envelope(release.envelope | {"note": "unsigned words"})


@_forgery()
def envelope_with_a_key_twice(release: Release) -> None:
    file = release.folder / "statement.json"
    file.write_bytes(file.read_bytes().replace(b'{"payload"', b'{"payload":"e30=","payload"', 1))


@_forgery()
def envelope_with_blanks(release: Release) -> None:
    (release.folder / "statement.json").write_text(json.dumps(release.envelope, indent=1))


@_forgery()
def envelope_with_bytes_behind_it(release: Release) -> None:
    with (release.folder / "statement.json").open("ab") as file:
        file.write(b"\n{}")


@_forgery()
def envelope_in_loose_base64(release: Release) -> None:
    signature = release.envelope["signatures"][0]
    loose = signature["sig"].rstrip("=")
    # The last character has four bits that no byte takes.
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters[letters.index(loose[-1]) + 1]
    release.write_envelope(
        release.envelope | {"signatures": [signature | {"sig": f"{loose[:-1]}{last}=="}]}
    )


@_forgery()
def envelope_is_not_json(release: Release) -> None:
    (release.folder / "statement.json").write_text("<statement/>")


# --- on the way: files


@_forgery()
def log_changed(release: Release) -> None:
    release.log.write_bytes(release.log.read_bytes().replace(b"register", b"admit", 1))


@_forgery()
def log_with_a_line_behind_it(release: Release) -> None:
    release.log.write_bytes(release.log.read_bytes() + b"\n")


@_forgery()
def log_missing(release: Release) -> None:
    release.log.unlink()


@_forgery()
def log_is_a_link(release: Release) -> None:
    release.log.unlink()
    (release.folder / "log.csv").symlink_to("../good-csv/log.csv")


@_forgery()
def plan_changed(release: Release) -> None:
    plan = release.plan
    plan["claims"][0]["guarantee"]["k"] = 9
    (release.folder / "plan.json").write_bytes(plan_bytes(Plan.model_validate(plan)))


@_forgery()
def plan_missing(release: Release) -> None:
    (release.folder / "plan.json").unlink()


@_forgery()
def statement_missing(release: Release) -> None:
    (release.folder / "statement.json").unlink()


@_forgery()
def file_that_nobody_signed(release: Release) -> None:
    (release.folder / "notes.txt").write_text("p0 is the mayor\n")


@_forgery()
def internal_is_a_file(release: Release) -> None:
    (release.folder / "internal").write_text("p0 is the mayor\n")


@_forgery("noisy")
def measurements_changed(release: Release) -> None:
    file = release.folder / "measurements.parquet"
    pl.read_parquet(file).with_columns(pl.col("value") + 1).write_parquet(file)


@_forgery("parts")
def part_missing(release: Release) -> None:
    (release.log / "part-00002.csv").unlink()


@_forgery("parts")
def part_that_nobody_signed(release: Release) -> None:
    shutil.copy(release.log / "part-00001.csv", release.log / "part-00004.csv")


# --- on the way: the packed file


@_forgery()
def packed_again_with_compression(release: Release) -> None:
    _packed_again(release, zipfile.ZIP_DEFLATED)


@_forgery()
def packed_with_a_file_that_nobody_signed(release: Release) -> None:
    with zipfile.ZipFile(release.pack(), "a") as archive:
        archive.writestr("notes.txt", "p0 is the mayor\n")


@_forgery()
def packed_with_an_entry_twice(release: Release) -> None:
    with zipfile.ZipFile(release.pack(), "a") as archive:
        archive.filelist[0].filename, first = "log.txt", archive.filelist[0].filename
        archive.NameToInfo.clear()
        archive.writestr(first, "case:concept:name,concept:name\n")
        archive.filelist[0].filename = first


@_forgery()
def packed_with_a_comment(release: Release) -> None:
    with zipfile.ZipFile(release.pack(), "a") as archive:
        archive.comment = b"p0 is the mayor"


@_forgery()
def packed_with_bytes_in_front(release: Release) -> None:
    file = release.pack()
    file.write_bytes(b"p0 is the mayor\n" + file.read_bytes())


@_forgery()
def packed_with_a_path_that_leads_out(release: Release) -> None:
    file = release.pack()
    file.write_bytes(file.read_bytes().replace(b"plan.json", b"../an.jsn"))


@_forgery()
def packed_with_a_changed_log(release: Release) -> None:
    release.log.write_bytes(release.log.read_bytes().replace(b"register", b"admitted"))
    pack_folder(release.folder, release.folder.with_suffix(".zip"))
    shutil.rmtree(release.folder)


def _packed_again(release: Release, method: int) -> None:
    file = release.pack()
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, value in content.items():
            archive.writestr(name, value)


# --- by the signer: bytes that Cloakwork would not write


@_forgery()
def payload_with_blanks(release: Release) -> None:
    release.sign(json.dumps(json.loads(release.payload), indent=1).encode())


@_forgery()
def payload_with_a_key_twice(release: Release) -> None:
    release.sign(release.payload.replace(b'"engine":', b'"engine":"hidden","engine":', 1))


@_forgery()
def payload_with_bytes_behind_it(release: Release) -> None:
    release.sign(release.payload + b"\n")


@_forgery()
def plan_with_other_blanks(release: Release) -> None:
    release.write_plan(json.dumps(release.plan).encode())


@_forgery()
def plan_with_a_key_twice(release: Release) -> None:
    content = (release.folder / "plan.json").read_bytes()
    release.write_plan(content.replace(b'  "engine"', b'  "engine": "hidden",\n  "engine"', 1))


@_forgery()
def plan_with_bytes_behind_it(release: Release) -> None:
    release.write_plan((release.folder / "plan.json").read_bytes() + b"{}")


# --- by the signer: what the schemas do not admit


@_forgery()
def statement_says_more_than_the_schema(release: Release) -> None:
    release.sign_predicate(certified="by nobody")


@_forgery()
def statement_without_exposed_columns(release: Release) -> None:
    release.sign_again(lambda statement: statement["predicate"].pop("exposed"))


@_forgery()
def statement_with_a_negative_epsilon(release: Release) -> None:
    release.sign_predicate(
        budget=[{"currency": "unit", "cost": {"epsilon": -1.0, "delta": 0.0}, "unit": "case"}]
    )


@_forgery()
def statement_with_an_unknown_guarantee(release: Release) -> None:
    def claim(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][0]["guarantee"]["kind"] = "perfect-privacy"

    release.sign_again(claim)


@_forgery()
def statement_of_an_unknown_version(release: Release) -> None:
    release.sign_again(
        lambda statement: statement.update(predicateType="urn:cloakwork:privacy-statement:v9")
    )


@_forgery()
def plan_says_more_than_the_schema(release: Release) -> None:
    plan = release.plan | {"certified": "by nobody"}
    release.write_plan(json.dumps(plan, indent=2, ensure_ascii=False).encode() + b"\n")


@_forgery()
def plan_that_is_none(release: Release) -> None:
    release.write_plan(b"{}\n")


# --- by the signer: what is signed


@_forgery()
def statement_signs_a_file_twice(release: Release) -> None:
    release.sign_again(lambda statement: statement["subject"].append(statement["subject"][0]))


@_forgery()
def statement_signs_no_log(release: Release) -> None:
    release.sign_again(lambda statement: statement["subject"].pop(0))


@_forgery()
def statement_signs_two_logs(release: Release) -> None:
    shutil.copy(release.goods["xes"] / "log.xes", release.folder)
    digest = {"sha256": file_digest(release.folder / "log.xes")}
    release.sign_again(
        lambda statement: statement["subject"].insert(1, {"name": "log.xes", "digest": digest})
    )


@_forgery()
def statement_signs_a_file_elsewhere(release: Release) -> None:
    def lead_out(statement: dict[str, Any]) -> None:
        statement["subject"][0]["name"] = "../log.csv"

    release.sign_again(lead_out)


@_forgery("parts")
def statement_leaves_out_a_part(release: Release) -> None:
    (release.log / "part-00002.csv").unlink()
    release.sign_again(lambda statement: statement["subject"].pop(1))


@_forgery()
def noise_that_can_be_reproduced(release: Release) -> None:
    release.sign_predicate(mark="reproducible: NOT PRIVATE")


@_forgery()
def no_budget_charged(release: Release) -> None:
    release.sign_predicate(ledger_entry=None)


# --- by the signer: claims that do not follow


@_forgery()
def statement_claims_a_larger_k(release: Release) -> None:
    def claim(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][0]["guarantee"]["k"] = 9

    release.sign_again(claim)


@_forgery("noisy")
def statement_claims_a_smaller_epsilon(release: Release) -> None:
    def claim(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][0]["cost"]["epsilon"] = 0.5

    release.sign_again(claim)


@_forgery()
def statement_drops_an_exposed_column(release: Release) -> None:
    release.sign_predicate(exposed=[])


@_forgery()
def statement_drops_its_caveats(release: Release) -> None:
    release.sign_predicate(caveats=[])


@_forgery()
def statement_of_another_policy(release: Release) -> None:
    def cite(statement: dict[str, Any]) -> None:
        statement["predicate"]["policy"]["version"] = "2.0.0"

    release.sign_again(cite)


@_forgery("noisy")
def plan_and_statement_claim_a_smaller_epsilon(release: Release) -> None:
    def claim(plan: dict[str, Any]) -> None:
        plan["claims"][0]["cost"]["epsilon"] = 0.5

    release.state_plan(claim)


@_forgery("noisy")
def plan_with_half_the_noise(release: Release) -> None:
    def halve(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("kind") in ("discrete-laplace", "discrete-gaussian"):
                for field in ("scale", "sigma"):
                    if field in value:
                        value[field] /= 2
            for below in value.values():
                halve(below)
        elif isinstance(value, list):
            for below in value:
                halve(below)

    release.state_plan(lambda plan: halve(plan["steps"]))


@_forgery("noisy")
def plan_without_an_assumption(release: Release) -> None:
    release.state_plan(lambda plan: plan["claims"][0]["assumptions"].pop())


@_forgery()
def plan_with_an_unknown_mechanism(release: Release) -> None:
    release.state_plan(lambda plan: plan["steps"][0].update(mechanism="kanon/of-my-own"))


@_forgery()
def plan_with_a_claim_that_no_step_gives(release: Release) -> None:
    claim = json.loads((release.goods["noisy"] / "plan.json").read_bytes())["claims"][0]
    release.state_plan(lambda plan: plan["claims"].append(claim))


@_forgery("noisy")
def recorded_less_noise_than_planned(release: Release) -> None:
    less = DiscreteLaplace(scale=0.01).model_dump(mode="json")

    def record(statement: dict[str, Any]) -> None:
        statement["predicate"]["recorded"][0]["recorded"] = less

    release.sign_again(record)


@_forgery("noisy")
def recorded_nothing(release: Release) -> None:
    release.sign_again(lambda statement: statement["predicate"].pop("recorded"))


@_forgery()
def measurements_that_no_claim_covers(release: Release) -> None:
    shutil.copy(release.goods["noisy"] / "measurements.parquet", release.folder)
    _sign_measurements(release)


@_forgery("noisy")
def measurements_without_noise(release: Release) -> None:
    file = release.folder / "measurements.parquet"
    pl.read_parquet(file).with_columns(sigma=pl.lit(0.0)).write_parquet(file)
    release.sign_again()


def _sign_measurements(release: Release) -> None:
    digest = {"sha256": file_digest(release.folder / "measurements.parquet")}
    subject = {"name": "measurements.parquet", "digest": digest}
    release.sign_again(lambda statement: statement["subject"].insert(1, subject))


# --- by the signer: a log that does not hold what is claimed


@_forgery()
def log_with_a_group_below_k(release: Release) -> None:
    _change_lines(release, lambda lines: [lines[0], *lines[1:], "rare,escape"])


@_forgery()
def log_with_a_column_that_is_not_listed(release: Release) -> None:
    _change_lines(
        release, lambda lines: [f"{lines[0]},case:Age", *(f"{line},42" for line in lines[1:])]
    )


@_forgery()
def log_lacks_a_column_that_is_listed(release: Release) -> None:
    def list_more(statement: dict[str, Any]) -> None:
        column = {"name": "case:Age", "scope": "case", "treatment": "keep", "rule": "case:Age"}
        statement["predicate"]["released"].append(column)

    release.sign_again(list_more)


@_forgery()
def log_in_another_format_than_planned(release: Release) -> None:
    release.log.unlink()
    shutil.copy(release.goods["parquet"] / "log.parquet", release.folder)

    def rename(statement: dict[str, Any]) -> None:
        statement["subject"][0]["name"] = "log.parquet"

    release.sign_again(rename)
    release.sign_again()


@_forgery()
def log_that_is_none(release: Release) -> None:
    release.log.write_bytes(b"\x00\xff\x1f\x8b")
    release.sign_again()


@_forgery("xes")
def log_without_a_stamp(release: Release) -> None:
    begun, _, rest = release.log.read_text().partition('\t<list key="privacy:anonymizations">')
    release.log.write_text(begun + "\t<trace>" + rest.partition("\t<trace>")[2])
    release.sign_again()


@_forgery("xes")
def log_with_the_stamp_of_another_claim(release: Release) -> None:
    release.log.write_text(
        release.log.read_text().replace(
            'key="cloakwork:k" value="3"', 'key="cloakwork:k" value="9"'
        )
    )
    release.sign_again()


@_forgery("parquet")
def log_with_the_stamp_of_another_release(release: Release) -> None:
    release.sign_predicate(release="aaaaaaaaaaaaaaaaaaaa")


@_forgery("own")
def sidecar_changed(release: Release) -> None:
    _change_sidecar(release)


@_forgery("own")
def sidecar_of_another_claim(release: Release) -> None:
    _change_sidecar(release)
    release.sign_again()


@_forgery("own")
def sidecar_with_other_columns(release: Release) -> None:
    file = release.folder / SIDECAR_FILE
    said = json.loads(file.read_bytes())
    said["cloakwork:columns"] = {"concept:name": "case", "case:concept:name": "activity"}
    file.write_bytes(canonical(said))
    release.sign_again()


@_forgery("own")
def sidecar_that_is_none(release: Release) -> None:
    (release.folder / SIDECAR_FILE).write_bytes(b'{"url": 1, "url": 2}')
    release.sign_again()


@_forgery("own")
def sidecar_missing_though_it_is_stated(release: Release) -> None:
    (release.folder / SIDECAR_FILE).unlink()

    def forget(statement: dict[str, Any]) -> None:
        statement["subject"] = [
            each for each in statement["subject"] if each["name"] != SIDECAR_FILE
        ]

    release.sign_again(forget)


@_forgery()
def sidecar_that_is_not_stated(release: Release) -> None:
    shutil.copy(release.goods["own"] / SIDECAR_FILE, release.folder)
    digest = {"sha256": file_digest(release.folder / SIDECAR_FILE)}
    added = {"name": SIDECAR_FILE, "digest": digest}
    release.sign_again(lambda statement: statement["subject"].append(added))


@_forgery("own")
def plan_with_other_columns_than_the_log(release: Release) -> None:
    def rename(plan: dict[str, Any]) -> None:
        plan["form"]["options"]["columns"]["concept:name"] = "case"
        plan["form"]["options"]["columns"]["case:concept:name"] = "activity"

    release.state_plan(rename)


def _change_sidecar(release: Release) -> None:
    file = release.folder / SIDECAR_FILE
    file.write_bytes(file.read_bytes().replace(b'cloakwork:k":"3"', b'cloakwork:k":"9"'))


@_forgery("parts")
def log_with_a_case_in_two_parts(release: Release) -> None:
    shutil.copy(release.log / "part-00001.csv", release.log / "part-00002.csv")
    release.sign_again()


def _change_lines(release: Release, change: Callable[[list[str]], list[str]]) -> None:
    lines = release.log.read_text().splitlines()
    release.log.write_text("\n".join(change(lines)) + "\n")
    release.sign_again()


# --- what is no forgery, though it looks like one


@_forgery()
def good_though_its_words_were_changed(release: Release) -> None:
    def flatter(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][0]["sentence"] = "Nobody can be found, whatever."

    release.sign_again(flatter)


@_forgery()
def good_with_a_second_signature(release: Release) -> None:
    envelope = release.envelope
    envelope["signatures"] += json.loads(seal(release.payload, release.stranger))["signatures"]
    release.write_envelope(envelope)


@_forgery()
def good_with_what_was_left_inside(release: Release) -> None:
    shutil.copytree(release.goods["csv"] / "internal", release.folder / "internal")


@_forgery()
def good_packed(release: Release) -> None:
    release.pack()
