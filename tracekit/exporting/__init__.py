"""Features and traces in other people's formats: Parquet, Arrow, NumPy, ChampSim."""
