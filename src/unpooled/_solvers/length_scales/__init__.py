"""Search for length scales: the leave-one-out error with its gradient, and the path along which it is minimised."""
