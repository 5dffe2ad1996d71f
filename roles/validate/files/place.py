# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes a directory for this job on the mount of $VALIDATION_MOUNT, the same for all its tasks, and prints its path."""

from __future__ import annotations

import os
import stat
import sys


def own(path: str) -> None:
    """Make a directory for this user alone. Where others may write, somebody may have put one of that name there."""
    os.makedirs(path, 0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        sys.exit(f"{path}: somebody else has put it there -> remove it")


def main() -> None:
    """Print the first of $VALIDATION_PLACES in which this user may write."""
    mount = os.environ["VALIDATION_MOUNT"]
    for place in os.environ["VALIDATION_PLACES"].split(":"):
        path = os.path.realpath(os.path.expanduser(place))
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            mine = os.path.join(path, f"validation-{os.environ['SLURM_JOB_ID']}")
            own(mine)
            print(mine)
            return
    sys.exit(
        f"{mount}: this user may not write there -> declare a directory for users: cluster_mounts[].directories"
    )


if __name__ == "__main__":
    main()
