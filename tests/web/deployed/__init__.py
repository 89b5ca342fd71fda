"""Stories of the web page of a whole deployment in the emulator; a test of ``tests/infra`` starts them."""
