# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The manifest of a node: the things that each call of a role has left there, for a later look to compare with.

One file for each call, which the next call of the same task replaces. It is marked as open, on the disk, before the
first change of a call, and gets its content after the last one: a run that was killed leaves "not known", never a
manifest that is ahead of its node. Contents are there as digests with a random key of this node, so that they do not
help to guess a password.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import typing as t

from .manifest_place import DIRECTORY, ManifestError, forget, key_of, prepare, text, write

#: Names of the place of the manifest that callers need too.
__all__ = ["DIRECTORY", "ManifestError", "key_of"]

FORMAT = 1
#: The option of every module that writes an entry; its action plugin sets it.
ARGUMENT: dict[str, t.Any] = {
    "managed_by": {
        "type": "dict",
        "options": {
            "manager": {"type": "str", "required": True},
            "part": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "run": {"type": "str", "default": ""},
        },
    }
}
#: A boot or a clean-up removes what is there, and no later run of its role may be needed to have it back.
PASSING = (
    *("/dev", "/proc", "/run", "/sys", "/tmp", "/var/run", "/var/tmp"),
    # Roles build packages there once, and remove it.
    "/var/lib/trainwright/build",
)
#: Of these, directories that each boot makes again by itself (tmpfiles.d): one that is missing or open is damage.
MADE_AT_BOOT = ("/run/slurm-oci",)
#: Kinds of items whose name is a path. The last of the items about one path counts.
PATHS = ("file", "directory", "link", "absent", "attributes", "block")
#: Modules whose calls a role leaves out where nothing is missing, so that an old entry may still be right.
_LEFT_OUT = ("deb_packages", "package_files")

Item = dict[str, t.Any]


class Entry(t.NamedTuple):
    """One call. fault: why it cannot be compared with the node, "" where it can.

    kept: the items of the last call that has succeeded, also where they cannot be compared. born: the sequence of
    the first call, by which the tasks of a role have their order.
    """

    manager: str
    part: str
    module: str
    version: str
    sequence: int
    items: list[Item]
    fault: str = ""
    kept: t.Sequence[Item] = ()
    born: int = 0


def passes(path: str) -> bool:
    """Whether what is at a path does not last, so that nobody has to look for it."""
    return path not in MADE_AT_BOOT and any(
        path == place or path.startswith(f"{place}/") for place in PASSING
    )


def name_of(key: str) -> str:
    """Return how an entry names the key that its digests were made with."""
    return hashlib.sha256(f"name of {key}".encode()).hexdigest()[:16] if key else ""


class Digest:
    """The digest of a content that comes in parts, with the key of the node."""

    def __init__(self, key: str) -> None:
        self._made = hmac.new(key.encode(), b"", hashlib.sha256)

    def add(self, data: bytes) -> None:
        self._made.update(data)

    def text(self) -> str:
        return self._made.hexdigest()


def digest(data: bytes, key: str) -> str:
    """Return the digest of a content."""
    made = Digest(key)
    made.add(data)
    return made.text()


def _sealed(item: t.Mapping[str, t.Any], key: str) -> Item:
    """Return an item as an entry has it: with the size and the digest of its content."""
    kept = {name: value for name, value in item.items() if name != "data"}
    if item.get("data") is not None:
        kept.update(size=len(item["data"]), digest=digest(item["data"], key))
    return kept


# -- reading ---------------------------------------------------------------------------------------------------
def _entry(path: str, key: str) -> Entry:
    name = os.path.basename(path)
    try:
        found = json.loads(text(path))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("is of another release")
        texts = [found[field] for field in ("manager", "part", "module", "version", "key", "state")]
        items, sequence = found["items"], found["sequence"]
        born: t.Any = found.get("born", sequence)
        numbers = isinstance(sequence, int) and isinstance(born, int)
        if not all(isinstance(text, str) for text in texts) or not numbers:
            raise ValueError("has fields of a wrong type")
        if not isinstance(items, list) or not all(
            isinstance(item, dict)
            and isinstance(item.get("kind"), str)
            and isinstance(item.get("name"), str)
            for item in items
        ):
            raise ValueError("has items that are none")
    except (OSError, ValueError, KeyError, RecursionError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, OSError):
            why = error.strerror or str(error)
        return Entry("", name, "", "", 0, [], f"its entry cannot be read: {why}")
    manager, part, module, version, named, state = texts
    fault = ""
    if state == "pending":
        fault = "a run changed its configuration, and ended before it was started with it"
    elif state != "closed":
        fault = "a run began to change it and did not end"
    elif named != name_of(key):
        fault = "the key of its digests was lost or replaced"
    counts = [] if fault else items
    return Entry(manager, part, module, version, sequence, counts, fault, items, born)


