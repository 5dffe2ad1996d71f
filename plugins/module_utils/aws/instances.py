# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""EC2's instances, a page at a time, with only the needed elements read from the XML.

A GPU instance has 32 network interfaces and so some 20 kB of XML, and an inventory needs a few lines of it.
botocore's parser builds all of it first, which is most of what an inventory of thousands of instances takes. Here
botocore still does the rest (credentials, signing, tries, errors, pages), and the body of a good answer is read by
expat before botocore's parser sees it, which gets what is left: the token of the next page.

An answer is taken only as a whole: its root element, its list and the id of each instance are demanded.

Source: the event before-parse of botocore's endpoint.py, and the EC2 API reference of DescribeInstances.
"""

from __future__ import annotations

import typing as t
from xml.parsers import expat
from xml.sax.saxutils import escape

from . import answers

#: An instance as EC2 has it: text by the names of the wire, tags as a dict, efa as a number.
Raw = dict[str, t.Any]

#: Where botocore puts what was read, beside the keys of an answer.
KEY = answers.DEMANDED["ec2"]["DescribeInstances"]
PAGE = 1000

_EFA = frozenset(("efa", "efa-only"))
_EFA_IN_BYTES = tuple(f"<interfaceType>{kind}</interfaceType>".encode() for kind in _EFA)
_OPEN, _CLOSE = b"<networkInterfaceSet>", b"</networkInterfaceSet>"
# Places that could hold text that looks like an element.
_ODD = (b"<![CDATA[", b"<!--")
# The elements to read: a name for the record, or the elements below. "item" is an entry of a list.
_TAG = {"key": "key", "value": "value"}
_INSTANCE: dict[str, t.Any] = {
    "instanceId": "id",
    "instanceState": {"name": "state"},
    "privateDnsName": "private_dns",
    "dnsName": "public_dns",
    "instanceType": "type",
    "launchTime": "launched",
    "placement": {
        "availabilityZone": "zone",
        "groupName": "placement_group",
    },
    "subnetId": "subnet",
    "vpcId": "vpc",
    "privateIpAddress": "private_ip",
    "ipAddress": "public_ip",
    "ipv6Address": "ipv6",
    "architecture": "architecture",
    "instanceLifecycle": "lifecycle",
    "capacityReservationId": "reservation",
    "capacityBlockId": "capacity_block",
    "tagSet": {"item": _TAG},
    "networkInterfaceSet": {"item": {"interfaceType": "interface"}},
}
_RESERVATION = {"ownerId": "owner", "instancesSet": {"item": _INSTANCE}}
_SET = {"item": _RESERVATION}
_ANSWER = {
    "DescribeInstancesResponse": {
        "reservationSet": _SET,
        "nextToken": "token",
    }
}


def read(body: bytes) -> tuple[list[Raw], str]:
    """Return the instances of an answer of DescribeInstances and the token of the next page.

    Elements that nobody asked for cost one call at their beginning and one at their end.

    Raises xml.parsers.expat.ExpatError when the body is not well-formed XML, and ValueError when it is not
    EC2's answer.
    """
    found: list[Raw] = []
    token = ""
    owner = ""
    listed = 0
    whole = False
    instance: Raw = {}
    tag_key = tag_value = ""
    below: list[t.Any] = []
    here: t.Any = _ANSWER
    skipped = 0
    text: list[str] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(name: str, _attributes: object) -> None:
        nonlocal here, instance, tag_key, tag_value
        inner = here.get(name)
        if inner is None:
            parser.StartElementHandler, parser.EndElementHandler = skip, skip_end
            return
        below.append(here)
        here = inner
        if inner is _INSTANCE:
            instance = {"tags": {}, "efa": 0}
        elif inner is _TAG:
            tag_key = tag_value = ""
        elif inner.__class__ is str:
            text.clear()
            parser.CharacterDataHandler = text.append

    def end(_name: str) -> None:
        nonlocal here, token, owner, listed, tag_key, tag_value, whole
        ended, here = here, below.pop()
        if ended.__class__ is str:
            parser.CharacterDataHandler = None
            value = "".join(text)
            if ended == "interface":
                instance["efa"] += value in _EFA
            elif ended == "key":
                tag_key = value
            elif ended == "value":
                tag_value = value
            elif ended == "token":
                token = value
            elif ended == "owner":
                owner = value
            elif value:
                instance[ended] = value
        elif ended is _TAG:
            instance["tags"][tag_key] = tag_value
        elif ended is _INSTANCE:
            if "id" not in instance or "type" not in instance:
                raise ValueError("an instance lacks its id or type")
            found.append(instance)
        elif ended is _RESERVATION:
            for one in found[listed:]:
                one["owner"] = owner
            listed = len(found)
        elif ended is _SET:
            whole = True

    def skip(_name: str, _attributes: object) -> None:
        nonlocal skipped
        skipped += 1

    def skip_end(_name: str) -> None:
        nonlocal skipped
        if skipped:
            skipped -= 1
        else:
            parser.StartElementHandler, parser.EndElementHandler = start, end

    parser.StartElementHandler, parser.EndElementHandler = start, end
    for piece, efa in _pieces(body):
        parser.Parse(piece, False)
        if efa:
            instance["efa"] += efa
    parser.Parse(b"", True)
    if not whole:
        raise ValueError("it lacks DescribeInstancesResponse with a reservationSet")
    return found, token


def _pieces(body: bytes) -> t.Iterator[tuple[bytes, int]]:
    """Yield an answer without the interfaces of its instances, and how many EFA interfaces each piece lost.

    Nine tenths of the answer about a GPU instance are its interfaces, but only the number of EFA ones is needed.
    They are counted in the bytes; written in another way than EC2 does, they are left in and read like the rest.
    """
    if any(odd in body for odd in _ODD):
        yield body, 0
        return
    start = 0
    while (opened := body.find(_OPEN, start)) >= 0:
        closed = body.find(_CLOSE, opened)
        if closed < 0:
            break
        yield body[start:opened], sum(body.count(kind, opened, closed) for kind in _EFA_IN_BYTES)
        start = closed + len(_CLOSE)
    yield body[start:], 0


def instances(client: t.Any, filters: t.Mapping[str, t.Sequence[str]]) -> t.Iterator[Raw]:
    """Yield the instances that match all filters, in EC2's order.

    Args:
        client: boto3's client of EC2, as answers.checked makes it; from here on its describe_instances returns no
            reservations.
        filters: values by the name of a filter of DescribeInstances; any of the values matches.

    Raises botocore's errors, see errors.explained; that an answer is not EC2's is one of them, after some tries.
    """

    def before_parse(
        response_dict: dict[str, t.Any],
        customized_response_dict: dict[str, t.Any],
        **_event: object,
    ) -> None:
        if response_dict["status_code"] >= 300:
            return
        why = answers.length_problem(response_dict)
        if not why:
            try:
                found, token = read(response_dict["body"])
            except (expat.ExpatError, ValueError) as error:
                why = str(error)
        if why:
            answers.refuse(response_dict, customized_response_dict, why)
            return
        customized_response_dict[KEY] = found
        rest = f"<nextToken>{escape(token)}</nextToken>" if token else ""
        response_dict["body"] = (
            f"<DescribeInstancesResponse>{rest}</DescribeInstancesResponse>".encode()
        )

    client.meta.events.register(
        "before-parse.ec2.DescribeInstances", before_parse, unique_id="trainwright-instances"
    )
    pages = client.get_paginator("describe_instances").paginate(
        Filters=[{"Name": name, "Values": list(values)} for name, values in filters.items()],
        PaginationConfig={"PageSize": PAGE},
    )
    for page in pages:
        yield from page[KEY]
