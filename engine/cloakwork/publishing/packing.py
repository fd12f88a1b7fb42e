"""Packing a release for sending: verified as it is sent, whole or not at all."""

import os
import secrets
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.publishing.archive import pack_folder
from cloakwork.publishing.folder import check_entries, holds_internal
from cloakwork.publishing.verify import Verification, verify


def pack(folder: Path, out: Path, *, public_key: Path | None = None) -> Verification:
    """Write the public parts of the release in ``folder`` to ``out``, and return what was verified
    of them.

    What is verified is the packed file itself, before it gets its name. Raises VerificationFailed
    where the release is not what it says or a guarantee of it is void, OutputError where ``out``
    exists or cannot be written.
    """
    if out.exists() or out.is_symlink():
        raise OutputError(f"{out}: exists already, and nothing is overwritten; name a new file")
    if folder.resolve() in out.resolve().parents:
        raise OutputError(f"{out}: lies in the release itself; name a file outside it")
    draft = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        names = pack_folder(folder, draft)
        checks = check_entries(folder, names)
        wrong = [check.says for check in checks if not check.holds]
        if wrong:
            raise VerificationFailed(wrong)
        found = verify(draft, public_key=public_key)
        os.link(draft, out)
    except FileExistsError:
        raise OutputError(
            f"{out}: exists already, and nothing is overwritten; name a new file"
        ) from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    return replace(found, path=out, internal=holds_internal(folder))
