"""Label sets with a calibrated confidence: send the sure ones, review the rest."""
