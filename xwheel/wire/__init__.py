"""XXL-JOB's HTTP contract, both sides: messages, their spelling, the codes, and the clients that carry them."""
