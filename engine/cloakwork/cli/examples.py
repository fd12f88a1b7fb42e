"""Two examples for the help of each command; a test parses them all."""

from typing import Final

_TEXT: Final = """
cloakwork
    cloakwork plan kanon-dp-timestamps log.xes.gz
    cloakwork apply kanon-dp-timestamps log.xes.gz --out release

policy
    cloakwork policy init --out policy.yaml
    cloakwork policy lint policy.yaml

policy init
    cloakwork policy init --template hospital --owner dpo@clinic.example --out policy.yaml
    cloakwork policy init --from dp-control-flow --dataset visits --out dp.yaml

policy answer
    cloakwork policy answer policy.yaml
    cloakwork policy answer policy.yaml --file answers.yaml --rest drop

policy suggest
    cloakwork policy suggest log.xes.gz --out policy.yaml
    cloakwork policy suggest log.csv --audience publish --dataset permits --out p.yaml

policy validate
    cloakwork policy validate policy.yaml
    cloakwork policy validate policy.yaml kanon-control-flow --json

policy explain
    cloakwork policy explain policy.yaml
    cloakwork policy explain dp-control-flow

policy lint
    cloakwork policy lint policy.yaml
    cloakwork policy lint kanon-control-flow --json

policy diff
    cloakwork policy diff kanon-control-flow policy.yaml
    cloakwork policy diff kanon-control-flow dp-control-flow --json

policy schema
    cloakwork policy schema
    cloakwork policy schema --editor

policy list
    cloakwork policy list
    cloakwork policy list --json

profile
    cloakwork profile policy.yaml log.xes.gz --out profile.json
    cloakwork profile policy.yaml log.csv --column concept:name=step --out p.json

plan
    cloakwork plan policy.yaml log.xes.gz --out plan.json
    cloakwork plan dp-control-flow log.xes.gz --why

compare
    cloakwork compare kanon-control-flow log.xes.gz --sweep k=5,10,20
    cloakwork compare policy.yaml log.xes.gz --sweep epsilon=.5,1,2 --html compared.html

apply
    cloakwork apply policy.yaml log.xes.gz --out release
    cloakwork apply plan.json log.csv --column concept:name=step --out release

verify
    cloakwork verify release --public-key key.pem
    cloakwork verify release --expect dataset=permits --all

pack
    cloakwork pack release --out release.zip
    cloakwork pack release --out release.zip --public-key key.pem

demo
    cloakwork demo
    cloakwork demo my-demo

convert
    cloakwork convert log.xes.gz log.parquet
    cloakwork convert log.csv parts --format parquet --column activity=step

report
    cloakwork report release > report.html
    cloakwork report release --audience internal --format pdf --out report.pdf

mcp
    cloakwork mcp --folder policies
    cloakwork mcp --ledger ledger.db

console
    cloakwork console
    cloakwork console --folder permits --no-browser --port 8484

ledger
    cloakwork ledger show
    cloakwork ledger history --dataset permits

ledger show
    cloakwork ledger show
    cloakwork ledger show --dataset permits --json

ledger history
    cloakwork ledger history
    cloakwork ledger history --ledger ledger.db --dataset permits

ledger checkpoint
    cloakwork ledger checkpoint --out head.json
    cloakwork ledger checkpoint --out head.json --key key.pem --ledger ledger.db

ledger verify
    cloakwork ledger verify --release release
    cloakwork ledger verify --checkpoint head.json

ledger backup
    cloakwork ledger backup --out ledger-backup.db
    cloakwork ledger backup --out copy.db --ledger postgresql:///cloakwork

ledger restore
    cloakwork ledger restore ledger-backup.db
    cloakwork ledger restore copy.db --ledger postgresql:///cloakwork

ledger reconcile
    cloakwork ledger reconcile release
    cloakwork ledger reconcile release --ledger ledger.db --json

dataset
    cloakwork dataset declare permits --owner 'Permit office' --total epsilon=2,delta=1e-6
    cloakwork dataset show permits

dataset list
    cloakwork dataset list
    cloakwork dataset list --json

dataset show
    cloakwork dataset show permits
    cloakwork dataset show permits --ledger ledger.db --json

dataset declare
    cloakwork dataset declare permits --owner 'Permit office' --unit case \
--total epsilon=2,delta=1e-6
    cloakwork dataset declare permits --windows '1 month' --require-approval

registry
    cloakwork registry add policy.yaml --reason 'First version'
    cloakwork registry approve permits@1.0.0 --reason 'Checked with the owner'

registry add
    cloakwork registry add policy.yaml
    cloakwork registry add policy.yaml --author 'A. Analyst' --reason 'Smaller groups'

registry list
    cloakwork registry list
    cloakwork registry list --ledger ledger.db --json

registry show
    cloakwork registry show permits@1.0.0
    cloakwork registry show permits@1.0.0 --text

registry approve
    cloakwork registry approve permits@1.0.0 --reason 'Checked with the owner'
    cloakwork registry approve permits@1.0.0 --reason 'k is enough' --key officer.pem

registry revoke
    cloakwork registry revoke permits@1.0.0 --reason 'The contract ended'
    cloakwork registry revoke permits@1.0.0 --reason 'Replaced by 2.0.0' --by 'B. Officer'

keys
    cloakwork keys list
    cloakwork keys trust key.pem --name partner

keys list
    cloakwork keys list
    cloakwork keys list --json

keys trust
    cloakwork keys trust key.pem --name partner
    cloakwork keys trust key.pem --name partner --json

keys untrust
    cloakwork keys untrust partner
    cloakwork keys untrust 70a2930d6affbef3

audit
    cloakwork audit dp variants/threshold
    cloakwork audit utility log.xes.gz my-release/log.xes.gz

audit dp
    cloakwork audit dp variants/threshold --runs 2000
    cloakwork audit dp timestamps/laplace --epsilon 0.5 --json

audit replay
    cloakwork audit replay variants/threshold
    cloakwork audit replay variants/markov --log log.xes.gz --runs 1000

audit utility
    cloakwork audit utility log.xes.gz my-release/log.xes.gz
    cloakwork audit utility log.csv my-release/log.csv --column concept:name=step --json

risk
    cloakwork risk log.xes.gz
    cloakwork risk log.xes.gz my-release --html risk.html

mechanisms
    cloakwork mechanisms
    cloakwork mechanisms kanon/optimal --json
"""

EXAMPLES: Final = {
    path.removeprefix("cloakwork"): tuple(map(str.strip, lines))
    for path, *lines in (block.splitlines() for block in _TEXT.strip().split("\n\n"))
}
"""By the command's path without ``cloakwork``."""


def epilog(path: str) -> str | None:
    """The examples as the end of a command's help; None for a command that has none."""
    found = EXAMPLES.get(path)
    if found is None:
        return None
    # click keeps the lines of a paragraph that begins with a backspace as they are.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in found)
