# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which packages a host gets on each supported system with each way of installing Slurm.

Rendered from the role's own variables, since most of these systems are not at hand.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.unit.cluster import ROOT, SUPPORTED_OS

LOADER = DataLoader()
FILES = [
    path
    for role in ("cluster", "slurm_packages", "slurm_build")
    for path in [
        ROOT / "roles" / role / "defaults" / "main.yml",
        *sorted((ROOT / "roles" / role / "vars" / "main").glob("*.yml")),
    ]
]
GROUPS = ("slurm_controller", "slurm_database", "slurm_compute", "slurm_login", "slurm_rest")
METHODS = ("distribution", "repository", "source")
CODENAMES = {
    ("debian", "12"): "bookworm",
    ("debian", "13"): "trixie",
    ("ubuntu", "22.04"): "jammy",
    ("ubuntu", "24.04"): "noble",
}
SYSTEMS = [(system, version) for system, rows in SUPPORTED_OS.items() for version in rows]
NAMES = {
    ("deb", "distribution"): {
        "slurm_controller": "slurmctld",
        "slurm_database": "slurmdbd",
        "slurm_compute": "slurmd",
        "slurm_login": "slurm-client",
        "slurm_rest": "slurmrestd",
        "pam": "libpam-slurm-adopt",
        "sackd": "sackd",
    },
    ("deb", "schedmd"): {
        "slurm_controller": "slurm-smd-slurmctld",
        "slurm_database": "slurm-smd-slurmdbd",
        "slurm_compute": "slurm-smd-slurmd",
        "slurm_login": "slurm-smd-client",
        "slurm_rest": "slurm-smd-slurmrestd",
        "pam": "slurm-smd-libpam-slurm-adopt",
        "sackd": "slurm-smd-sackd",
    },
    ("rpm", "schedmd"): {
        "slurm_controller": "slurm-slurmctld",
        "slurm_database": "slurm-slurmdbd",
        "slurm_compute": "slurm-slurmd",
        "slurm_login": "slurm",
        "slurm_rest": "slurm-slurmrestd",
        "pam": "slurm-pam_slurm",
        "sackd": "slurm-sackd",
    },
}
# EPEL took over the names of SchedMD's spec file.
NAMES["rpm", "distribution"] = NAMES["rpm", "schedmd"]


def render(
    name: str,
    system: str = "debian",
    version: str = "12",
    groups: t.Sequence[str] = GROUPS,
    method: str = "source",
    role: str = "slurm_packages",
    **more: t.Any,
) -> t.Any:
    """Return a private variable of a role on a host of one system."""
    like = "debian" if system in ("debian", "ubuntu") else "rhel"
    variables: dict[str, t.Any] = {
        "group_names": ["slurm_cluster", *groups],
        "slurm_facts": {
            "node": {
                "os": {
                    "id": system,
                    "like": like,
                    "version": version,
                    "codename": CODENAMES.get((system, version), ""),
                },
                "arch": "x86_64",
                "cpus": 4,
                "virtualization": "kvm",
                "slurm": {"version": "", "candidate": ""},
            }
        },
        "slurm_model": {
            "install_method": method,
            "installed_version": "",
            "version_string": "24.11",
            "sackd": True,
            "database": {"external": False},
            "tuning": {"hosts": ["tuned"], "packages": ["tuned"]},
        },
        "inventory_hostname": "c1",
        "slurm_version": "24.11",
    }
    for path in FILES:
        variables = {**LOADER.load_from_file(str(path), trusted_as_template=True), **variables}
    # The results of the filters artifact_version and mount_packages, which have their own tests.
    variables["__slurm_build_version"] = "24.11.7"
    variables["__slurm_packages_of_mounts"] = []
    variables.update(more)
    templar = Templar(loader=LOADER, variables=variables)
    return templar.template(variables[f"__{role}_{name}"])


def packaging(system: str) -> str:
    """Return the package format of a system."""
    return "deb" if system in ("debian", "ubuntu") else "rpm"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_each_group_gets_its_daemon(system: str, version: str, method: str) -> None:
    names = NAMES[packaging(system), "schedmd" if method == "source" else "distribution"]
    for group in GROUPS:
        packages = render("of_host", system, version, [group], method)
        assert names[group] in packages, (group, packages)
        assert "munge" in packages and "chrony" in packages
        assert packages == sorted(set(packages))
    compute = render("of_host", system, version, ["slurm_compute"], method)
    assert names["pam"] in compute
    assert names["slurm_controller"] not in compute and names["sackd"] not in compute
    assert names["sackd"] in render("of_host", system, version, ["slurm_login"], method)
    assert any(
        name.startswith("mariadb")
        for name in render("of_host", system, version, ["slurm_database"], method)
    )