def entries(directory: str = DIRECTORY) -> list[Entry]:
    """Return the entries by their sequence; none where there is no manifest. Raises OSError."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    key = key_of(directory)
    found = [_entry(os.path.join(directory, name), key) for name in names]
    return sorted(found, key=lambda one: one.sequence)


def content_of(module: str, directory: str = DIRECTORY) -> str:
    """Return a digest of what the calls of a module have left; "" without one, or where that is not known."""
    # The module of an entry that cannot be read is not known either.
    found = [one for one in entries(directory) if one.module in (module, "")]
    if not found or any(one.fault for one in found):
        return ""
    text = json.dumps([one.items for one in found], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _above(path: str) -> t.Iterator[str]:
    while path not in ("", "/"):
        yield path
        path = os.path.dirname(path)


def place(item: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """Return what an item is about; of several items about the same the last one counts."""
    kind = item["kind"]
    if kind in ("file", "directory", "link", "absent"):
        return "path", item["name"]
    if kind == "block":
        return "block", f"{item['name']} {item.get('marker', '')}"
    if kind == "sysctl file":
        return kind, f"{item['name']} {item.get('key', '')}"
    if kind in ("user", "no user"):
        return "user", item["name"]
    return kind, item["name"]


def _decides(item: Item) -> Item:
    """Return what an item of a unit decides; another call may decide the rest."""
    return {
        name: value for name, value in item.items() if value or value is False and name == "enabled"
    }


def _agree(item: Item, there: Item | None) -> bool:
    """Whether an item says nothing else than what counts."""
    if item["kind"] != "unit" or there is None:
        return item == there
    return all(there.get(name) == value for name, value in _decides(item).items())


def standing(found: t.Iterable[Entry]) -> list[tuple[Entry, Item]]:
    """Return the items that still count, each with its entry: what a later call replaced or removed does not.

    found: entries in the order of their sequence.
    """
    last: dict[tuple[str, str], tuple[int, Entry, Item]] = {}
    gone: dict[str, int] = {}
    filled: dict[str, int] = {}
    for order, entry in enumerate(found):
        for item in entry.items:
            if item["kind"] in PATHS and passes(item["name"]):
                continue  # of an earlier release, which took it for lasting
            counts = item
            if item["kind"] == "unit" and place(item) in last:
                counts = {**last[place(item)][2], **_decides(item)}
            last[place(item)] = (order, entry, counts)
            if item["kind"] == "absent":
                gone[item["name"]] = order
            elif item["kind"] in PATHS:
                for path in _above(item["name"]):
                    filled[path] = order
    kept = []
    for order, entry, item in last.values():
        path = item["name"]
        if item["kind"] == "absent":
            if filled.get(path, -1) >= order:
                continue
        elif item["kind"] in PATHS and any(gone.get(above, -1) > order for above in _above(path)):
            continue
        kept.append((entry, item))
    return kept


# -- writing ---------------------------------------------------------------------------------------------------
class Record:
    """The entry of one call: begin before the first change, end after the last."""

    def __init__(
        self,
        manager: str,
        part: str,
        module: str,
        version: str = "",
        directory: str = DIRECTORY,
        run: str = "",
    ) -> None:
        self.manager, self.part, self.module, self.version = manager, part, module, version
        self.directory, self.run = directory, run
        self.began = False
        named = hashlib.sha256(f"{manager}\n{part}\n{module}".encode()).hexdigest()[:16]
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", manager)[:60]
        self.path = os.path.join(directory, f"{plain}-{named}.json")

    def begin(self) -> None:
        """Mark the entry as open, once. Raises ManifestError, before anything was changed."""
        if not self.began:
            with self._reported():
                prepare(self.directory)
                forget(self.directory, self.run)
                found = entries(self.directory)
                own = self._own(found)
                self._put(
                    "open", own.kept if own else [], self._next(found), self._same_release(own)
                )
            self.began = True

    def earlier(self, *kinds: str) -> dict[str, Item]:
        """Return the items of these kinds by name as the last call has left them, for what no plan decides.

        Such a thing is recorded once: as it is found later, it would hide what somebody changed in between.
        """
        with self._reported():
            own = self._own(entries(self.directory))
        items = own.kept if own else ()
        return {item["name"]: item for item in items if item["kind"] in kinds}

    def end(
        self,
        items: t.Sequence[t.Mapping[str, t.Any]],
        packages: t.Mapping[str, str] | None = None,
    ) -> None:
        """Record what the call has left. Items that do not last are left out. Raises ManifestError.

        packages: versions of all packages that the call has changed, also of those that it did not ask for.
        """
        kept = [item for item in items if not (item["kind"] in PATHS and passes(str(item["name"])))]
        if not (kept or self.began or os.path.exists(self.path)):
            return
        with self._reported():
            prepare(self.directory)
            key = key_of(self.directory)
            sealed = list({place(item): _sealed(item, key) for item in kept}.values())
            found = entries(self.directory)
            if self.began:
                self._leave_pending(found)
            if not self._stands(found, sealed):
                self._put("closed", sealed, self._next(found), self._same_release(self._own(found)))
            self._forget_older(found)
            self._tell_others(found, packages or {})
            if self.began:
                # A run that looked between the two has not seen what changed in between.
                forget(self.directory, self.run)
        self.began = False

    def _stands(self, found: t.Sequence[Entry], sealed: t.Sequence[Item]) -> bool:
        """Whether the entry has these items, and no later entry has something else about one of them."""
        own = self._own(found)
        if own is None or own.fault or (own.items, own.version) != (sealed, self.version):
            return False
        there = {place(item): item for _entry, item in standing(found)}
        return all(_agree(item, there.get(place(item))) for _entry, item in standing([own]))

    def _own(self, found: t.Sequence[Entry]) -> Entry | None:
        own = (self.manager, self.part, self.module)
        return next((one for one in found if (one.manager, one.part, one.module) == own), None)

    def _same_release(self, own: Entry | None) -> Entry | None:
        """Return the entry if this release wrote it: another may have had its tasks in another order."""
        return own if own and own.version == self.version else None

    def _forget_older(self, found: t.Sequence[Entry]) -> None:
        """Remove the entries of tasks that another release of the role had: none of this one will replace them."""
        if self.module in _LEFT_OUT:
            return
        for one in found:
            same = (one.manager, one.module) == (self.manager, self.module)
            # A bundle of the collection may not know its version.
            other = bool(one.version and self.version) and one.version != self.version
            if same and other and one.part != self.part:
                path = Record(one.manager, one.part, one.module, "", self.directory).path
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _tell_others(self, found: t.Sequence[Entry], packages: t.Mapping[str, str]) -> None:
        """Give entries of other calls the versions that this call has changed for a dependency."""
        for one in found:
            items = [
                {**item, "version": packages[item["name"]]}
                if item["kind"] == "package" and item["name"] in packages and item.get("version")
                else item
                for item in one.items
            ]
            if items != one.items and not one.fault and one != self._own(found):
                other = Record(one.manager, one.part, one.module, one.version, self.directory)
                other._put("closed", items, one.sequence, one)

    def _later_units(self, found: t.Sequence[Entry]) -> list[Entry]:
        """Return the entries of the role's units that a later task starts with the files of this one."""
        own = self._own(found)
        if self.module != "config_files" or own is None:
            return []
        return [
            one
            for one in found
            if one.manager == self.manager and one.module == "services" and one.born > own.born
        ]

    def _leave_pending(self, found: t.Sequence[Entry]) -> None:
        """Mark the units of the role that a later task starts: a run that ends before it leaves old ones running."""
        for one in self._later_units(found):
            if not one.fault and any(item.get("stamp") for item in one.items):
                other = Record(one.manager, one.part, one.module, one.version, self.directory)
                other._put("pending", one.items, one.sequence, one)

    def put_back(self, changes: t.Iterable[t.Any]) -> list[str]:
        """Return the units that may run with what somebody has put in the place of files that this call had left.

        changes: those to files that the call is about to make. A unit whose configuration is what it was is not
        started again by its task, which cannot know that it was started in between.
        """
        with self._reported():
            found, key = entries(self.directory), key_of(self.directory)
        own = self._own(found)
        before = {item["name"]: item for item in (own.kept if own else ()) if item["kind"] in PATHS}
        for change in changes:
            item = before.get(change.path, {})
            same = (
                item.get("digest") == digest(change.data, key)
                if change.kind == "file"
                else (change.kind == "link" and item.get("target") == change.target)
            )
            # A file that the call removes and has never made is somebody else's.
            if own and (same or (change.kind == "absent" and item.get("kind") in (None, "absent"))):
                units = [item for one in self._later_units(found) for item in one.kept]
                return [item["name"] for item in units if item.get("stamp")]
        return []

    @staticmethod
    def _next(found: t.Sequence[Entry]) -> int:
        return 1 + max((one.sequence for one in found), default=0)

    def _put(
        self, state: str, items: t.Sequence[Item], sequence: int, before: Entry | None
    ) -> None:
        text = json.dumps(
            {
                "format": FORMAT,
                "manager": self.manager,
                "part": self.part,
                "module": self.module,
                "version": self.version,
                "sequence": sequence,
                "born": before.born if before else sequence,
                "state": state,
                "key": name_of(key_of(self.directory)),
                "items": list(items),
            },
            sort_keys=True,
        )
        # A closed entry that a power cut takes back is an open one again, or one that cannot be read.
        write(self.path, text + "\n", durable=state != "closed")

    @contextlib.contextmanager
    def _reported(self) -> t.Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ManifestError(
                f"{error.filename or self.directory}: {error.strerror or error}, so what this run leaves cannot be"
                " recorded. Remedy: check the file system (read-only, full?) and run again"
            ) from error


