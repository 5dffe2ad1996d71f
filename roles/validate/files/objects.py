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
import email.utils
import http.client
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

#: Seconds of one call of the CLI, whose own start takes a second or more, and those that a deletion gets.
CALL, DELETION = 20.0, 10.0
SLOW = 124
_CODE = re.compile(r"\((\w{1,40})\) when calling the (\w{1,40}) operation")
NETWORK = (
    "see its route there: a NAT, or a gateway endpoint of S3 in its VPC; then AWS_ENDPOINT_URL"
)
REGION = "set it by validate_exports (AWS_REGION), or in ~/.aws/config of this user"
#: Parts of messages of the CLI, which has the code of the store's error in brackets; what they mean; what helps.
#: The first one that is found counts.
KNOWN = (
    (
        r"\(RequestTimeTooSkewed\)|Signature (expired|not yet current)",
        "the clocks of the node and of the store differ{clock_off}",
        "correct that of the node: chronyc makestep there, then chronyc sources; if it is right, see the store",
    ),
    (
        r"\((PermanentRedirect|301|TemporaryRedirect|307|IllegalLocationConstraintException)\)"
        r"|\(AuthorizationHeaderMalformed\).*region",
        "the bucket is in another region{its_region}",
        REGION,
    ),
    (r"You must specify a region", "the CLI has no region{its_region}", REGION),
    (
        r"\((AccessDenied|403|AllAccessDisabled|AccountProblem)\)",
        "permission is denied",
        "allow s3:PutObject, s3:GetObject and s3:DeleteObject there for this user, or the role of the instance",
    ),
    (
        r"\((NoSuchBucket|InvalidBucketName)\)",
        "there is no such bucket",
        "create it, or correct validate_buckets",
    ),
    (r"\((404|NoSuchKey)\)", "the object that was written is not there", "see the store"),
    (
        r"\((QuotaExceeded|XMinioStorageFull|InsufficientStorage|507)\)",
        "the store is full",
        "make room there, or raise the quota of the bucket",
    ),
    (
        r"\(InvalidAccessKeyId\)",
        "the access key is not valid: the store does not know it",
        "renew it, in ~/.aws/credentials of this user there; another store than S3 needs AWS_ENDPOINT_URL",
    ),
    (
        r"\(SignatureDoesNotMatch\)",
        "the secret key is not valid for its access key",
        "copy both again, whole, into ~/.aws/credentials of this user there",
    ),
    (
        r"\((ExpiredToken|InvalidToken|TokenRefreshRequired)\)|[Tt]oken .*(expired|refresh)",
        "the credentials have expired, or are not valid",
        "renew them; the role of the instance renews its own",
    ),
    (
        r"config profile|Partial credentials",
        "the credentials are incomplete: a profile or one of the two keys is missing",
        "see AWS_PROFILE, and ~/.aws/credentials of this user there",
    ),
    (
        r"[Uu]nable to locate credentials|credentials",
        "the credentials are missing: the CLI finds none",
        "give the instance a role, or this user ~/.aws/credentials there, with mode 0600",
    ),
    (
        r"proxy URL",
        "the proxy cannot be reached",
        "see HTTPS_PROXY and NO_PROXY in validate_exports and in the environment of the node",
    ),
    (
        r"SSL validation failed|CERTIFICATE_VERIFY_FAILED",
        "the certificate of the store is not trusted",
        "see AWS_CA_BUNDLE, the name in AWS_ENDPOINT_URL, and the clock of the node",
    ),
    (
        r"Could not connect|Connection refused|Name or service not known|Failed to resolve",
        "the store cannot be reached{unknown_name}",
        NETWORK,
    ),
    (r"Connect timeout", "the store cannot be reached: nothing answers in time", NETWORK),
    (
        r"[Tt]imeout|timed out|\((SlowDown|503|RequestTimeout|ServiceUnavailable)\)|Connection was closed",
        "the store did not answer in time",
        "see the load of the store, and the network to it; then run the check again",
    ),
)
SLOWNESS = KNOWN[-1]
#: Those that are no fault of the node that can be told from a slow network.
SLOW_ONES = tuple(what for _pattern, what, _remedy in KNOWN[-2:])
#: Answers to a read that worked a moment ago: the object is gone. Without the right to list, S3 calls that denied.
GONE = re.compile(r"\((404|NoSuchKey|403|AccessDenied)\)")
#: Variables whose values are not printed, whoever repeats them.
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: Seconds by which a clock may differ from another one without a word; a Date has whole ones.
SAME = 5.0


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
    target = next(one for one in argv if one.startswith("s3://"))
    said = said.replace(target, "")
    for pattern, what, remedy in KNOWN:
        if not re.search(pattern, said):
            continue
        seen = {key: tell(target, said) for key, tell in SEEN.items() if "{" + key in what}
        code_of = SLOW if what in SLOW_ONES else 1
        late = what == SLOWNESS[1]
        raise Refused(f"{step}: {what.format(**seen)}{named}", remedy, code_of, said, late)
    what = f"{step}: aws ended with {done.returncode}{named}"
    raise Refused(what, "run it there by hand", said=said)


