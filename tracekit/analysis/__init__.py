"""What a trace shows by itself: hot spots, miss ratios, epochs, differences of two traces."""
