//! Names of edges.

/// Edges that live in the slot itself; a task with more predecessors spills the rest.
pub(crate) const INLINE: u32 = 3;

const SPILLED: u32 = 1 << 31;
const ORDER: u32 = 1 << 30;
const INDEX: u32 = ORDER - 1;
const NONE: u32 = u32::MAX;

/// The name of an edge as it stands in a successor list: where the edge is stored, and whether
/// it carries data or only order.
///
/// | bits | content |
/// |---|---|
/// | 31 | spilled: bits 0..30 are an index into the spill table; else slot * 8 + place |
/// | 30 | order only: the successor does not read what the predecessor wrote |
///
/// All ones is the end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge(u32);

/// Where an edge is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the successor's slot.
    Inline {
        /// The successor's slot.
        slot: u32,
        /// Which of its edges.
        place: u32,
    },
    /// In the spill table.
    Spilled(u32),
}

impl Edge {
    pub(crate) const END: Edge = Edge(NONE);
    /// Slots and spilled edges are numbered below these.
    pub(crate) const MAX_SLOTS: u32 = INDEX >> 3;
    pub(crate) const MAX_SPILLED: u32 = INDEX;

    pub(crate) fn inline(slot: u32, place: u32, order_only: bool) -> Self {
        debug_assert!(slot < Self::MAX_SLOTS && place < INLINE);
        Edge(slot << 3 | place | if order_only { ORDER } else { 0 })
    }

    pub(crate) fn spilled(index: u32, order_only: bool) -> Self {
        debug_assert!(index < Self::MAX_SPILLED);
        Edge(SPILLED | index | if order_only { ORDER } else { 0 })
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Edge(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn is_end(self) -> bool {
        self.0 == NONE
    }

    /// Whether the failure of the predecessor leaves the successor unharmed.
    pub(crate) fn order_only(self) -> bool {
        self.0 & ORDER != 0
    }

    /// The same edge, with or without data.
    pub(crate) fn with_order_only(self, order_only: bool) -> Self {
        Edge(self.0 & !ORDER | if order_only { ORDER } else { 0 })
    }

    pub(crate) fn place(self) -> Place {
        let index = self.0 & INDEX;
        if self.0 & SPILLED == 0 {
            Place::Inline { slot: index >> 3, place: index & 7 }
        } else {
            Place::Spilled(index)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_carry_place_and_kind() {
        for order in [false, true] {
            let e = Edge::inline(Edge::MAX_SLOTS - 1, INLINE - 1, order);
            assert_eq!(e.place(), Place::Inline { slot: Edge::MAX_SLOTS - 1, place: INLINE - 1 });
            assert_eq!((e.order_only(), e.is_end()), (order, false));
            let e = Edge::spilled(Edge::MAX_SPILLED - 1, order);
            assert_eq!(e.place(), Place::Spilled(Edge::MAX_SPILLED - 1));
            assert_eq!((e.order_only(), e.is_end()), (order, false));
            assert_eq!(Edge::from_bits(e.bits()), e);
        }
        assert!(Edge::END.is_end());
    }
}
