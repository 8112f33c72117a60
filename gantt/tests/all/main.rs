//! Figures, pages and summaries of made-up and random traces.

mod figures;
mod pages;
mod properties;
mod raster;
mod support;
