"""Commands that talk to a running node over its management API, a module for each word after ``xwheel``."""
