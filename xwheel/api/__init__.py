"""The two HTTP faces of a node: XXL-JOB's executor API and the management API."""
