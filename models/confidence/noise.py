"""How often reviewers are wrong about a prediction."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseRates:
    """Error rates of a reviewer or of a group of reviewers (thesis, section 4.10.1).

    Attributes
    ----------
    alpha : float
        P(the reviewer's set differs from the prediction | the prediction is right), in [0, 1].
    beta : float
        P(the reviewer's set equals the prediction | the prediction is wrong), in [0, 1].

    Raises
    ------
    ValueError
        If a rate is not a probability.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019.

    Examples
    --------
    >>> NoiseRates(0.2, 0.05).separation
    0.75
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, rate in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{name} is {rate}; a noise rate lies between 0 and 1")

    @property
    def separation(self) -> float:
        """How much an answer says about the prediction: ``1 - alpha - beta``.

        1 without noise; at 0 or below the answers are worth nothing.
        """
        return 1.0 - self.alpha - self.beta

    def agreement(self, accuracy: float) -> float:
        """Return how often the reviewer agrees with predictions of this accuracy."""
        return self.beta + self.separation * accuracy
