import statistics
times = [12, 15, 11, 19, 15]
result = [statistics.mean(times), statistics.median(times), statistics.mode(times), round(statistics.stdev(times), 4), statistics.median([1, 2, 3, 4]), statistics.mean([1, 2]), statistics.mean([1.5, 2.5]), statistics.pvariance([1, 2, 3, 4])]
