"""What the action runs: check.py BASE PATTERN, in a checkout.

Each policy that PATTERN names (as git reads it) is validated, linted, and compared with how it stands
in the commit BASE. Findings are printed as annotations; beside them lie `comment.md`, what changed in
words, and `lint.sarif`, all advice for code scanning. Ends with 3 where a policy is not valid, where
advice of level warning is not waived, or where a version was not raised enough.
"""

import json
import subprocess
import sys
from pathlib import Path

HEADER = "Privacy policies: what this change means\n"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """One command; what it prints on standard error is shown at once."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def checked(policy: str, base: str) -> tuple[int, str, list[dict[str, object]]]:
    """The worst exit code for one policy, what changed in it, and its advice."""
    valid = run("cloakwork", "policy", "validate", "--", policy)
    print(valid.stdout, end="")
    if valid.returncode:
        return valid.returncode, f"{policy}: not valid\n", []
    cloakwork = ("cloakwork", "policy")
    lint = run(*cloakwork, "lint", "--format", "github", "--fail-on", "warning", "--", policy)
    print(lint.stdout, end="")
    sarif = json.loads(run(*cloakwork, "lint", "--format", "sarif", "--", policy).stdout)
    before = run("git", "show", f"{base}:{policy}")
    if before.returncode:
        return lint.returncode, f"{policy}: new\n", sarif["runs"]
    old = Path("before.yaml")
    old.write_text(before.stdout, "utf-8")
    asked = ("--fail-on", "version", "--", str(old), policy)
    diff = run(*cloakwork, "diff", "--format", "github", *asked)
    print(diff.stdout, end="")
    words = run(*cloakwork, "diff", "--", str(old), policy).stdout
    old.unlink()
    return max(lint.returncode, diff.returncode), f"{policy}:\n{words}", sarif["runs"]


def main(base: str, pattern: str) -> int:
    """Check all policies, and write the two files."""
    if run("git", "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").returncode:
        print(f"there is no commit {base!r} here: fetch it (fetch-depth: 0)", file=sys.stderr)
        return 2
    listed = run("git", "ls-files", "-z", "--", pattern).stdout
    found = [checked(policy, base) for policy in listed.split("\0") if policy]
    if not found:
        print(f"no policy is called {pattern}", file=sys.stderr)
        return 2
    # Indented, so that nothing which a policy says is read as markup.
    words = "".join(changed for _, changed, _ in found)
    lines = "".join(f"    {line}\n" for line in words.splitlines())
    Path("comment.md").write_text(f"{HEADER}\n{lines}", "utf-8")
    runs = [each for _, _, several in found for each in several]
    if runs:  # each lists the same rules: one run holds the results of all
        whole = runs[0] | {"results": [one for each in runs for one in each["results"]]}  # type: ignore[attr-defined]
        Path("lint.sarif").write_text(json.dumps({"version": "2.1.0", "runs": [whole]}), "utf-8")
    return max(code for code, _, _ in found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
