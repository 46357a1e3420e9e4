"""Web applications with an embedded scheduler, as people write them; each answers who leads and triggers a run."""
