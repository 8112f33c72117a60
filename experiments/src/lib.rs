//! The millrace command: every combination of batch arena and loader, measured and reported.
