"""What callers may do: authorise, transact, audit."""
