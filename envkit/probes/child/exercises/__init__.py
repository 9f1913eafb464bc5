"""The allocator exercises: operations as data, and torch's CUDA allocator to carry them out on."""