class NoRecord(Record):
    """The record of a call that leaves none: as another user than root, or of a caller unknown."""

    def __init__(self) -> None:
        super().__init__("", "", "")

    def begin(self) -> None:
        """Do nothing."""

    def put_back(self, _changes: t.Iterable[t.Any]) -> list[str]:
        """Return nothing."""
        return []

    def earlier(self, *_kinds: str) -> dict[str, Item]:
        """Return nothing."""
        return {}

    def end(
        self,
        items: t.Sequence[t.Mapping[str, t.Any]],
        packages: t.Mapping[str, str] | None = None,
    ) -> None:
        """Do nothing."""


class _OfModule(Record):
    """The record of a module, which fails where it cannot be written."""

    module_itself: t.Any = None

    def begin(self) -> None:
        try:
            super().begin()
        except ManifestError as error:
            self.module_itself.fail_json(msg=str(error))

    def earlier(self, *kinds: str) -> dict[str, Item]:
        try:
            return super().earlier(*kinds)
        except ManifestError as error:
            self.module_itself.fail_json(msg=str(error))
            raise

    def put_back(self, changes: t.Iterable[t.Any]) -> list[str]:
        try:
            return super().put_back(changes)
        except ManifestError as error:
            self.module_itself.fail_json(msg=str(error))
            raise

    def end(
        self,
        items: t.Sequence[t.Mapping[str, t.Any]],
        packages: t.Mapping[str, str] | None = None,
    ) -> None:
        try:
            super().end(items, packages)
        except ManifestError as error:
            self.module_itself.fail_json(msg=str(error))


