"""Methods of the papers that no preset uses; benchmarks compare against them.

- `baselines`: what the papers compare with, for `setwise benchmark`.
- `noisy_audits`: thresholds from answers with known error rates, without a lead.
- `rival_thresholds`: thresholds by a plug-in estimate, by selection with guaranteed risk, and from
  audits that miss no error.
- `robust_choice`: the choice between robust calibrators by the amount of data.
- `weighted_audits`: thresholds by prediction-powered estimates and by importance audits.
"""
