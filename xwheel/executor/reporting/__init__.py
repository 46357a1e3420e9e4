"""What goes out.

``admin_client`` calls the scheduler, ``outcomes`` delivers what the journal holds until it is confirmed.
"""
