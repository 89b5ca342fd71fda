"""The data pipeline on Spark. Run in ``.venv-spark``, which `make spark-tools` makes."""
