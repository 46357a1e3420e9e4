"""People: accounts with roles, sign-in, sessions and tokens of their own; and the audit of what everybody does.

``gate`` says whose cookie a call shows, by ``sessions``; ``sign_in`` judges passwords and links, bounded by ``places``
and ``throttle``, with ``providers`` of identities, of which ``local`` is ours. ``accounts`` makes and changes accounts.
``api`` has the resources, ``cli`` the commands, ``storage`` the tables. The folder ``audit`` signs what is done, and
seals and verifies it. ``parts`` and ``resources`` put all of it together, with what the core gives a plugin.
"""
