# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files that usually hold secrets, and texts that look like one: a record leaves them out. Pure.

It is a net and no proof: nobody can know every form of a secret. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

MARK = "[left out]"
#: Pathspecs of git for files whose changes are not taken (gitglossary(7)).
PATHS = tuple(
    f":(exclude,glob,icase,top)**/{name}"
    for name in (
        *(
            ".env*",
            "*.pem",
            "*.key",
            "*.p12",
            "*.pfx",
            "id_rsa*",
            "id_ed25519*",
            "id_ecdsa*",
            ".netrc",
        ),
        *("*credential*", "*secret*", "*.kdbx", ".npmrc", ".pypirc", "kubeconfig*", ".htpasswd"),
        *(".aws/**", ".ssh/**", ".docker/**", "secrets/**"),
    )
)
_WORD = (
    r"(?:[\w-]*(?:token|secret|passw(?:or)?d|passphrase|credentials?)"
    r"|[\w-]*[_-](?:pass|pwd)|[\w-]*(?:api|access|wandb|private|encryption|account|auth)[_-]?key)"
)
_KNOWN = re.compile(
    r"hf_[A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
    r"|nvapi-[\w-]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"
    # A key of W&B: 40 hexadecimal digits beside its name.
    r"|(?<=wandb)[^\n\w]{0,20}[0-9a-f]{40}\b"
)
_ASSIGNED = re.compile(
    rf"(?P<name>\b{_WORD}[\"']?[ \t]*(?:=|:|[ \t])[ \t]*)"
    r"(?P<value>\"[^\"\n]{6,}\"|'[^'\n]{6,}'|[^\s\"',;(){}]{6,})",
    re.I,
)
#: Values that are not secrets: numbers, variables, calls, paths, words of a configuration.
_PLAIN = re.compile(
    r"[\"']?(?:\d+(?:\.\d+)?|\$.*|[/~].*|true|false|none|null|os\.\w+.*|args\.\w+|\w+\.\w+[\w.]*|<[^>]*>|\[.*"
    r"|[a-z]+(?:_[a-z]+)+)[\"']?$",
    re.I,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/:@\"']*:[^\s/@\"']+(?=@)")
#: curl -u USER:PASSWORD, --user, --proxy-user.
_USER = re.compile(
    r"(?<![\w-])(?:-[uU]|--(?:proxy-)?user)[ =]*[\"']?(?!\S*\.py:)[^\s:\"'=]+:(?P<value>[^\s\"']+)"
)
_OPTION = re.compile(rf"--?{_WORD}", re.I)
_BEARER = re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{8,}")
_KEY = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_NAME = re.compile(rf"^{_WORD}$", re.I)


def text(given: str, values: t.Collection[str] = ()) -> tuple[str, int]:
    """Return a text without what looks like a secret, and how many places were left out.

    values: texts that are known to be secret; short ones would be found everywhere, and are not looked for.
    """
    count = 0
    for value in values:
        if len(value) >= 6:
            count += given.count(value)
            given = given.replace(value, MARK)
    given, more = _KEY.subn(rf"\1 {MARK}", given)
    count += more
    for pattern in (_KNOWN, _IN_ADDRESS, _BEARER):
        given, more = pattern.subn(MARK, given)
        count += more

    def of_user(match: re.Match[str]) -> str:
        nonlocal count
        if MARK in match[0] or re.match(r"[$/]|\d+$", match["value"]):
            return match[0]
        count += 1
        return match[0][: match.start("value") - match.start()] + MARK

    given = _USER.sub(of_user, given)

    def assigned(match: re.Match[str]) -> str:
        nonlocal count
        if MARK in match["value"] or _PLAIN.match(match["value"]):
            return match[0]
        count += 1
        return f"{match['name']}{MARK}"

    return _ASSIGNED.sub(assigned, given), count


def tree(given: t.Any, values: t.Collection[str] = (), name: str = "") -> t.Any:
    """Return data with the same left out of each of its texts; a variable with such a name keeps its name alone."""
    if isinstance(given, t.Mapping):
        return {str(key): tree(one, values, str(key)) for key, one in given.items()}
    if isinstance(given, (list, tuple)):
        # The value of an option may be the next item: [--password, VALUE], [-u, USER:VALUE].
        found, before = [], ""
        for one in given:
            if isinstance(one, str) and _OPTION.fullmatch(before) and not one.startswith("-"):
                found.append(MARK if one and not _PLAIN.match(one) else one)
            elif isinstance(one, str) and before in ("-u", "-U", "--user", "--proxy-user"):
                found.append(text(f"{before} {one}", values)[0][len(before) + 1 :])
            else:
                found.append(tree(one, values))
            before = one if isinstance(one, str) else ""
        return found
    if not isinstance(given, str):
        return given
    if _NAME.match(name) and given and not _PLAIN.match(given):
        return MARK
    return text(given, values)[0]
