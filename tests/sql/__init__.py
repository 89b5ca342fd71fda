"""SQL over a lake's history."""
