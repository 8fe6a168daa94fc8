"""The lake: for each chosen table two maintained tables in Delta or Iceberg, fed by Spark."""
