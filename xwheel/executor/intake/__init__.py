"""What comes in: ``server`` takes the calls, ``endpoints`` answers them, ``queues`` says which run is next."""
