# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rights that a user of MariaDB has on a database of this machine, with the digest of the user's password.

Asked by root through the server's socket. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import shutil
import subprocess

from .manifest import Item
from .services import run

_PATIENCE_S = 20.0


#: ER_NONEXISTING_GRANT: the client's word for a user who is not there.
_NO_SUCH_USER = "ERROR 1141 "


class DatabaseError(Exception):
    """The server does not answer, or does not know the user."""


class NoSuchUser(DatabaseError):
    """The server answers, and does not know the user."""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def rights(database: str, user: str, socket: str) -> str:
    """Return the grants of a user, who logs in from this machine, and the database if it is there; a line each.

    Raises DatabaseError, and NoSuchUser where only the user is missing.
    """
    client = shutil.which("mariadb") or shutil.which("mysql")
    if not client:
        raise DatabaseError("there is no client of MariaDB")
    query = (
        f"SHOW GRANTS FOR {_quoted(user)}@'localhost';"
        f" SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {_quoted(database)}"
    )
    # --no-defaults: a file of root's may name another server, or a password.
    options = [
        "--no-defaults",
        "--user=root",
        f"--socket={socket}",
        "--batch",
        "--skip-column-names",
    ]
    try:
        said = run([client, *options, f"--execute={query}"], _PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise DatabaseError(f"the server does not answer within {_PATIENCE_S:g} s") from None
    except OSError as error:
        raise DatabaseError(f"{client}: {error.strerror or error}") from error
    if said.returncode and _NO_SUCH_USER in said.stderr:
        raise NoSuchUser(said.stderr.strip())
    if said.returncode:
        raise DatabaseError(said.stderr.strip() or f"{client} ended with {said.returncode}")
    return "\n".join(sorted(said.stdout.splitlines()))


def item_of(database: str, user: str, socket: str) -> Item:
    """Return the rights of a user for the manifest. Raises DatabaseError."""
    data = rights(database, user, socket).encode()
    return {"kind": "database", "name": database, "user": user, "socket": socket, "data": data}
