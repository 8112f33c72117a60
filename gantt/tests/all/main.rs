//! Figures and summaries of made-up and random traces.

mod figures;
mod properties;
mod raster;
mod support;
