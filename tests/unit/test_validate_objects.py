# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""objects.py of role validate against a store that fails as stores do, by a stand-in for the AWS CLI.

tests/integration/test_validate.py has the CLI itself, as jobs on nodes.
"""

from __future__ import annotations

import email.utils
import os
import subprocess
import sys
import time
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    Result,
    Verdict,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.collect import Output
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host

from tests.fixtures.aws.s3 import Request, Store

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "roles" / "validate" / "files" / "objects.py"
# The commands of the CLI that the program calls, with its words for errors.
CLI = f"""#!{sys.executable} -SE
import os, re, sys, urllib.error, urllib.request
sys.argv[1:] = [word for word in sys.argv[1:] if word != "--only-show-errors"]
if sys.argv[1:3] == ["configure", "get"]:
    sys.exit(1)
assert sys.argv[1:5:2] == ["--cli-connect-timeout", "--cli-read-timeout"] and sys.argv[5] == "s3", sys.argv
command, *names = sys.argv[6:]
if "SAYS" in os.environ:
    sys.exit(os.environ["SAYS"])
key = next(name for name in names if name != "-").removeprefix("s3://")
if not os.environ["AWS_SECRET_ACCESS_KEY"]:
    sys.exit("upload failed: Unable to locate credentials")
data = sys.stdin.buffer.read() if names[0] == "-" else None

def call(method, operation):
    for last in (False, True):
        asked = urllib.request.Request(f"{{os.environ['AWS_ENDPOINT_URL']}}/{{key}}", data, method=method)
        asked.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x")
        try:
            return urllib.request.urlopen(asked, timeout=1).read()
        except urllib.error.HTTPError as error:
            found = re.search(r"<Code>(\\w+)", error.read().decode())
            code = found[1] if found else error.code
            if last or error.code < 500:
                sys.exit(f"fatal error: An error occurred ({{code}}) when calling the {{operation}} operation: x")
        except OSError as error:
            refused = "refused" in str(error)
            if last or refused:
                sys.exit("fatal error: " + ("Could not connect" if refused else "Read timeout"))

if command == "rm":
    call("DELETE", "DeleteObject")
elif names[0] == "-":
    call("PUT", "PutObject")
else:
    call("HEAD", "HeadObject")
    sys.stdout.buffer.write(call("GET", "GetObject"))
"""


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the stand-in."""
    place = tmp_path_factory.mktemp("cli")
    (place / "aws").write_text(CLI)
    (place / "aws").chmod(0o755)
    return place


