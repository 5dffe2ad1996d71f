# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes, reads and deletes an object in each bucket of $VALIDATION_BUCKETS by the AWS CLI, from this node.

Ends with 1 where a bucket cannot be used or returned other data, and with 124 where it did not answer in time. The
object is deleted whatever happened before. Its name and its data are new each time, so that neither a store that
answers everything with 200 nor an older object passes. Credentials are those that the CLI finds: nothing here has them
as an argument, and nothing of its messages is printed but the code of an error.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import time

#: Seconds of one call of the CLI, whose own start takes a second or more, and those that a deletion gets.
CALL, DELETION = 20.0, 10.0
SLOW = 124
_CODE = re.compile(r"\((\w+)\) when calling the (\w+) operation")
#: Parts of messages, with what they mean, what helps, and whether the store is merely slow.
KNOWN = (
    (
        r"\((AccessDenied|403|AllAccessDisabled|AccountProblem)\)",
        "permission is denied",
        "allow s3:PutObject, s3:GetObject and s3:DeleteObject there for this user, or the role of the instance",
    ),
    (r"\(NoSuchBucket\)", "there is no such bucket", "create it, or correct validate_buckets"),
    (r"\((404|NoSuchKey)\)", "the object that was written is not there", "see the store"),
    (
        r"Unable to locate credentials|\((InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken)\)"
        r"|credentials|config profile",
        "the credentials are missing or not valid",
        "run `aws sts get-caller-identity` there as this user; they belong in ~/.aws or the role of the instance",
    ),
    (
        r"Could not connect|Connection refused|Name or service not known|Failed to resolve",
        "the store cannot be reached",
        "see the route to the endpoint of S3, its name, and AWS_ENDPOINT_URL",
    ),
    (
        r"[Tt]imeout|timed out|\((SlowDown|503|RequestTimeout|ServiceUnavailable)\)|Connection was closed",
        "the store did not answer in time",
        "see the load of the store, and the network to it; then run the check again",
    ),
)
SLOWNESS = KNOWN[-1]
#: Answers to a read that worked a moment ago: the object is gone. Without the right to list, S3 calls that denied.
GONE = re.compile(r"\((404|NoSuchKey|403|AccessDenied)\)")


class Refused(Exception):
    """What is wrong with a bucket: words, what helps, the exit code, and what the CLI said.

    late: the store may do yet what it was asked for.
    """

    def __init__(
        self, what: str, remedy: str, code: int = 1, said: str = "", late: bool = False
    ) -> None:
        super().__init__(f"{what} -> {remedy}")
        self.what, self.remedy, self.code, self.said, self.late = what, remedy, code, said, late


def aws(step: str, argv: list[str], seconds: float, data: bytes = b"") -> bytes:
    """Run the CLI, and return its output. Raises Refused."""
    if seconds <= 0:
        raise Refused(f"{step}: no time is left", "raise the deadline of the check", SLOW)
    limits = ["--cli-connect-timeout", "5", "--cli-read-timeout", "10"]
    # A write that is tried again may arrive when the object has been deleted already.
    tries = "1" if step == "write" else "2"
    given = {**os.environ, "AWS_MAX_ATTEMPTS": tries, "AWS_RETRY_MODE": "standard", "AWS_PAGER": ""}
    try:
        done = subprocess.run(
            ["aws", *limits, "s3", *argv, "--only-show-errors"],
            input=data,
            capture_output=True,
            timeout=seconds,
            env=given,
            check=False,
        )
    except subprocess.TimeoutExpired:
        what = f"{step}: {SLOWNESS[1]} ({seconds:.0f} s)"
        raise Refused(what, SLOWNESS[2], SLOW, late=True) from None
    except OSError as error:
        raise Refused(
            f"{step}: aws cannot run: {error.strerror}", "install the AWS CLI", 127
        ) from None
    if not done.returncode:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace")
    code = _CODE.search(said)
    named = f" ({code[1]}, {code[2]})" if code else ""
    for pattern, what, remedy in KNOWN:
        if re.search(pattern, said):
            slow = what == SLOWNESS[1]
            raise Refused(f"{step}: {what}{named}", remedy, SLOW if slow else 1, said, slow)
    what = f"{step}: aws ended with {done.returncode}{named}"
    raise Refused(what, "run it there by hand", said=said)


def use(bucket: str, end: float, pause: float) -> None:
    """Write, read and delete an object. Raises Refused.

    end: by the monotonic clock. pause: seconds after which an object is deleted again whose write had no answer.
    """
    node, job = os.environ["SLURMD_NODENAME"], os.environ["SLURM_JOB_ID"]
    name = f"{bucket.rstrip('/')}/validation-{job}-{node}-{secrets.token_hex(8)}"
    data = secrets.token_hex(512).encode()

    def left() -> float:
        return min(CALL, end - time.monotonic() - DELETION)

    written = gone = False
    try:
        aws("write", ["cp", "-", name], left(), data)
        written = True
        if aws("read", ["cp", name, "-"], left()) != data:
            raise Refused(
                "read: the store answered with other data than was written",
                "see what answers at this endpoint: a proxy, or a store that has lost data",
            )
        gone = True
        delete(name, DELETION)
        prove_gone(name, data, left())
    except Refused as error:
        if gone or not (written or error.late):
            raise
        if not clean(name, pause if error.late and not written else 0):
            what = f"{error.what}; {name} may be left"
            raise Refused(what, error.remedy, error.code) from None
        raise
    except SystemExit:
        clean(name, 0)
        raise


def clean(name: str, pause: float) -> bool:
    """Delete what may have been written, twice where the store may be at it still; return whether it surely is gone."""
    done = False
    for seconds in (0, pause) if pause else (0,):
        time.sleep(seconds)
        try:
            delete(name, DELETION)
            done = not pause
        except Refused:
            done = False
    return done


def delete(name: str, seconds: float) -> None:
    """Delete the object. Raises Refused with its name."""
    try:
        aws("delete", ["rm", name], seconds)
    except Refused as error:
        raise Refused(f"{error.what}: {name} is left", error.remedy, error.code) from None


def prove_gone(name: str, data: bytes, seconds: float) -> None:
    """Read the object after its deletion. Raises Refused where it is there, and where nobody can tell."""
    try:
        there = aws("read", ["cp", name, "-"], seconds) == data
    except Refused as error:
        if GONE.search(error.said):
            return
        what = f"{name} may be left, {error.what}"
        raise Refused(what, error.remedy, error.code) from None
    if there:
        raise Refused("delete: the object is still there", f"delete {name}, and see the store")


def main() -> None:
    """Use each bucket, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=100.0, help="for all buckets together")
    parser.add_argument(
        "--pause", type=float, default=5.0, help="before what may be late is deleted"
    )
    given = parser.parse_args()
    # Whoever ends the job gets the object deleted as well.
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(SLOW))
    end = time.monotonic() + given.seconds
    found: list[tuple[str, Refused]] = []
    for bucket in os.environ["VALIDATION_BUCKETS"].split():
        try:
            use(bucket, end, given.pause)
        except Refused as error:
            # At once: a deadline may end the rest.
            print(f"{bucket}: {error}", flush=True)
            found.append((bucket, error))
    if not found:
        print("all buckets answer")
        return
    # A fault counts more than a slow store; the last line is shown.
    found.sort(key=lambda one: one[1].code, reverse=True)
    if len(found) > 1:
        print(f"{found[-1][0]}: {found[-1][1]}")
    sys.exit(found[-1][1].code)


if __name__ == "__main__":
    main()
