"""Long-lived parts of a process: the served model, the worker, the courier."""
