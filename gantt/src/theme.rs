//! Light and dark figures: what is drawn in which colour.

use plotters::style::RGBColor;

use crate::palette::Key;

/// Whether a figure is dark on white or light on black.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// Dark text on white, for papers.
    #[default]
    Light,
    /// Light text on a dark page, for screens.
    Dark,
}

/// What something is drawn in; its colour depends on the theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The background of the figure.
    Page,
    /// Text and lines that matter.
    Ink,
    /// Text and lines beside them.
    Muted,
    /// Lines behind everything.
    Faint,
    /// The background of a lane.
    Lane,
    /// What a reader must not miss.
    Warning,
    /// What a piece of a lane shows.
    Key(Key),
}

impl Theme {
    pub(crate) fn colour(self, tone: Tone) -> RGBColor {
        let (light, dark) = match tone {
            Tone::Page => ((255, 255, 255), (20, 23, 28)),
            Tone::Ink => ((31, 36, 48), (230, 233, 239)),
            Tone::Muted => ((96, 104, 120), (154, 163, 178)),
            Tone::Faint => ((225, 228, 234), (44, 50, 60)),
            Tone::Lane => ((238, 240, 243), (36, 41, 50)),
            Tone::Warning => ((176, 32, 32), (255, 138, 128)),
            Tone::Key(key) => return key.colour(self),
        };
        let (r, g, b) = if self == Theme::Light { light } else { dark };
        RGBColor(r, g, b)
    }
}
