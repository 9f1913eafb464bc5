"""The training workloads of the suites, in plain torch."""