@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_packages_of_one_origin_only(system: str, version: str) -> None:
    """slurm-smd conflicts with each of the distribution's packages."""
    packages = render("of_host", system, version, GROUPS, "source")
    if packaging(system) == "deb":
        assert not set(NAMES["deb", "distribution"].values()) & set(packages)
        assert not [name for name in packages if name.startswith("slurm-wlm")]


def test_a_repository_may_have_schedmds_names() -> None:
    packages = render("of_host", method="repository", slurm_repository={"package_names": "schedmd"})
    assert "slurm-smd-slurmctld" in packages and "slurmctld" not in packages


@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_dnf_gets_the_version_with_the_name(system: str, version: str) -> None:
    if packaging(system) == "rpm":
        pinned = render("by_version", system, version, ["slurm_compute"], "source")
        assert "slurm-slurmd-24.11*" in pinned and "munge" in pinned
        plain = render("by_version", system, version, ["slurm_compute"], "distribution")
        assert "slurm-slurmd" in plain


@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_apt_takes_the_named_repository_or_nothing(system: str, version: str) -> None:
    if packaging(system) == "deb":
        pins = render("repository_pins", system, version, method="repository")
        origin = system.capitalize()
        assert pins == [
            [f"release o={origin},n={CODENAMES[system, version]}*", "-1"],
            ["version 24.11*", "1001"],
            ["version *", "-1"],
        ]


def test_a_cluster_that_stands_keeps_its_version() -> None:
    model = {
        "install_method": "source",
        "installed_version": "24.11.5",
        "version_string": "24.11",
        "sackd": True,
        "database": None,
    }
    assert render("wanted", role="slurm_build", slurm_model=model, slurm_version="25.11.6") == (
        "24.11.5"
    )
    assert render("repository_version", slurm_model=model, slurm_version="25.11.6") == "24.11"
    assert render("repository_version", slurm_model=model, slurm_version="24.11.7") == "24.11.7"


@pytest.mark.parametrize(
    ("url", "more", "trusted"),
    [
        ("file:/srv/slurm", {}, True),
        ("https://packages.example.org/slurm", {}, False),
        ("https://packages.example.org/slurm", {"trusted": True}, True),
        ("https://packages.example.org/slurm", {"trusted": True, "key_url": "k"}, False),
    ],
)
def test_only_a_directory_is_trusted_unasked(
    url: str, more: dict[str, t.Any], trusted: bool
) -> None:
    repository = {"url": url, **more}
    assert render("repository_trusted", method="repository", slurm_repository=repository) is trusted


@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_what_is_built_is_named_after_the_system(system: str, version: str) -> None:
    exact = f"{version}.4" if version == "9" else version
    key = render("key", system, exact, role="slurm_build")
    assert key.startswith(f"slurm-24.11.7-{system}{version}-x86_64-"), key
    other = render("key", system, exact, role="slurm_build", slurm_build_extra_packages=["x"])
    assert other != key
    url = render("repository", system, exact)["url"]
    assert url.startswith("file:/" if packaging(system) == "deb" else "file:///")
    assert url.endswith(f"/trainwright/packages/{key}")


def test_crb_has_a_name_on_every_rhel() -> None:
    table = render("epel_crb", "rhel", "9.4")
    for system in SUPPORTED_OS:
        if packaging(system) == "rpm":
            assert table[system] or system == "amzn"
    assert table["rhel"] == "codeready-builder-for-rhel-9-x86_64-rpms"


def test_what_rpmbuild_is_asked_for_has_its_libraries() -> None:
    packages = render("rpm_packages", "rocky", "9.4", role="slurm_build")
    assert {"rpm-build", "createrepo_c", "munge-devel", "libjwt-devel", "pmix-devel"} <= set(
        packages
    )
    assert "libjwt-devel" not in render(
        "rpm_packages", "rocky", "9.4", role="slurm_build", slurm_build_rpm_with=["slurmrestd"]
    )


@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_a_node_that_is_tuned_gets_tuned_where_the_system_has_it(system: str, version: str) -> None:
    given = (system, version, ["slurm_compute"], "distribution")
    added = set(render("of_host", *given, inventory_hostname="tuned")) - set(
        render("of_host", *given)
    )
    assert added == (set() if system == "amzn" else {"tuned"})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("system", "version"), SYSTEMS)
def test_aws_tools_on_request(system: str, version: str, method: str) -> None:
    """The command line under its name on each system; Ubuntu 24.04 does not have a package of it."""
    name = "awscli-2" if system == "amzn" else "awscli"
    without = render("of_host", system, version, ["slurm_compute"], method)
    packages = render("of_host", system, version, ["slurm_compute"], method, slurm_aws_tools=True)
    added = {"python3-boto3"} | ({name} if (system, version) != ("ubuntu", "24.04") else set())
    assert set(packages) - set(without) == added