def use(
    store: Store, cli: Path, buckets: str = "s3://bucket/some/", **more: str
) -> tuple[Result, str]:
    """Run the program as a check of a node; return the result of the check, and all that was printed."""
    given = {
        **os.environ,
        **store.environment,
        "PATH": f"{cli}:{os.environ['PATH']}",
        "VALIDATION_BUCKETS": buckets,
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "c1",
        **more,
    }
    done = subprocess.run(
        [sys.executable, PROGRAM, "--seconds=40", "--pause=1.5"],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    text = (ROOT / "roles/validate/vars/main/storage.yml").read_text(encoding="utf-8")
    named = yaml.safe_load(text)["__validate_storage"]["object_store"]
    (check,) = catalogue.load({"object_store": named})
    assert 'objects.py" --seconds' in check.command
    reading = verdicts.read(check, Output(done.stdout, done.returncode, 1))
    (found,) = verdicts.expected(check, {"c1": verdicts.Place((Host("c1"),))}, {"c1": reading})
    return found, done.stdout


def test_an_object_is_written_read_and_deleted(cli: Path) -> None:
    with Store(("bucket", "other")) as store:
        found, said = use(store, cli, "s3://bucket/some/ s3://other")
        assert found.verdict is Verdict.PASS, said
        assert store.count["PutObject"] == store.count["DeleteObject"] == 2
        assert not store.bucket and not store.objects["other"]


def answers(store: Store, operation: str, data: bytes) -> None:
    """Let a store answer an operation with 200 and these bytes, whatever it was asked."""
    setattr(store, f"_{operation}", lambda _request: ({"ETag": '"x"'}, data))


def late(_request: Request) -> None:
    time.sleep(1.5)


def lying_deletion(store: Store) -> None:
    """Answer 204 to a deletion, delete nothing, and do not answer the read that would show it."""
    answers(store, "DeleteObject", b"")
    store.on("DeleteObject", lambda _request: store.fail("GetObject", "SlowDown", 503))


def write_only(store: Store) -> None:
    for operation in ("GetObject", "DeleteObject"):
        store.fail(operation, "AccessDenied", 403)


FAULTS: list[tuple[str, Callable[[Store], t.Any], Verdict, str, str]] = [
    ("write-403", lambda one: one.fail("PutObject", "AccessDenied", 403), Verdict.FAIL, "write: perm", "allow s3:"),
    ("read-403", lambda one: one.fail("GetObject", "AccessDenied", 403), Verdict.FAIL, "read: permission", "allow s3:"),
    ("delete-403", lambda one: one.fail("DeleteObject", "AccessDenied", 403), Verdict.FAIL, "is left", "allow s3:"),
    ("404", lambda one: one.objects.clear(), Verdict.FAIL, "no such bucket", "correct validate_buckets"),
    ("500", lambda one: one.fail("PutObject", "InternalError", 500), Verdict.FAIL, "InternalError", "by hand"),
    ("503", lambda one: one.fail("PutObject", "SlowDown", 503), Verdict.INCOMPLETE, "not answer in time", "load"),
    ("slow", lambda one: one.on("PutObject", late), Verdict.INCOMPLETE, "not answer in time", "load"),
    ("slow-read", lambda one: one.on("GetObject", late), Verdict.INCOMPLETE, "read: the store did not", "load"),
    ("a-page", lambda one: answers(one, "GetObject", b"<html>welcome"), Verdict.FAIL, "other data", "a proxy"),
    ("other-bytes", lambda one: answers(one, "GetObject", b"5" * 1024), Verdict.FAIL, "other data", "a proxy"),
    ("stores-nothing", lambda one: answers(one, "PutObject", b""), Verdict.FAIL, "is not there", "see the store"),
    ("lies-and-hides", lying_deletion, Verdict.INCOMPLETE, "may be left", "load"),
    ("write-only", write_only, Verdict.FAIL, "may be left", "allow s3:"),
    ("keeps-it", lambda one: answers(one, "DeleteObject", b""), Verdict.FAIL, "is still there", "delete s3://bucket/"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "verdict", "what", "remedy"),
    [row[1:] for row in FAULTS],
    ids=[row[0] for row in FAULTS],
)
def test_a_store_that_fails_never_passes_and_keeps_nothing(
    cli: Path, fault: Callable[[Store], t.Any], verdict: Verdict, what: str, remedy: str
) -> None:
    with Store() as store:
        fault(store)
        found, said = use(store, cli)
        assert found.verdict is verdict and what in found.detail and remedy in found.remedy, said
        # Where it may delete, nothing is left: whatever failed before.
        store.quiet()
        kept = store.objects.get("bucket", {})
        left = what in ("is left", "is still there", "may be left")
        assert len(kept) == left, list(kept)
        assert all(f"s3://bucket/{name}" in said for name in kept), "what is left has a name"


def test_a_store_that_nobody_reaches_fails(cli: Path) -> None:
    with Store() as store:
        found, said = use(store, cli, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert found.verdict is Verdict.FAIL and "cannot be reached" in found.detail, said
    assert "AWS_ENDPOINT_URL" in found.remedy


def test_credentials_are_named_as_the_reason_and_never_printed(cli: Path) -> None:
    with Store() as store:
        found, _said = use(store, cli, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
        assert found.verdict is Verdict.FAIL and "credentials are missing" in found.detail
        store.fail("PutObject", "InvalidAccessKeyId", 403)
        secret = {"AWS_ACCESS_KEY_ID": "AKIASESAME", "AWS_SECRET_ACCESS_KEY": "Sesame-77-open"}
        found, said = use(store, cli, **secret)
    assert found.verdict is Verdict.FAIL and "not valid" in found.detail
    assert "Sesame" not in said and "AKIASESAME" not in said


def test_a_cli_that_cannot_run_is_no_fault_of_the_node(tmp_path: Path) -> None:
    with Store() as store:
        found, said = use(store, tmp_path, PATH=str(tmp_path))
    assert found.verdict is Verdict.INCOMPLETE and "aws cannot run" in found.detail, said


def test_one_bad_bucket_of_two_is_named(cli: Path) -> None:
    with Store() as store:
        found, said = use(store, cli, "s3://none s3://bucket")
    assert (
        found.verdict is Verdict.FAIL
        and "s3://none: write: there is no such bucket" in found.detail
    )
    assert not store.bucket and store.count["GetObject"] == 1, said


def test_a_fault_comes_before_a_slow_store(cli: Path) -> None:
    with Store(("bucket", "slow")) as store:
        store.on("PutObject", lambda request: late(request) if request.bucket == "slow" else None)
        answers(store, "GetObject", b"other")
        found, said = use(store, cli, "s3://bucket s3://slow")
    assert found.verdict is Verdict.FAIL and "other data" in found.detail, said


ERROR = "upload failed: - to s3://bucket/some/x An error occurred ({}) when calling the PutObject operation: {}"
SECRET = {
    "AWS_ACCESS_KEY_ID": "AKIASESAME",
    "AWS_SECRET_ACCESS_KEY": "Sesame-77-open",
    "AWS_SESSION_TOKEN": "Session-88-token",
}
# What the CLI prints (botocore/exceptions.py; S3's "Error responses"), and the result: verdict, words, remedy.
FAIL, SLOW = Verdict.FAIL, Verdict.INCOMPLETE
SAYS: dict[str, tuple[str, Verdict, str, str]] = {
    "no-bucket": (
        ERROR.format("NoSuchBucket", "The specified bucket does not exist"),
        FAIL, "no such bucket", "create it",
    ),
    "denied": (
        ERROR.format("AccessDenied", "Access Denied"),
        FAIL, "permission is denied (AccessDenied", "allow s3:",
    ),
    "key": (
        ERROR.format("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        FAIL, "access key is not valid", "~/.aws/credentials",
    ),
    "signature": (
        ERROR.format("SignatureDoesNotMatch", "The request signature we calculated does not match"),
        FAIL, "secret key is not valid", "copy both",
    ),
    "expired": (ERROR.format("ExpiredToken", "The provided token has expired."), FAIL, "have expired", "renew"),
    "sso": (
        "Error when retrieving token from sso: Token has expired and refresh failed",
        FAIL, "have expired", "renew",
    ),
    "none": ("upload failed: - to s3://bucket/x Unable to locate credentials", FAIL, "the CLI finds none", "a role"),
    "half": (
        "upload failed: x Partial credentials found in env, missing: AWS_SECRET_ACCESS_KEY",
        FAIL, "incomplete", "AWS_PROFILE",
    ),
    "profile": ("The config profile (other) could not be found", FAIL, "a profile", "AWS_PROFILE"),
    "dns": (
        'x Could not connect to the endpoint URL: "https://bucket.s3.invalid/some/x"',
        FAIL, "no name server knows bucket.s3.invalid", "a NAT",
    ),
    "connect": (
        'x Connect timeout on endpoint URL: "https://bucket.s3.eu-west-1.amazonaws.com/x"',
        SLOW, "nothing answers in time", "a gateway endpoint",
    ),
    "read": (
        'x Read timeout on endpoint URL: "https://bucket.s3.eu-west-1.amazonaws.com/x"',
        SLOW, "did not answer in time", "load",
    ),
    "proxy": (
        'x Failed to connect to proxy URL: "http://user:Sesame-77-open@proxy:3128"',
        FAIL, "the proxy cannot be reached", "HTTPS_PROXY",
    ),
    "certificate": (
        "x SSL validation failed for https://x [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
        FAIL, "not trusted", "AWS_CA_BUNDLE",
    ),
    "no-region": (
        "You must specify a region. You can also configure your region by running",
        FAIL, "has no region", "AWS_REGION",
    ),
    "expecting": (
        ERROR.format("AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-north-1'"),
        FAIL, "another region: the store answers eu-north-1", "AWS_REGION",
    ),
    "malformed": (
        ERROR.format("AuthorizationHeaderMalformed", "a non-empty Access Key (AKID) must be provided"),
        FAIL, "aws ended with 1 (AuthorizationHeaderMalformed", "by hand",
    ),
    "full": (
        ERROR.format("XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."),
        FAIL, "the store is full", "make room",
    ),
    "repeats": (ERROR.format("AKIASESAME", "x"), FAIL, "(***, PutObject)", "by hand"),
}  # fmt: skip


@pytest.mark.parametrize(("says", "verdict", "what", "remedy"), SAYS.values(), ids=list(SAYS))
def test_each_fault_has_a_remedy_and_shows_no_credential(
    cli: Path, says: str, verdict: Verdict, what: str, remedy: str
) -> None:
    with Store() as store:
        found, said = use(store, cli, SAYS=f"{says} Sesame-77-open Session-88-token", **SECRET)
    assert found.verdict is verdict and what in found.detail and remedy in found.remedy, said
    assert said.count("\n") == 1 and "s3://bucket/some/: write: " in found.detail
    assert not [one for one in SECRET.values() if one in said]


@pytest.mark.parametrize(
    ("off", "words"),
    [(0, "differ (Req"), (-1205, "the node's is 20 min"), (90061, "the node's is 1 d 1 h 1 min")],
)
def test_a_clock_that_is_wrong_is_measured(cli: Path, off: int, words: str) -> None:
    with Store() as store:
        store.headers["Date"] = email.utils.formatdate(time.time() - off, usegmt=True)
        store.fail("PutObject", "RequestTimeTooSkewed", 403)
        found, said = use(store, cli)
    assert found.verdict is Verdict.FAIL and words in found.detail, said
    assert ("ahead" if off > 0 else "behind" if off else "differ (") in found.detail
    assert "chronyc makestep" in found.remedy


@pytest.mark.parametrize("code", ["PermanentRedirect", "301"])
def test_the_region_of_a_bucket_elsewhere_is_named(cli: Path, code: str) -> None:
    with Store() as store:
        store.headers["x-amz-bucket-region"] = "eu-central-1"
        store.fail("PutObject", code, 400)
        found, said = use(store, cli)
        assert "another region: the store answers eu-central-1" in found.detail, said
        assert found.verdict is Verdict.FAIL and "AWS_REGION" in found.remedy
        # What a store answers is printed only where it can be a region.
        store.headers["x-amz-bucket-region"] = "x -> \x1b[31mrun this"
        found, said = use(store, cli)
        assert "another region (" in found.detail and "run this" not in said
