# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role image_registry: its refusals before anything is changed, and when a playbook sets it up."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.test_empty_inventory import ROOT, play

HASH = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"
GOOD = {"name": "ci", "password_hash": HASH}
ROCKY = {"slurm_facts": {"node": {"os": {"like": "rhel", "pretty": "Rocky 9"}}}}
OLD = {"image_registry_certificate": "@old.crt@", "image_registry_key": "@old.key@"}
PLAIN = {"image_registry_users": [{**GOOD, "password_hash": "sesame"}]}
# What is wrong -> variables, the part of the message before the arrow, and a part of the remedy.
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "system": (ROCKY, "this is Rocky 9", "another host"),
    "no-certificate": ({"image_registry_certificate": ""}, "in clear text", "name the files"),
    "nobody": ({"image_registry_users": []}, "nobody could push", "htpasswd -nB ci"),
    "name": ({"image_registry_users": [{**GOOD, "name": "a:b"}]}, "a name has other characters", "another name"),
    "twice": ({"image_registry_users": [GOOD, GOOD]}, "a name is there twice", "leave one"),
    "no-hash": ({"image_registry_users": [GOOD, {"name": "dev"}]}, "dev does not have a password_hash", "htpasswd -nB"),
    "text": ({"image_registry_users": ["ci"]}, "an entry without a name does not have a password_hash", "{name: ..."),
    "null-hash": ({"image_registry_users": [{**GOOD, "password_hash": None}]}, "is not a bcrypt hash", "in single"),
    "no-name": ({"image_registry_users": [{"password_hash": HASH}]}, "an entry does not have a name", "{name: ..."),
    "yes": ({"image_registry_users": [{**GOOD, "name": True}]}, "a name is true or false", "in quotes"),
    "conf": ({"image_registry_conf": True}, "image_registry_conf: is not a mapping", "configuration file"),
    "port-true": ({"image_registry_port": True}, "image_registry_port: True is not a port", "1 to 65535"),
    "port-half": ({"image_registry_port": "5000.5"}, "5000.5 is not a port", "1 to 65535"),
    "plain": (PLAIN, "is not a bcrypt hash", "in single quotes"),
    "name-line": ({"image_registry_users": [{**GOOD, "name": "ci\n"}]}, "a name has other characters", "another name"),
    "cost": ({"image_registry_users": [{**GOOD, "password_hash": HASH.replace("05", "99", 1)}]}, "is not a bcrypt hash",
             "in single quotes"),
    "var-lib": ({"image_registry_storage": "/var/lib"}, "/var/lib is not a directory of its own", "outside"),
    "slurm": ({"image_registry_storage": "/var/lib/slurm/x"}, "is not a directory of its own", "outside"),
    "port": ({"image_registry_port": 70000}, "70000 is not a port", "1 to 65535"),
    "etc": ({"image_registry_storage": "/etc/images"}, "/etc/images is not a directory of its own", "outside"),
    "up": ({"image_registry_storage": "/srv/../etc"}, "/srv/../etc is not a directory", "outside"),
    "pem": ({"image_registry_certificate": "@other.key@"}, "does not begin with a certificate", "BEGIN CERTIFICATE"),
    "expired": (OLD, "old.crt has expired", "renew it"),
    "key": ({"image_registry_key": "@good.crt@"}, "is not a key in PEM", "openssl pkey"),
    "other": ({"image_registry_key": "@other.key@"}, "other.key is not the key of", "was requested"),
}  # fmt: skip
LOCAL = {"ansible_connection": "local"}


def certificate(path: Path, name: str, days: int = 1) -> None:
    """Write NAME.crt, which is valid until so many days from now, and NAME.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(until - datetime.timedelta(days=9))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    (path / f"{name}.crt").write_bytes(made.public_bytes(pem))
    (path / f"{name}.key").write_bytes(key.private_bytes(pem, form, plain))


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_what_could_not_be_served_is_refused_with_its_remedy(tmp_path: Path) -> None:
    certificate(tmp_path, "good")
    certificate(tmp_path, "other")
    certificate(tmp_path, "old", days=-1)

    def given(value: Any) -> Any:
        return str(tmp_path / value.strip("@")) if str(value).startswith("@") else value

    base = {
        **LOCAL,
        "slurm_facts": {"node": {"os": {"like": "debian", "pretty": "Debian 13"}}},
        "image_registry_certificate": "@good.crt@",
        "image_registry_key": "@good.key@",
        "image_registry_users": [GOOD],
        "image_registry_storage": "/srv/images",
    }
    rows = {"right": {"image_registry_port": "5000"}, **{name: row[0] for name, row in BAD.items()}}
    hosts = {
        host: {key: given(value) for key, value in {**base, **row}.items()}
        for host, row in rows.items()
    }
    role = {"name": "trainwright.slurm.image_registry", "tasks_from": "preflight"}
    task = {"ansible.builtin.import_role": role}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}])
    )
    code, said = play(tmp_path, str(tmp_path / "play.yml"), "-f", "4")
    assert code == 2
    refusals: dict[str, str] = {}
    for part in said.split("Action failed: ")[1:]:
        host, _colon, text = part.partition(": ")
        refusals[host] = refusals.get(host, "") + text.split(" Origin: ")[0]
    for host, (_row, what, remedy) in BAD.items():
        assert what in refusals[host] and remedy in refusals[host], f"{host}: {refusals.get(host)}"
    assert "right : ok=" in said and "right: image_registry" not in said
    assert "BEGIN PRIVATE KEY" not in said and "BEGIN RSA" not in said


@pytest.mark.parametrize(
    ("asked", "group", "code", "words"),
    [
        (False, True, 0, ""),
        (True, False, 2, "the group slurm_registry is empty, and a registry was asked for -> put"),
    ],
)
def test_it_is_set_up_only_where_it_is_asked(
    tmp_path: Path, asked: bool, group: bool, code: int, words: str
) -> None:
    children: dict[str, Any] = {"slurm_cluster": {"hosts": {"ctl": LOCAL}}}
    if group:
        children["slurm_registry"] = {"hosts": {"reg": LOCAL}}
    inventory = {"all": {"children": children}}
    (tmp_path / "inventory").write_text(yaml.safe_dump(inventory))
    found = play(
        tmp_path, "image_registry.yml", "-e", f'{{"__image_registry_asked": {str(asked).lower()}}}'
    )
    assert found[0] == code and words in " ".join(found[1].split()), found[1]
    assert "TASK [trainwright.slurm.image_registry" not in found[1]


def test_container_image_asks_for_it_by_its_own_variable() -> None:
    plays = yaml.safe_load((ROOT / "playbooks" / "container_image.yml").read_text("utf-8"))
    [imported] = [
        one for one in plays if one.get("ansible.builtin.import_playbook") == "image_registry.yml"
    ]
    assert (
        "container_image_registry | default(false) | bool"
        in imported["vars"]["__image_registry_asked"]
    )
    assert plays.index(imported) < [one["name"] for one in plays].index("Import the image")
