# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings an image to its name: the cluster's, a staged copy, or one of the user who runs this.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import typing as t

from . import image_file, lookup, sources, store
from .image_errors import ImageError


def own(
    params: t.Mapping[str, t.Any], shared: str, check: bool, warn: t.Callable[[str], None]
) -> dict[str, t.Any]:
    """Bring a name of the user who runs this to its state; an image of the cluster is used as it is.

    Raises ImageError.
    """
    name, reference = image_file.checked_name(params["name"]), params["reference"]
    if params["state"] == "present" and reference:
        found = lookup.image_of_cluster(shared, name)
        if found:
            same = False
            with contextlib.suppress(ImageError):
                same = (
                    sources.source_of(reference, params["arch"] or "").key in found.record["keys"]
                )
            if not same:
                warn(
                    f"{name}.sqsh: is the cluster's image of {found.record['reference']}; nothing was imported from "
                    f"{reference} -> choose another name for an image of your own"
                )
            return {
                **store.result_of(store.Store(shared), name, found, found),
                "whose": "cluster",
            }
        lookup.prepare_user_store(shared, check)
    return {**image(params, lookup.user_store(shared).path, check), "whose": "user"}


def image(params: t.Mapping[str, t.Any], path: str, check: bool) -> dict[str, t.Any]:
    """Bring a name to its state. Raises ImageError."""
    if params["state"] == "absent":
        return store.absent(path, params["name"], check=check)
    reference = params["reference"]
    if not reference and params["store"] == "staged":
        shared = store.Store(lookup.configuration()["store"])
        reference = shared.link(params["name"].removesuffix(".sqsh"))
    if not reference:
        raise ImageError(
            "reference", f"{params['name']}: give reference, where the image comes from"
        )
    asked = {name: params[name] for name in ("refresh", "force")}
    return store.present(
        path, params["name"], reference, arch=params["arch"] or "", check=check, **asked
    )
