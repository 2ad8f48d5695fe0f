"""What tests of started servers share."""

collect_ignore = ["third_program.py"]  # a program that a test starts
