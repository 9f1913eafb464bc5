"""What needs several processes, one for each GPU: collectives, and a model that is sharded."""
