"""Opening a lake: where it is, what it is made of, which repositories it has."""
