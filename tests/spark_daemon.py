"""What starts the Python processes of Spark's tasks: it imported what they all need."""

from pyspark.daemon import manager

import cloakwork_extras.spark.spark  # noqa: F401 - before processes are made of this one

if __name__ == "__main__":
    manager()
