# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which image a name means on this node: the user's own, the staged, the shared one.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from ..node.acting import user_name
from .image_errors import ImageError, from_os
from .image_file import IMAGE, Image
from .store import Store

CONFIG = "/etc/trainwright/images.json"


def configuration(path: str = CONFIG) -> dict[str, str]:
    """Return where the images of this cluster are: store (shared) and staged (local to the node)."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return {name: str(found[name]) for name in ("store", "staged")}
    except (OSError, ValueError, TypeError) as error:
        fault = str(error)
    except KeyError as error:
        fault = f"does not have {error}"
    raise ImageError(
        "missing", f"{path}: {fault} -> ask an administrator: role enroot writes it on every host"
    )


def user_store(shared: str) -> Store:
    """Return the store of the user who runs this, in the cluster's."""
    return Store(os.path.join(shared, "users", user_name(os.geteuid())))


def prepare_user_store(shared: str, check: bool = False) -> Store:
    """Return the user's store, made if need be. Raises ImageError: denied, where the cluster has none.

    check: only see whether the cluster has stores of users.
    """
    users = os.path.join(shared, "users")
    if not os.path.isdir(users):
        raise ImageError(
            "denied",
            f"{users}: does not exist, so users cannot have images of their own here -> ask the administrator for it, "
            "mode 0755 (role enroot makes it)",
        )
    from .user_directories import IMAGES, ask  # a job that finds its image does not need it

    store = user_store(shared)
    if check:
        return store
    try:
        owned = os.path.isdir(store.path) and os.lstat(store.path).st_uid == os.geteuid()
        # A site's own directory may be 1777, for storage where root lacks rights.
        fault = "" if owned or os.access(users, os.W_OK) else ask(IMAGES)
        if fault:
            raise ImageError("denied", fault)
        store.prepare()
    except OSError as error:
        raise from_os(error, store.path) from error
    return store


def image_of_cluster(shared: str, name: str) -> Image | None:
    """Return the cluster's image of a name, if it is whole and this user's jobs get it: they have none of their own."""
    own = user_store(shared)
    with contextlib.suppress(OSError):
        if os.lstat(own.path).st_uid == os.geteuid() and os.readlink(own.link(name)):
            return None
    with contextlib.suppress(ImageError):  # no link, so no job finds it
        image = Store(shared).target(name)
        return image if image and image.record else None
    return None


def _behind(place: Store, name: str) -> str:
    return os.path.normpath(os.path.join(place.path, os.readlink(place.link(name))))


def hides_image_of_cluster(config: t.Mapping[str, str], name: str, found: str) -> bool:
    """Return whether what `lookup` found is the user's own image, and the cluster has another of that name."""
    own, shared = user_store(config["store"]), Store(config["store"])
    with contextlib.suppress(OSError):
        return _behind(own, name) == found != _behind(shared, name)
    return False


def lookup(config: t.Mapping[str, str], name: str) -> str:
    """Return the image that a name means on this node: the user's own, the staged, the shared one.

    A staged image that differs from the shared one is ignored, so that all nodes of a job run the
    same. Raises ImageError: unknown.
    """
    own, shared = user_store(config["store"]), Store(config["store"])
    staged = Store(config["staged"])
    places = [own, staged, shared]
    with contextlib.suppress(OSError):
        # Anyone may have made it where the site's directory is sticky.
        if os.lstat(own.path).st_uid != os.geteuid():
            places.remove(own)
    found: dict[Store, str] = {}
    for place in places:
        with contextlib.suppress(OSError):
            found[place] = _behind(place, name)
    if not found:
        raise _unknown(name, places)
    chosen = found.get(own) or found.get(shared) or found[staged]
    local = found.get(staged, "")
    if own not in found and _digest_in(local) == _digest_in(chosen) and os.path.exists(local):
        chosen = local
    if not os.access(chosen, os.R_OK):
        raise ImageError(
            "damaged",
            f"{name}.sqsh is {chosen}, which cannot be read here -> mount the storage if it is not mounted, or import "
            "it again",
        )
    return chosen


def _digest_in(path: str) -> str:
    match = IMAGE.fullmatch(os.path.basename(path))
    return match[2] if match else path


def _unknown(name: str, places: t.Sequence[Store]) -> ImageError:
    import difflib  # slow to load, and a job that finds its image does not need it

    names = sorted({known for place in places for known in place.names()})
    near = difflib.get_close_matches(name, names, 3, 0.5)
    have = ", ".join(f"{known}.sqsh" for known in near or names[:10]) or "none yet"
    return ImageError(
        "unknown",
        f"no image {name}.sqsh -> {'the nearest names' if near else 'there'} are: {have}; "
        f"`image-import REFERENCE {name}` on a login node makes it",
    )