def setting(names: tuple[str, ...], key: str) -> str:
    """Return a setting of the CLI from the environment, or from the user's configuration; "" without one."""
    for name in names:
        if os.environ.get(name):
            return os.environ[name]
    try:
        done = subprocess.run(
            ["aws", "configure", "get", key],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.decode("utf-8", "replace").strip()


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: what matters is the answer of the store that was asked."""

    def redirect_request(self, *_arguments: object) -> None:
        """Return no request."""


def headers(target: str) -> dict[str, str]:
    """Ask for the bucket of an object without credentials; return the headers of the answer, {} without one."""
    region = setting(("AWS_REGION", "AWS_DEFAULT_REGION"), "region") or "us-east-1"
    suffix = ".cn" if region.startswith("cn-") else ""
    store = setting(("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "endpoint_url")
    store = store or f"https://s3.{region}.amazonaws.com{suffix}"
    try:
        trusted = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or None)
        opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=trusted))
        asked = urllib.request.Request(f"{store.rstrip('/')}/{target.split('/')[2]}", method="HEAD")
        with opener.open(asked, timeout=5) as answer:
            found = answer.headers
    except urllib.error.HTTPError as error:
        found = error.headers
        error.close()
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    return {name.lower(): value for name, value in found.items()}


def clock_off(target: str, said: str) -> str:
    """Return how far the clock of this node is from that of the store, in words; "" where nobody says."""
    try:
        there = email.utils.parsedate_to_datetime(headers(target).get("date", "")).timestamp()
    except (TypeError, ValueError, IndexError):
        return ""
    off = time.time() - there
    if abs(off) < SAME:
        return ""
    hours, seconds = divmod(round(abs(off)), 3600)
    words = [(hours // 24, "d"), (hours % 24, "h"), (seconds // 60, "min"), (seconds % 60, "s")]
    shown = " ".join(f"{number} {unit}" for number, unit in words if number)
    return f": the node's is {shown} {'ahead' if off > 0 else 'behind'}"


def its_region(target: str, said: str) -> str:
    """Return the region of the bucket as the store says it, in words; "" where it does not."""
    match = re.search(r"expecting '([a-z0-9-]{1,40})'", said)
    found = match[1] if match else headers(target).get("x-amz-bucket-region", "")
    return f": the store answers {found}" if re.fullmatch(r"[a-z0-9-]{1,40}", found) else ""


def unknown_name(target: str, said: str) -> str:
    """Return in words that the name of the store is not known; "" where it is, or no name is in the message."""
    match = re.search(r"https?://(?:[^/@\s\"]*@)?([A-Za-z0-9.-]+)", said)
    if not match:
        return ""
    try:
        socket.getaddrinfo(match[1], None)
    except OSError:
        return f": no name server knows {match[1]} (see /etc/resolv.conf there, and the region)"
    return ""


#: What a fault is told with, by the name in its words.
SEEN = {one.__name__: one for one in (clock_off, its_region, unknown_name)}


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


def shown(line: str) -> str:
    """Return a line without the credentials of the environment."""
    for one in SECRETS:
        if os.environ.get(one):
            line = line.replace(os.environ[one], "***")
    return line


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
            print(shown(f"{bucket}: {error}"), flush=True)
            found.append((bucket, error))
    if not found:
        print("all buckets answer")
        return
    # A fault counts more than a slow store; the last line is shown.
    found.sort(key=lambda one: one[1].code, reverse=True)
    if len(found) > 1:
        print(shown(f"{found[-1][0]}: {found[-1][1]}"))
    sys.exit(found[-1][1].code)


if __name__ == "__main__":
    main()
