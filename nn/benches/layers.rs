//! Time of each layer's computations on a shard, and of the reference network's whole chain.
fn main() {}
