# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options for access to AWS: those of amazon.aws, which reads them.

They are written down here, and not taken from amazon.aws' own fragments, because one fragment that cannot be
found takes the documentation of every module with it: Galaxy's importer does not have amazon.aws.
tests/unit/plugins/doc_fragments/test_aws.py compares them with amazon.aws' options.
"""

from __future__ import annotations


class ModuleDocFragment:
    """DOCUMENTATION for modules, PLUGINS for the inventory, TAGS for modules that tag what they make."""

    DOCUMENTATION = r"""
options:
  access_key:
    description:
      - Id of the access key. Without it, the environment variable E(AWS_ACCESS_KEY_ID) or E(AWS_ACCESS_KEY).
      - Not together with O(profile).
    type: str
    aliases: [aws_access_key_id, aws_access_key]
  secret_key:
    description:
      - The access key's secret. Without it, the environment variable E(AWS_SECRET_ACCESS_KEY) or E(AWS_SECRET_KEY).
      - Not together with O(profile).
    type: str
    aliases: [aws_secret_access_key, aws_secret_key]
  session_token:
    description:
      - Token of temporary credentials. Without it, the environment variable E(AWS_SESSION_TOKEN).
      - Not together with O(profile).
    type: str
    aliases: [aws_session_token]
  profile:
    description:
      - Name of a profile in AWS' own configuration files. Without it, the environment variable E(AWS_PROFILE).
      - Not together with O(access_key), O(secret_key) and O(session_token).
    type: str
    aliases: [aws_profile]
  region:
    description:
      - The region to use. Without it, the environment variable E(AWS_REGION), or the region of the profile.
    type: str
    aliases: [aws_region]
  endpoint_url:
    description:
      - URL to call instead of AWS' own, such as that of a VPC endpoint. Without it, the environment variable
        E(AWS_URL).
    type: str
    aliases: [aws_endpoint_url]
  aws_ca_bundle:
    description:
      - File with the certificates that AWS' certificates are checked against. Without it, the environment variable
        E(AWS_CA_BUNDLE), or botocore's own.
    type: path
  validate_certs:
    description:
      - Whether AWS' certificates are checked. Prefer O(aws_ca_bundle) to V(false).
    type: bool
    default: true
  aws_config:
    description:
      - Settings of botocore, as its class C(botocore.config.Config) takes them, such as C(retries).
    type: dict
  debug_botocore_endpoint_logs:
    description:
      - Whether the result lists the calls to AWS, each once, as C(resource_actions). The environment variable
        E(ANSIBLE_DEBUG_BOTOCORE_LOGS) does the same.
    type: bool
    default: false
requirements:
  - boto3 >= 1.34.0
  - botocore >= 1.34.0
notes:
  - Credentials and settings that are not given come from the environment and from AWS' configuration files of the
    host on which the task runs.
"""

    PLUGINS = r"""
options:
  access_key:
    description:
      - Id of the access key. Not together with O(profile).
    type: str
    aliases: [aws_access_key_id, aws_access_key]
    env:
      - name: AWS_ACCESS_KEY_ID
      - name: AWS_ACCESS_KEY
  secret_key:
    description:
      - The access key's secret. Not together with O(profile).
    type: str
    aliases: [aws_secret_access_key, aws_secret_key]
    env:
      - name: AWS_SECRET_ACCESS_KEY
      - name: AWS_SECRET_KEY
  session_token:
    description:
      - Token of temporary credentials. Not together with O(profile).
    type: str
    aliases: [aws_session_token]
    env:
      - name: AWS_SESSION_TOKEN
  profile:
    description:
      - Name of a profile in AWS' own configuration files. Not together with O(access_key), O(secret_key) and
        O(session_token).
    type: str
    aliases: [aws_profile]
    env:
      - name: AWS_PROFILE
      - name: AWS_DEFAULT_PROFILE
  region:
    description:
      - The region to use. Without it, that of the profile.
    type: str
    aliases: [aws_region]
    env:
      - name: AWS_REGION
  endpoint_url:
    description:
      - URL to call instead of AWS' own, such as that of a VPC endpoint.
    type: str
    aliases: [aws_endpoint_url]
    env:
      - name: AWS_URL
notes:
  - Credentials and settings that are not given come from AWS' configuration files of the control node.
"""

    TAGS = r"""
options:
  tags:
    description:
      - Tags, as names and values. Without it, tags stay as they are.
    type: dict
    aliases: [resource_tags]
  purge_tags:
    description:
      - Whether tags that O(tags) does not name are removed. Those beginning with C(aws:) belong to AWS and stay.
    type: bool
    default: true
"""
