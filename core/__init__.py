"""What a queue is below Python: epochs, clocks, markers, plans and states; errors; the contract of a driver."""
