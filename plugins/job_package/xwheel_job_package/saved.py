"""Whether a source that is about to be saved names a job of a package that the store has."""

from __future__ import annotations

from sqlalchemy import select
from xwheel.plugin import ExecutorError, SavedSource

from xwheel_job_package.owners import is_of_group
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.service import reference_of
from xwheel_job_package.tables import FOUND, PACKAGE


def check_saved(saved: SavedSource, reference: PackageReference) -> None:
    """Refuse a source that differs from what the store would write for the same job of the same package.

    Raises:
        ExecutorError: It does; the message begins with the field.
    """
    wanted = (
        FOUND.c.package_id == reference.package_id,
        FOUND.c.group_name == reference.group,
        FOUND.c.name == reference.name,
    )
    with saved.database.read() as conn:
        query = select(PACKAGE).where(PACKAGE.c.id == reference.package_id)
        package = conn.execute(query).mappings().first()
        item = conn.execute(select(FOUND).where(*wanted)).mappings().first()
        is_theirs = is_of_group(conn, reference.package_id, saved.group_id)
    if package is None or not is_theirs:  # in the same words: no one learns of packages of other groups
        raise ExecutorError(f"package_id: there is no package {reference.package_id} in the store")
    if item is None:
        raise ExecutorError(
            f"group and name: no job {reference.group}.{reference.name} was found in package {reference.package_id} at "
            "its upload: let the console or 'xwheel package' write the source"
        )
    known = reference_of(dict(package), dict(item))
    for field in known.__struct_fields__:
        if getattr(known, field) != getattr(reference, field):
            raise ExecutorError(
                f"{field}: is not that of package {reference.package_id}: let the console or 'xwheel package' write "
                "the source"
            )
