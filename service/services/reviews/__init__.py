"""What people read and decide: the queue that they claim from, and their answers.

Which documents come here, and what an answer counts for, is said in `service.domain.reviews`,
`service.domain.routing` and `service.domain.evidence`. What another program reports later is an
outcome: `service.services.outcomes`.
"""
