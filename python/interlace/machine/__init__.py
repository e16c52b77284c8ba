"""Machine descriptions: reading, checking, writing."""
