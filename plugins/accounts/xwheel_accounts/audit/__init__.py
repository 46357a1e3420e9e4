"""The audit after its rows are written, which ``storage/access/audit`` does in the transaction of each change.

``sealing`` chains committed rows each second and deletes old ones, by the rules of ``chain``; ``anchors`` writes heads
to where a database's administrator cannot change them; ``verify`` finds what was changed, removed or inserted.
``refusals`` counts the calls that were refused.
"""
