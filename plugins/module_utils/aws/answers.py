# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuses answers that are not AWS' own, or not whole: a proxy's page with status 200, a body that was cut off.

botocore reads such an answer as one without any item, so that a region, or a cluster's file systems, would vanish
without an error. Here it becomes an error that botocore tries again like an error of the server. A call
that nobody answers is tried less often, so a region that is down costs about a minute.

Source: the events before-parse and needs-retry of botocore's endpoint.py.
"""

from __future__ import annotations

import typing as t
from xml.parsers import expat

from .errors import INCOMPLETE, NO_CONNECTION, RETRIES

#: Seconds to wait for a connection, and for an answer; the same in the documentation of the option timeout.
CONNECT_TIMEOUT, READ_TIMEOUT = 5, 20
#: Tries of a call when nothing answers at all. With the timeouts above, that takes at most 63 s.
TRIES_WITHOUT_ANSWER = 3

#: By IAM's prefix and operation, the member that each good answer has, also when it is an empty list.
DEMANDED = {
    "ec2": {
        "DescribeCapacityBlocks": "CapacityBlocks",
        "DescribeCapacityReservations": "CapacityReservations",
        # As instances.py leaves it.
        "DescribeInstances": "TrainwrightInstances",
        "DescribeInstanceTopology": "Instances",
        "DescribeInstanceTypes": "InstanceTypes",
        "DescribeRegions": "Regions",
    },
    "fsx": {
        "CancelDataRepositoryTask": "Lifecycle",
        "CreateDataRepositoryAssociation": "Association",
        "CreateDataRepositoryTask": "DataRepositoryTask",
        "DeleteDataRepositoryAssociation": "Lifecycle",
        "DescribeDataRepositoryAssociations": "Associations",
        "DescribeDataRepositoryTasks": "DataRepositoryTasks",
        "DescribeFileSystems": "FileSystems",
        "DescribeStorageVirtualMachines": "StorageVirtualMachines",
        "DescribeVolumes": "Volumes",
        "UpdateDataRepositoryAssociation": "Association",
    },
    "pcs": {"GetCluster": "cluster", "GetQueue": "queue", "ListQueues": "queues"},
    "service-quotas": {"GetAWSDefaultServiceQuota": "Quota", "GetServiceQuota": "Quota"},
    "sts": {"AssumeRole": "Credentials", "GetCallerIdentity": "Account"},
}

Json = dict[str, t.Any]


def config(timeout: float = READ_TIMEOUT) -> Json:
    """botocore's settings for a client; timeout: seconds to wait for an answer."""
    return {
        "retries": RETRIES,
        "connect_timeout": min(CONNECT_TIMEOUT, timeout),
        "read_timeout": timeout,
    }


def client_of(module: t.Any, service: str) -> t.Any:
    """A module's client of boto3, with these checks; settings in its option aws_config take precedence."""
    return checked(module.client(service, config=config()))


def checked(client: t.Any) -> t.Any:
    """Let a client of boto3 refuse answers that are not whole, and return it."""
    events = client.meta.events
    service = client.meta.service_model.service_id.hyphenize()
    events.register_first("before-parse", _look_at_body, unique_id="trainwright-body")
    # The same name as botocore's own handler, so that this one is first.
    events.register_first(f"needs-retry.{service}", _look_at_answer, unique_id="trainwright-answer")
    return client


def refuse(response_dict: Json, answer: Json, why: str) -> None:
    """Turn an answer into an error while botocore reads it; for handlers of before-parse.

    Args:
        response_dict, answer: the event's response_dict and customized_response_dict.
        why: the reason, which ends the message.
    """
    # botocore's parsers do not read anything in an error without a body.
    response_dict.update(status_code=503, body=b"")
    answer["Error"] = {"Code": INCOMPLETE, "Message": why}


def length_problem(response_dict: t.Mapping[str, t.Any]) -> str:
    """Return in which way a body differs from the length that its headers announce; empty when it does not."""
    headers = response_dict["headers"]
    announced = str(headers.get("Content-Length") or "")
    if not announced.isdigit() or headers.get("Content-Encoding"):
        return ""
    got = len(response_dict["body"])
    return (
        "" if got == int(announced) else f"{got} bytes arrived of the {announced} that it announced"
    )


def _xml_problem(body: bytes, root: str) -> str:
    """Return why a body is not an answer in XML with this root element; empty when it is one."""
    found: list[str] = []
    parser = expat.ParserCreate()

    def start(name: str, _attributes: object) -> None:
        found.append(name)
        parser.StartElementHandler = None

    parser.StartElementHandler = start
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        return f"it is not whole XML: {error}"
    return "" if found == [root] else f"it is a document {found[0][:40]!r}, not {root}"


def _look_at_body(
    operation_model: t.Any,
    response_dict: Json,
    customized_response_dict: Json,
    **_event: object,
) -> None:
    """Check the body of a good answer before botocore reads it; instances.py checks its own."""
    name = operation_model.name
    if response_dict["status_code"] >= 300 or _is_instances(operation_model):
        return
    why = length_problem(response_dict)
    if not why and operation_model.service_model.resolved_protocol in ("ec2", "query"):
        why = _xml_problem(response_dict["body"], f"{name}Response")
    if why:
        refuse(response_dict, customized_response_dict, why)


def _is_instances(operation_model: t.Any) -> bool:
    return (
        operation_model.name == "DescribeInstances"
        and operation_model.service_model.service_name == "ec2"
    )


def _look_at_answer(
    operation: t.Any,
    response: tuple[t.Any, Json] | None,
    attempts: int,
    caught_exception: BaseException | None,
    **_event: object,
) -> bool | None:
    """Check what botocore read; returning False ends the tries, None leaves them to botocore."""
    if response is None:
        nobody = type(caught_exception).__name__ in NO_CONNECTION
        return False if nobody and attempts >= TRIES_WITHOUT_ANSWER else None
    http, answer = response
    key = DEMANDED.get(operation.service_model.service_name, {}).get(operation.name)
    if http.status_code < 300 and "Error" not in answer and key and answer.get(key) is None:
        answer["Error"] = {"Code": INCOMPLETE, "Message": f"it lacks {key}"}
    if answer.get("Error", {}).get("Code") == INCOMPLETE:
        # botocore's own handler, which is next, tries again after this status.
        http.status_code = 503
    return None
