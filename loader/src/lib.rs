//! Data sets and batch loaders that decode in runtime tasks.
