# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Repositories of ECR, which have to exist before an image is pushed: ECR makes none by itself.

Source: API reference of ECR, DescribeRepositories and CreateRepository.
"""

from __future__ import annotations

import re
import typing as t

from .errors import RETRIES, AwsProblem, code_of, explained

try:
    import boto3
    from botocore.config import Config
except ImportError:  # who asks for ECR is told
    boto3 = None

_HOST = re.compile(r"(\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")


def ensure(registry: str, name: str, check: bool = False) -> bool:
    """Make a repository of ECR unless it is there; return whether that changes anything.

    Its tags do not move (IMMUTABLE), and ECR scans what is pushed. registry: its host, which has account and region.
    Raises AwsProblem.
    """
    match = _HOST.fullmatch(registry)
    if not match:
        raise AwsProblem(
            f"{registry}: is not a registry of ECR -> make the repository there by its own means, or leave out ecr"
        )
    if boto3 is None:
        raise AwsProblem("boto3 is not installed on this host -> slurm_aws_tools installs it")
    account, region = match.groups()
    with explained("ecr", "DescribeRepositories", region):
        client: t.Any = boto3.client("ecr", region_name=region, config=Config(retries=RETRIES))
        try:
            client.describe_repositories(registryId=account, repositoryNames=[name])
            return False
        except client.exceptions.RepositoryNotFoundException:
            pass
    if check:
        return True
    with explained("ecr", "CreateRepository", region):
        try:
            client.create_repository(
                registryId=account,
                repositoryName=name,
                imageTagMutability="IMMUTABLE",
                imageScanningConfiguration={"scanOnPush": True},
            )
        except client.exceptions.ClientError as error:
            # Somebody else has made it in the meantime.
            if code_of(error) != "RepositoryAlreadyExistsException":
                raise
    return True
