"""Tests of the readers: recorded trees, fakes of NVML and libcuda, hostile files."""
