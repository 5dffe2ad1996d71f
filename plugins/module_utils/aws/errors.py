# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors of AWS in one line a person can act on: which call, where, why, and what to do.

Sources: the lists of common errors in the API references of EC2, FSx, STS and Service Quotas.
"""

from __future__ import annotations

import re
import typing as t
from contextlib import contextmanager

from ..node.terminal import printable

try:
    from botocore import exceptions as botocore_exceptions
    from botocore import parsers as botocore_parsers

    BOTO_ERRORS: tuple[type[Exception], ...] = (
        botocore_exceptions.BotoCoreError,
        botocore_exceptions.ClientError,
        # Not one of botocore's own errors: the answer cannot be read.
        botocore_parsers.ResponseParserError,
    )
except ImportError:  # who needs botocore says so (amazon.aws' own message)
    BOTO_ERRORS = ()

# botocore's name of a service -> its prefix in IAM, where they differ.
IAM_PREFIX = {"service-quotas": "servicequotas"}

DENIED = {
    "AccessDenied", "AccessDeniedException", "AuthorizationError", "Client.UnauthorizedOperation",
    "UnauthorizedOperation",
}  # fmt: skip
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
UNKNOWN_CREDENTIALS = {
    "AuthFailure", "IncompleteSignature", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}  # fmt: skip
THROTTLED = {
    "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException",
    "TooManyRequestsException", "RequestThrottled", "RequestThrottledException",
}  # fmt: skip
NO_CREDENTIALS = {
    "CredentialRetrievalError", "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound",
}  # fmt: skip
NO_CONNECTION = {
    "ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError", "ProxyConnectionError",
    "ReadTimeoutError", "SSLError",
}  # fmt: skip
NOT_HERE = {"OptInRequired", "UnsupportedOperation", "InvalidAction", "UnknownOperationException"}
#: Our code for an answer that is not AWS' own, or not whole; see answers.py.
INCOMPLETE = "IncompleteAnswer"
#: Characters of AWS' text, or a proxy's, that a message shows.
LONGEST = 500
WHO = re.compile(r"\barn:[\w-]+:(?:iam|sts)::(?P<account>\d+):\S+")

# A call that is throttled or meets a broken connection is tried again with growing pauses, by botocore itself.
RETRIES = {"mode": "standard", "total_max_attempts": 8}


class AwsProblem(Exception):
    """A failed AWS call, described in one line.

    Attributes:
        action: its name in IAM, as in ec2:DescribeInstances.
        region: where it was asked.
        code: AWS' own code, as in UnauthorizedOperation; empty where no answer came.
    """

    def __init__(self, message: str, action: str = "", region: str = "", code: str = "") -> None:
        super().__init__(printable(message))
        self.action, self.region, self.code = action, region, code


def action_of(service: str, operation: str) -> str:
    """The name of an operation in IAM's policies.

    >>> action_of("service-quotas", "GetServiceQuota")
    'servicequotas:GetServiceQuota'
    """
    return f"{IAM_PREFIX.get(service, service)}:{operation}"


def code_of(error: BaseException) -> str:
    """AWS' code of an error; empty where it is none of AWS' answers."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""


def explain(error: BaseException, service: str, operation: str, region: str = "") -> AwsProblem:
    """Explain a failed call and name the remedy.

    Args:
        error: what boto3 raised (ClientError or BotoCoreError).
        service: botocore's name, as in `ec2`, `fsx`, `service-quotas`.
        operation: as in DescribeInstances.
        region: as in eu-west-1.
    """
    action, code = action_of(service, operation), code_of(error)
    response = getattr(error, "response", None)
    said = (
        response.get("Error", {}).get("Message") if isinstance(response, dict) else None
    ) or str(error)
    # Encoded authorization failures are long, and reading them needs another permission.
    said = re.split(r"\s*Encoded authorization failure message", said)[0].rstrip(". ")
    # A proxy's page is long, and has control characters for all we know.
    said = "".join(one if one.isprintable() else " " for one in said)
    said = said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."
    where = f"{action} in {region}" if region else action
    return AwsProblem(
        f"{where}: {_meaning(error, code, said, action, region)}", action, region, code
    )


def _meaning(error: BaseException, code: str, said: str, action: str, region: str) -> str:
    name, response = type(error).__name__, getattr(error, "response", None)
    if code in DENIED:
        who = WHO.search(said)
        whose = f" {who.group(0).rstrip('.,')}" if who else " these credentials"
        return f"the permission {action} is missing for{whose} -> allow it in their policy (docs/aws.md has it whole)"
    if code in EXPIRED:
        return "the credentials have expired -> get new ones (aws sso login, or assume the role again) and run again"
    if code in UNKNOWN_CREDENTIALS:
        return (
            f"AWS does not accept the credentials ({code}) -> check them with `aws sts get-caller-identity`, that the "
            f"clock is right, and that the account has {region or 'the region'} enabled"
        )
    if code in THROTTLED:
        return (
            f"AWS still refused after {RETRIES['total_max_attempts']} tries because of too many calls ({code}) -> "
            "wait and run again, or ask for fewer things at once"
        )
    # botocore's names of errors without a code of AWS.
    if (code in ("", "Unknown") or code.isdigit()) and isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", code)
        said, code = f"HTTP status {status} without an error of AWS", INCOMPLETE
    if code == INCOMPLETE or name == "ResponseParserError":
        return (
            f"the response is not a whole answer of AWS ({said}) -> look at the proxy between here and AWS "
            "(HTTPS_PROXY), or log in to the network, and run again"
        )
    if code in NOT_HERE:
        return f"not available here ({code}: {said}) -> enable it for the account, or leave this region out"
    if name in NO_CREDENTIALS:
        return (
            f"no usable credentials ({said}) -> set a profile, AWS_* variables or an instance role"
        )
    if name in ("TokenRetrievalError", "UnauthorizedSSOTokenError", "SSOTokenLoadError"):
        return f"the single sign-on has ended ({said}) -> run `aws sso login` and run again"
    if name in NO_CONNECTION:
        return f"no connection ({said}) -> check the region's name, the network and the proxy (HTTPS_PROXY)"
    if name in ("NoRegionError", "InvalidRegionError"):
        return f"{said} -> name a region, as in eu-west-1"
    return f"{code}: {said}" if code else said


@contextmanager
def explained(service: str, operation: str, region: str = "") -> t.Iterator[None]:
    """Turn boto3's errors inside of the block into an AwsProblem.

    Raises:
        AwsProblem: made by :func:`explain`.
    """
    try:
        yield
    except BOTO_ERRORS as error:
        raise explain(error, service, operation, region) from error
