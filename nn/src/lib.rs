//! Layers, losses, optimisers and a trainer that run as tasks on shards of a batch.
