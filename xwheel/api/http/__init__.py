"""Around every call.

``auth`` says who calls, ``rate`` how often they may, ``body`` reads what they send, ``errors`` words
failures, ``resource`` has what resources share.
"""
