"""What the source of a package job says: which package, and what of it the job calls."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from xwheel.plugin import ExecutorError

SCHEMA: Final = 1
MAX_BYTES: Final = 4096
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PackageReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which package a job is of, and what it calls.

    Attributes:
        package: The project's normalised name.
        version: Its version.
        package_id: The package's id in the store.
        sha256: Hash of the file.
        file: Name of the file.
        group: Module, or module and class, of what is called.
        name: Name of the function or method.
        container: Whether methods' objects come from the package's bean factory.
        call: What kind of thing is called.
        signature: Of the file, by its author; empty for none.
    """

    schema: Literal[1] = SCHEMA
    package: _Name
    version: _Name
    package_id: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.!+-]{0,199}\.(whl|zip|tar\.gz)$")]
    group: Annotated[str, msgspec.Meta(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$", max_length=200)]
    name: Annotated[str, msgspec.Meta(pattern=r"^[^\W\d]\w*$", max_length=200)]
    container: Literal["Common", "Container"] = "Common"
    call: Literal["function", "method", "static", "class", "async"] = "function"
    signature: Annotated[str, msgspec.Meta(max_length=200)] = ""

    @classmethod
    def parse(cls, source: str) -> PackageReference:
        """Return what a job's source says.

        Raises:
            ExecutorError: It is no reference; the message names the field.
        """
        data = source.encode()
        if len(data) > MAX_BYTES:
            raise ExecutorError(f"the source of a package job has at most {MAX_BYTES} bytes, this one {len(data)}")
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise ExecutorError(f"the source is no reference to a package: {error}") from None

    def source(self) -> str:
        """Return the job's source."""
        return msgspec.json.encode(self, order="sorted").decode()
