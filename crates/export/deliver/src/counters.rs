//! Counters of exported spans. Start at [`Counters`].

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {
        /// Cause of dropping spans.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
        }

        impl Cause {
            /// All causes, in the order of their counters.
            pub const ALL: [Cause; [$($word),*].len()] = [$(Cause::$name),*];

            /// Returns the name of the cause in JSON.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Cause::$name => $word,)*
                }
            }
        }
    };
}

causes! {
    /// The destination refused the batch, or failed in the last permitted attempt. With a queue
    /// folder, the batch is stored in the folder of refused batches, if there is room.
    Refused "refused";
    /// The destination accepted the batch without these spans (partial success).
    Rejected "rejected";
    /// The spans waited longer than the maximum age.
    TooOld "too_old";
    /// The span exceeds the maximum size of a batch.
    TooLarge "too_large";
    /// The queue was full, and these spans were the oldest.
    QueueFull "queue_full";
    /// The queue on disk was damaged.
    Damaged "damaged";
    /// The exporter was closed while the spans were in memory only.
    Ended "ended";
}

/// Counters since the exporter was opened. At any moment `recovered + pushed == delivered +
/// dropped_total() + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Spans that waited in the queue folder when it was opened.
    pub recovered: u64,
    /// Spans pushed since the exporter was opened.
    pub pushed: u64,
    /// Spans accepted by the destination.
    pub delivered: u64,
    /// Dropped spans, by cause.
    pub(crate) dropped: [u64; Cause::ALL.len()],
    /// Spans that are neither delivered nor dropped yet.
    pub waiting: u64,
    /// Batches accepted by the destination.
    pub batches: u64,
    /// Size of the accepted batches, in bytes.
    pub bytes: u64,
    /// Failed attempts after which a retry was scheduled.
    pub retries: u64,
    /// Refused batches that were stored in the folder of refused batches.
    pub refused_stored: u64,
    /// Refused batches that were not stored: there is no queue folder, the folder of refused
    /// batches is full, or the disk failed.
    pub refused_not_stored: u64,
    /// Number of damaged or missing ranges found in the queue.
    pub damages: u64,
    /// Malformed answers to accepted batches.
    pub answers_malformed: u64,
}

impl Counters {
    /// Returns the number of spans dropped for this cause.
    pub fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Returns the number of spans dropped for any cause.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Moves up to `spans` spans from the count of waiting spans to the count of spans dropped for
    /// `cause`.
    pub(crate) fn drop_waiting(&mut self, cause: Cause, spans: u64) {
        let spans = self.settle(spans);
        self.dropped[cause as usize] += spans;
    }

    /// Removes up to `spans` waiting spans and returns the number removed. A damaged queue can
    /// contain more spans than were found when it was opened; the excess is ignored.
    fn settle(&mut self, spans: u64) -> u64 {
        let spans = spans.min(self.waiting);
        self.waiting -= spans;
        spans
    }

    /// Counts a batch as delivered, except for the `rejected` spans, which count as dropped.
    pub(crate) fn deliver(&mut self, spans: u64, rejected: u64, bytes: u64) {
        let rejected = rejected.min(spans);
        self.drop_waiting(Cause::Rejected, rejected);
        self.delivered += self.settle(spans - rejected);
        self.batches += 1;
        self.bytes += bytes;
    }
}
