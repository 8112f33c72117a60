//! The events that are counted.

use perf_event::events::WhichCache;
use perf_event::events::{Cache, CacheOp, CacheResult, Event as PerfEvent, Hardware, Software};
use serde::{Deserialize, Serialize};

/// Something that the processor or the kernel counts for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Processor cycles in user mode.
    Cycles,
    /// Instructions retired in user mode.
    Instructions,
    /// Reads that reached the last-level cache.
    LlcLoads,
    /// Reads that the last-level cache did not have.
    LlcLoadMisses,
    /// Writes that reached the last-level cache.
    LlcStores,
    /// Writes that the last-level cache did not have.
    LlcStoreMisses,
    /// Nanoseconds for which the thread was on a processor.
    TaskClock,
    /// Page faults in user mode, minor and major.
    PageFaults,
    /// Times that the thread left its processor.
    ContextSwitches,
}

impl Event {
    /// What the processor counts: one group, so that ratios are between like and like.
    pub const HARDWARE: [Event; 6] = [
        Event::Cycles,
        Event::Instructions,
        Event::LlcLoads,
        Event::LlcLoadMisses,
        Event::LlcStores,
        Event::LlcStoreMisses,
    ];

    /// What the kernel counts: another group, which works without a hardware counter.
    pub const SOFTWARE: [Event; 3] = [Event::TaskClock, Event::PageFaults, Event::ContextSwitches];

    /// The words for tables: `LLC load misses`, ...
    pub fn label(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::Instructions => "instructions",
            Event::LlcLoads => "LLC loads",
            Event::LlcLoadMisses => "LLC load misses",
            Event::LlcStores => "LLC stores",
            Event::LlcStoreMisses => "LLC store misses",
            Event::TaskClock => "task clock",
            Event::PageFaults => "page faults",
            Event::ContextSwitches => "context switches",
        }
    }

    /// The event in the terms of `perf_event_open`.
    pub(super) fn perf(self) -> PerfEvent {
        let cache = |operation, result| {
            PerfEvent::Cache(Cache { which: WhichCache::LL, operation, result })
        };
        match self {
            Event::Cycles => Hardware::CPU_CYCLES.into(),
            Event::Instructions => Hardware::INSTRUCTIONS.into(),
            Event::LlcLoads => cache(CacheOp::READ, CacheResult::ACCESS),
            Event::LlcLoadMisses => cache(CacheOp::READ, CacheResult::MISS),
            Event::LlcStores => cache(CacheOp::WRITE, CacheResult::ACCESS),
            Event::LlcStoreMisses => cache(CacheOp::WRITE, CacheResult::MISS),
            Event::TaskClock => Software::TASK_CLOCK.into(),
            Event::PageFaults => Software::PAGE_FAULTS.into(),
            Event::ContextSwitches => Software::CONTEXT_SWITCHES.into(),
        }
    }
}
