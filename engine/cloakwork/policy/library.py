"""The policies and schemas that come with Cloakwork, in a wheel and in a checkout alike."""

from pathlib import Path
from typing import Final, Literal

from cloakwork.base.errors import FileProblem, PolicyError
from cloakwork.policy.validation_messages import did_you_mean

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def shipped(kind: Literal["policies", "schemas"]) -> Path:
    """The folder that holds what is shipped.

    In a wheel it lies inside the package, in a checkout at the root of the repository.
    """
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent.parent / kind


def list_policies() -> list[str]:
    """Names of the shipped policies, in alphabetical order."""
    return sorted(path.stem for path in shipped("policies").glob("*.yaml"))


def list_templates() -> list[str]:
    """Names of the templates, one a sector, in alphabetical order: policies with open questions."""
    return sorted(path.stem for path in (shipped("policies") / "templates").glob("*.yaml"))


def template_text(name: str) -> str:
    """A template by its name, as it stands in its file."""
    return (shipped("policies") / "templates" / f"{name}.yaml").read_text("utf-8")


def resolve_policy(name_or_path: str | Path) -> Path:
    """Where a policy lies: a path that exists, or a plain word that is a shipped policy's name."""
    path = Path(name_or_path)
    name = str(name_or_path)
    looks_like_a_name = not path.suffix and path.name == name
    if looks_like_a_name and not path.exists():
        return shipped_path(name)
    return path


def shipped_path(name: str) -> Path:
    """Where the shipped policy of this name lies; raises PolicyError where there is none."""
    known = list_policies()
    if name not in known:
        message = f"no policy of this name is shipped{did_you_mean(name, known)}"
        hint = "'cloakwork policy list' shows them"
        raise PolicyError([FileProblem(name, message, hint=hint)])
    return shipped("policies") / f"{name}.yaml"