class _Foreseen(_OfModule):
    """The record of a call in check mode, which reads what the last call has left and leaves nothing."""

    def begin(self) -> None:
        """Do nothing."""

    def put_back(self, _changes: t.Iterable[t.Any]) -> list[str]:
        """Return nothing."""
        return []

    def end(
        self,
        items: t.Sequence[t.Mapping[str, t.Any]],
        packages: t.Mapping[str, str] | None = None,
    ) -> None:
        """Do nothing."""


class _InBetween(_Foreseen):
    """The record of a call that acts on what another call has left: it leaves nothing itself."""

    def begin(self) -> None:
        """Have the run not keep what it has set the host up for, as if another run had changed something."""
        try:
            with self._reported():
                prepare(self.directory)
                forget(self.directory, "in between")
        except ManifestError as error:
            self.module_itself.fail_json(msg=str(error))


def of(module: t.Any) -> Record:
    """Return the record of a module's call. module: an AnsibleModule with the option of ARGUMENT."""
    given = module.params.get("managed_by")
    if not given or os.geteuid():
        return NoRecord()
    name = str(module._name).rpartition(".")[2]
    kind = _InBetween if module.params.get("in_between") else _OfModule
    if module.check_mode:
        kind = _Foreseen
    record = kind(given["manager"], given["part"], name, given["version"], DIRECTORY, given["run"])
    record.module_itself = module
    return record
