"""The process and its machine: temporary files, threads, forks, random bytes, retries, progress, secrets in the environment."""
