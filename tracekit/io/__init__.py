"""Reading inputs, whatever their compression, and showing how far a job has come."""
