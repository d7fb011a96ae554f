"""Reading rows from hub ids, folders, parquet, CSV and JSON files."""
