"""The command line. Only this package reads the environment, the working folder and the terminal."""
