//! The networks.

use clap::ValueEnum;
use millrace_nn::Network;
use serde::Serialize;

/// A network that is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Net {
    /// The reference network: one convolution with 4 filters of 3x3.
    #[value(name = "D")]
    D,
    /// Two small convolutions of 3x3.
    #[value(name = "N1")]
    N1,
    /// Two wide convolutions of 5x5.
    #[value(name = "N2")]
    N2,
    /// Four convolutions of 3x3.
    #[value(name = "N3")]
    N3,
}

impl Net {
    /// Every network.
    pub const ALL: [Self; 4] = [Self::D, Self::N1, Self::N2, Self::N3];

    /// Its name, as in options, tables and messages to the peer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::D => "D",
            Self::N1 => "N1",
            Self::N2 => "N2",
            Self::N3 => "N3",
        }
    }

    pub(super) fn network(self) -> Network {
        match self {
            Self::D => Network::reference(),
            Self::N1 => Network::n1(),
            Self::N2 => Network::n2(),
            Self::N3 => Network::n3(),
        }
    }

    /// Batch sizes if nothing else is asked for.
    pub(super) const fn batches(self) -> &'static [u16] {
        match self {
            Self::D => &[10],
            Self::N1 | Self::N2 | Self::N3 => &[32, 128],
        }
    }
}
