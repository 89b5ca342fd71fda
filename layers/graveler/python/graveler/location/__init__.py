"""The location of the lake and the identity of the user, from the environment and the configuration file."""
