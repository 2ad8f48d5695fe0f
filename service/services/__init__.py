"""Operations for callers: authorise, run a transaction, write the audit trail."""
