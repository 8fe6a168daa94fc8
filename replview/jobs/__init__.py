"""What runs in the background on request: exports, history jobs, baselines, erasures, peeks."""
