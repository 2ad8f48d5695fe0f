"""The words that people ask about, each explained in two sentences; see ``terms.html``."""

GLOSSARY: dict[str, str] = {
    "accuracy": (
        "The share of label sets that were right as a whole. It is known only where a person or "
        "another program has said what is right."
    ),
    "adjudication": (
        "A lead decides between two answers that differ: an auditor's and the model's, or two "
        "reviewers'. What the lead says is taken for the truth."
    ),
    "audit": (
        "A document drawn by lot and read by a person who does not see what the model said. "
        "Because nobody picks them, audits tell how good the machine is on all documents."
    ),
    "breaker": (
        "Watches the audits and stops automatic sending when they say that the target is no "
        "longer met. How often it may stop without a cause is bounded."
    ),
    "calibrated": (
        "Confidence that means what it says: of the sets with a confidence of 90 %, nine in ten "
        "are right. A calibrator learns this from reviewed documents."
    ),
    "certified": (
        "Proved by audits: at this threshold, at least the target share of what is sent is "
        "right, and the proof is wrong no more often than the policy's risk allows."
    ),
    "calibrator": (
        "Turns a model's score into a confidence. It learns from reviewed documents how often "
        "sets with such a score were right; label sets stay the same."
    ),
    "confidence": (
        "The calibrated probability that the whole label set is right, from 0 to 1. One label "
        "too many or too few makes a set wrong."
    ),
    "coverage": (
        "The share of all documents that is sent without a person; also called automation. A "
        "higher threshold sends less and errs less."
    ),
    "exact bounds": (
        "The range that counts of right and wrong leave for the true share, after Clopper and "
        "Pearson: it holds for any number of checks, however few."
    ),
    "noise": (
        "How often people answer wrongly: they reject a set that is right (alpha) or accept one "
        "that is wrong (beta). Known noise is taken out when confidence is learnt from answers."
    ),
    "overlap": (
        "A second reviewer reads the same document without seeing the first answer. Where the "
        "two differ a lead decides."
    ),
    "policy": (
        "The rules by which documents are sent or held back: target, risk, threshold, audits. "
        "Every change makes a new version, and every prediction names the one that decided it."
    ),
    "risk": (
        "How likely the audits may be to prove a threshold that does not keep the target. All "
        "attempts for one calibrator share it."
    ),
    "set accuracy": (
        "The share of documents whose whole label set is right, none missing and none too many. "
        "It is stricter than counting labels one by one."
    ),
    "shadow run": (
        "Another model scores the documents that come in and decides nothing, so that both can "
        "be compared before it serves."
    ),
    "target": (
        "The share of automatically sent label sets that must be right. The administrator chooses "
        "it; the audits prove whether it is met."
    ),
    "threshold": (
        "The least confidence at which a label set is sent without a person. Lower sends more; "
        "higher sends only what is surer."
    ),
}
