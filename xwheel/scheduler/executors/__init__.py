"""Who the executors are: what every stage that calls them asks.

``registry`` knows who is registered and alive, ``secrets`` what each is called with, ``loads`` how many runs each has;
``calls`` puts questions to them over HTTP and reads the envelopes that come back.
"""
