"""Methods that the papers compare with, by name for `python -m benchmarks.papers --methods`.

`registry` names them; `running` runs one by itself or with the set calibrator on top.

- `chains`: classifier chains, greedy, with beam search, and ensembles.
- `constrained_networks`: predict and constrain.
- `energy_networks`: SPEN.
- `forests`: trees that divide documents by their features.
- `label_subsets`: RAKEL.
- `neighbours`: ML-kNN.
- `networks`: what the three kinds of networks share.
- `pairwise_crf`: conditional random field over known label sets.
- `sized_labels`: LSF.
- `smooth_link`: randomized embedding, and smooth links with and without it.
- `sparse_margins`: PD-Sparse.
- `stacking`: 2BR, DBR and the conditional dependency network.
- `support`: binary relevance over known label sets, and the power set.
- `thresholded`: threshold and probabilities for scores without a scale.
- `value_networks`: deep value networks.
"""
