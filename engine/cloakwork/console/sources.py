"""The policies that a page can name: files of the folder, and versions of the registry."""

from pathlib import Path

from cloakwork.authoring.registry import Registry, is_reference
from cloakwork.authoring.sources import PolicySource
from cloakwork.console.visits import Visit
from cloakwork.console.workplace import POLICY_ENDINGS, OutsideFolder, read_policy_text


def policy_names(visit: Visit) -> tuple[str, ...]:
    """The versions of the registry that are not revoked, the newest first; then the files."""
    versions = Registry(visit.state.ledger()).versions()
    kept = [each.reference for each in versions if each.state != "revoked"]
    return (*reversed(kept), *visit.workplace.look().policies)


def policy_source(visit: Visit, name: str) -> PolicySource:
    """The policy that a page names; its errors call it so.

    Raises OutsideFolder where it is neither a version nor a file of the folder.
    """
    if is_reference(name) and not name.lower().endswith(POLICY_ENDINGS):
        return PolicySource(Registry(visit.state.ledger()).get(name).text, name, None)
    path = policy_file(visit, name)
    return PolicySource(read_policy_text(path), name, path)


def policy_file(visit: Visit, name: str) -> Path:
    """The path of a policy file of the folder; raises OutsideFolder where it is none."""
    if not name.lower().endswith(POLICY_ENDINGS):
        raise OutsideFolder(f"{name}: is no policy file, which ends in .yaml")
    return visit.workplace.existing_file(name)
