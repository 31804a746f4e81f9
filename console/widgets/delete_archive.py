"""Before an archive is deleted: what is lost, the version's name typed, a reason, then one button."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.widgets.confirm_dialog import confirm_dialog
from console.widgets.refusal import show_refusal
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.stored import StoredVersion
    from console.version_actions import VersionActions


async def delete_archive(version: StoredVersion, actions: VersionActions, on_done: Callable[[], None]) -> None:
    """Ask what would go, and open the dialog."""
    ref, tenant = version.place.ref, version.tenant
    try:
        loss = await actions.delete_archive(ref, tenant, preview=True)
    except LoradeckError as error:
        show_refusal("delete", error)
        return

    async def delete(why: str) -> bool:
        try:
            await actions.delete_archive(ref, tenant, why=why)
        except LoradeckError as error:
            show_refusal("delete", error)
            return False
        on_done()
        return True

    effects = [
        f"The image and the record of {ref} are deleted: it can never be restored.",
        f"{fmt.size(loss.bytes)} of the disk become free.",
        "The version, its report and its audit lines stay. The adapter can be registered from its source, if that is still there.",
    ]
    confirm_dialog(f"Delete the archive of {ref}", effects, "Delete archive", delete, name=ref, note="This cannot be undone")
