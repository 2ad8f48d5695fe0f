"""Methods of the papers that no preset uses; `python -m benchmarks.papers` compares them.

- `baselines`: what the papers compare with.
- `published`: what the papers report.
- `runs`: trains and evaluates one method on a data set with a seed.
- `noisy_audits`: thresholds from answers with known error rates, without a lead.
- `rival_thresholds`: thresholds by a plug-in estimate, by selection with guaranteed risk, and from
  audits that miss no error.
- `robust_choice`: the choice between robust calibrators by the amount of data.
- `weighted_audits`: thresholds by prediction-powered estimates and by importance audits.
"""
