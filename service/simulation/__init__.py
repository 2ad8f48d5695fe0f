"""The whole loop on made-up weeks: documents of known truth through the service's own verbs."""
