"""People: accounts with roles, sign-in, sessions and tokens of their own; and the audit of what everybody does.

``gate`` says whose cookie a call shows, by ``sessions``; ``sign_in`` judges passwords and links, bounded by ``places``
and ``throttle``, with ``providers`` of identities, of which ``local`` is ours; ``identities`` is their contract, which
plugins import from here. ``accounts`` makes and changes accounts. ``api`` has the resources, ``cli`` the commands,
``storage`` the tables. The folder ``audit`` signs what is done, and seals and verifies it. ``parts`` and ``resources``
put all of it together, with what the core gives a plugin.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xwheel_accounts.identities import (
        Identity,
        IdentityProvider,
        KnownAccount,
        SignInStart,
        SignsInByPassword,
        SignsInByRedirect,
        SignsOut,
    )

__all__ = [
    "Identity",
    "IdentityProvider",
    "KnownAccount",
    "SignInStart",
    "SignsInByPassword",
    "SignsInByRedirect",
    "SignsOut",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # the settings are read by processes that need nothing else from here
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from xwheel_accounts import identities

        return getattr(identities, name)
