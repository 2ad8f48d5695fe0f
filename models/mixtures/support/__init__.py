"""What a mixture believes of the label sets seen in training, and the F1 rule on it."""
