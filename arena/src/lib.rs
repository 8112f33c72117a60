//! Grouped arenas whose buffers are data handles of the task runtime.
