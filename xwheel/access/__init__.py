"""Programs that call: their tokens, what they may do, and what they may give away; of people plugins know."""
