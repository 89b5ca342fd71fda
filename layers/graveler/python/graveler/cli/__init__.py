"""The command line. Only this room reads the environment, the working folder and the terminal."""
