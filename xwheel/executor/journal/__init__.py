"""The executor's memory on disk: ``journal`` says what is written when, ``statements`` how."""
