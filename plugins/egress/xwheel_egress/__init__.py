"""Calls to addresses that people write into rules, jobs and options: webhooks, gateways, HTTP jobs (rule R8).

An author of a job or an alarm rule must not reach through the scheduler or an executor what they cannot reach
themselves. So such calls go through one policy, which an operator sets once, in the section ``[egress]``:

- http and https, to public addresses and the ports 80 and 443, and to what the section names.
- A name is resolved once, every address is checked, and the connection goes to a checked one, while TLS still proves
  the name: an answer of DNS that changes later changes nothing.
- Redirects are not followed, or each is checked again. No proxy, cookie or password file of the environment is used.
- The time of the whole call and the size of the answer are bounded. Errors never hold more of a URL than its origin.

A plugin makes its client in its hook, with no I/O, and calls it from any thread::

    client = EgressClient(EgressPolicy.from_config(config))
    answer = client.request("POST", url, headers={"Content-Type": "application/json"}, body=data, timeout_s=5)
"""

from xwheel_egress.client import EgressCall, EgressClient
from xwheel_egress.messages import Answer, EgressError, EgressRefusedError
from xwheel_egress.policy import EgressPolicy

__all__ = ["Answer", "EgressCall", "EgressClient", "EgressError", "EgressPolicy", "EgressRefusedError"]
