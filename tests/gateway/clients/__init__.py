"""S3's own clients, unmodified, on branches: each a program that runs in an environment with that client."""
