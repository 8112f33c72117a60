//! What a trace lacks because a lane's buffer was full.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::Trace;

/// Which spans a lane keeps when it has recorded more than its buffer holds
/// ([`Builder::trace_keep`](crate::Builder::trace_keep)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first ones: later ones are not recorded until the trace is taken.
    #[default]
    Oldest,
    /// The last ones: each further span takes the place of the oldest.
    Newest,
}

/// Spans that a trace lacks, as a sentence: [`Trace::losses`].
#[derive(Clone, Copy, Debug)]
pub struct Losses<'a>(&'a Trace);

impl Trace {
    /// What was lost because lanes' buffers were full, or `None` if nothing was.
    ///
    /// ```
    /// use millrace_runtime::Runtime;
    /// use millrace_runtime::trace::Keep;
    ///
    /// let builder = Runtime::builder().workers(0).trace_capacity(3).trace_keep(Keep::Newest);
    /// let rt = builder.build()?;
    /// rt.trace_start();
    /// for _ in 0..5 {
    ///     rt.spawn("task", (), |()| ())?;
    /// }
    /// let trace = rt.trace_take("five tasks", Default::default());
    /// assert_eq!((trace.spans.len(), trace.lanes[0].dropped), (3, 2));
    /// let losses = trace.losses().expect("two were lost");
    /// assert_eq!(losses.to_string(), "2 spans were lost, the oldest ones of main (2)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn losses(&self) -> Option<Losses<'_>> {
        (self.dropped > 0).then_some(Losses(self))
    }
}

impl Display for Losses<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Trace { dropped, keep, lanes, .. } = self.0;
        let which = match keep {
            Keep::Oldest => "newest",
            Keep::Newest => "oldest",
        };
        let lanes: Vec<_> = lanes
            .iter()
            .filter(|lane| lane.dropped > 0)
            .map(|lane| format!("{} ({})", lane.name, lane.dropped))
            .collect();
        let spans = if *dropped == 1 { "span was" } else { "spans were" };
        write!(f, "{dropped} {spans} lost")?;
        // Documents of former versions do not say where.
        if lanes.is_empty() {
            Ok(())
        } else {
            write!(f, ", the {which} ones of {}", lanes.join(", "))
        }
    }
}
