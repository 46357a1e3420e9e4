"""What grows and what is counted: ``retention`` deletes, ``hourly_report`` counts."""
