"""The event model: numpy tables that every source fills and every analysis reads."""
