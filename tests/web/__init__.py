"""Stories of the web page: a browser, a server, and a lake in a folder. They run in an environment of their own."""
