"""What happens around every call, in this order.

``auth`` checks who calls, ``body`` and ``headers`` read what was sent, ``resource`` has what resources share and writes
the answer, ``errors`` turns an exception into a problem document.
"""
