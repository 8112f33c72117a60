//! The memory of one sample, and the two views of it: a producer's and the trainer's.

use std::fmt;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::budget::{Budget, Reservation};
use super::error::ProducersError;
use super::layout::{ALIGNMENT, Element, Layout};
use super::system::SharedSlot;

/// What memory is allocated in, so that every field is aligned.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// Memory for one sample. Whoever has the slot has the memory: it moves from the free ones to a
/// producer, on to the trainer and back, and nobody else sees it meanwhile.
pub(crate) struct Slot(Memory);

enum Memory {
    /// Of this process.
    Own { lines: Box<[Line]>, _reserved: Reservation },
    /// Shared with processes. All slots of a run are one piece of memory.
    Shared { slot: SharedSlot, _reserved: Arc<Reservation> },
}

impl Slot {
    /// Memory of its own for a sample.
    pub(crate) fn new(layout: &Layout, budget: &Budget) -> Result<Self, ProducersError> {
        let bytes = layout.slot_bytes();
        let reserved = budget.reserve(bytes)?;
        let count = bytes / ALIGNMENT;
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| {
            let error = std::io::ErrorKind::OutOfMemory;
            ProducersError::system(format!("allocate a slot of {bytes} bytes"), error)
        })?;
        lines.resize(count, Line::zeroed());
        Ok(Slot(Memory::Own { lines: lines.into_boxed_slice(), _reserved: reserved }))
    }

    /// A slot of memory that is shared with processes.
    pub(crate) fn shared(slot: SharedSlot, reserved: &Arc<Reservation>) -> Self {
        Slot(Memory::Shared { slot, _reserved: Arc::clone(reserved) })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Memory::Own { lines, .. } => bytemuck::cast_slice(lines),
            Memory::Shared { slot, .. } => slot.bytes(),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own { lines, .. } => bytemuck::cast_slice_mut(lines),
            Memory::Shared { slot, .. } => slot.bytes_mut(),
        }
    }

    /// Its number in memory that is shared.
    pub(crate) fn number(&self) -> Option<u32> {
        match &self.0 {
            Memory::Own { .. } => None,
            Memory::Shared { slot, .. } => Some(slot.number()),
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.number()).finish()
    }
}

/// Where a producer puts a sample.
///
/// It holds what an earlier sample left there; every value of every field is to be written.
pub struct SampleMut<'a> {
    layout: &'a Layout,
    bytes: &'a mut [u8],
    beat: &'a dyn Fn(),
}

impl<'a> SampleMut<'a> {
    pub(crate) fn new(layout: &'a Layout, bytes: &'a mut [u8], beat: &'a dyn Fn()) -> Self {
        SampleMut { layout, bytes, beat }
    }

    /// The values of a field, the last axis fastest.
    ///
    /// # Panics
    /// When there is no such field, or when its values are of another type: the layout says
    /// which they are.
    pub fn field<T: Element>(&mut self, field: usize) -> &mut [T] {
        let range = self.layout.typed::<T>(field);
        bytemuck::cast_slice_mut(&mut self.bytes[range])
    }

    /// The bytes of a field, in the order of this machine.
    ///
    /// # Panics
    /// When there is no such field.
    pub fn field_bytes(&mut self, field: usize) -> &mut [u8] {
        &mut self.bytes[self.layout.range(field)]
    }

    /// The fields and their places.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Says that the work goes on: the deadline of the claim begins anew. For samples that may
    /// take longer than [`ProducersConfig::deadline`](super::ProducersConfig::deadline).
    pub fn beat(&self) {
        (self.beat)();
    }
}

impl fmt::Debug for SampleMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleMut").field("layout", &self.layout.to_string()).finish()
    }
}

/// A sample as the trainer sees it, where its producer wrote it.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    layout: &'a Layout,
    index: u32,
    bytes: &'a [u8],
}

impl<'a> Sample<'a> {
    pub(crate) fn new(layout: &'a Layout, index: u32, slot: &'a Slot) -> Self {
        Sample { layout, index, bytes: slot.bytes() }
    }

    /// Which sample it is; of a substitute, its own index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The values of a field, the last axis fastest.
    ///
    /// # Panics
    /// When there is no such field, or when its values are of another type.
    pub fn field<T: Element>(&self, field: usize) -> &'a [T] {
        bytemuck::cast_slice(self.field_bytes_at(self.layout.typed::<T>(field)))
    }

    /// The bytes of a field, in the order of this machine.
    ///
    /// # Panics
    /// When there is no such field.
    pub fn field_bytes(&self, field: usize) -> &'a [u8] {
        self.field_bytes_at(self.layout.range(field))
    }

    fn field_bytes_at(&self, range: std::ops::Range<usize>) -> &'a [u8] {
        &self.bytes[range]
    }
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.layout.to_string();
        f.debug_struct("Sample").field("index", &self.index).field("layout", &layout).finish()
    }
}
