"""What lives in a process: the served model, the worker, the courier."""
