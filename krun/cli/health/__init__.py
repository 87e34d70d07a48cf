"""The checks of krun doctor, by what they look at."""
