//! What has become of spans. Start at [`Counters`].

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {
        /// Why spans were given up.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
        }

        impl Cause {
            /// All that there are.
            pub const ALL: [Cause; [$($word),*].len()] = [$(Cause::$name),*];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Cause::$name => $word,)*
                }
            }
        }
    };
}

causes! {
    /// The destination wants no such batch; it is in the folder of refused ones, if there is one with room.
    Refused "refused";
    /// The destination took the batch, but not these of its spans (partial success).
    Rejected "rejected";
    /// They waited longer than they may.
    TooOld "too_old";
    /// A span that is larger than batches may be.
    TooLarge "too_large";
    /// The queue was full, and newer ones had come.
    QueueFull "queue_full";
    /// The queue was damaged on disk.
    Damaged "damaged";
    /// They were only in memory when the exporter ended.
    Ended "ended";
}

/// Counts of spans since the exporter was opened. At any moment
/// `found + pushed == delivered + dropped_in_all() + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Waited in the queue's folder when it was opened.
    pub found: u64,
    /// Taken since.
    pub pushed: u64,
    /// Taken by the destination.
    pub delivered: u64,
    /// Given up, by cause.
    pub(crate) dropped: [u64; Cause::ALL.len()],
    /// Neither yet.
    pub waiting: u64,
    /// Batches that the destination took.
    pub batches: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Attempts that failed, and were followed by others.
    pub retries: u64,
    /// Refused batches that were kept in the folder for them.
    pub refused_kept: u64,
    /// Refused batches that were not kept, for want of a folder, of room in it, or because the disk failed.
    pub refused_not_kept: u64,
    /// Places of the queue that were damaged.
    pub damages: u64,
    /// Answers that could not be understood, of a destination that took a batch.
    pub answers_odd: u64,
}

impl Counters {
    /// How many were given up for a reason.
    pub fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// How many were given up.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// What was waiting is so no more.
    pub(crate) fn drop_waiting(&mut self, cause: Cause, spans: u64) {
        let spans = self.settle(spans);
        self.dropped[cause as usize] += spans;
    }

    /// So many do not wait any more. A damaged queue can hold more than was found in it: that counts no further.
    fn settle(&mut self, spans: u64) -> u64 {
        let spans = spans.min(self.waiting);
        self.waiting -= spans;
        spans
    }

    /// A batch was delivered, but for some of its spans.
    pub(crate) fn deliver(&mut self, spans: u64, rejected: u64, bytes: u64) {
        let rejected = rejected.min(spans);
        self.drop_waiting(Cause::Rejected, rejected);
        self.delivered += self.settle(spans - rejected);
        self.batches += 1;
        self.bytes += bytes;
    }
}
