"""Calls to addresses that people write into rules, jobs and options: webhooks, gateways, HTTP jobs (rule R8).

Whoever may edit a job or an alarm rule must not reach through the scheduler or an executor what they cannot
reach themselves. So everything that calls a URL from outside the settings' own sections goes through one
policy, which an operator sets once, in the section ``[egress]``:

- http and https, to public addresses and the ports 80 and 443; whatever else may be reached is named there. - A
name is resolved once, every address is checked, and the connection goes to exactly a checked one, while TLS
still proves the name: an answer of DNS that changes later changes nothing. - Redirects are not followed, or
each is checked anew. No proxy, cookie or password file of the environment is used. - The time of the whole call
and the size of the answer are bounded. Errors never hold more of a URL than its origin.

A plugin makes its client in its hook, with no I/O, and calls it from any thread::

client = EgressClient(EgressPolicy.from_config(config)) answer = client.request("POST", url,
headers={"Content-Type": "application/json"}, body=data, timeout_s=5)
"""

from xwheel.egress.client import EgressCall, EgressClient
from xwheel.egress.messages import Answer
from xwheel.egress.policy import EgressPolicy, Target
from xwheel.errors import EgressError, EgressRefusedError

__all__ = [
    "Answer",
    "EgressCall",
    "EgressClient",
    "EgressError",
    "EgressPolicy",
    "EgressRefusedError",
    "Target",
]
