"""Stories of the web page: a browser, a server, and a lake in a folder."""
