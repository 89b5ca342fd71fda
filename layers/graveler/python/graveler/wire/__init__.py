"""Documents of the HTTP API, shared by its server and its clients. Values only."""
