"""What a suggestion says of itself where nobody said it."""

from pathlib import Path

from cloakwork.authoring.suggestion import NO_PURPOSE, header_of


def test_names_of_files_become_names_of_policies() -> None:
    """In the letters that a policy allows."""
    header = header_of(
        Path("Mühle & Söhne.xes.gz"), Path("..yaml"), dataset=None, owner="me", purpose=None
    )
    assert header.dataset == "m-hle-s-hne"
    assert (header.name, header.owner, header.purpose) == ("log", "me", NO_PURPOSE)
