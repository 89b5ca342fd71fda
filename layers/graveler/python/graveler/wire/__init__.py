"""Documents of the HTTP API that its server and its clients share. Values only."""
