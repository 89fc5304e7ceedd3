//! Quotas of users: limits on the resources that all connections, programs and sessions of one user
//! reserve together. A [`Share`] is a reserved part of a quota, and is returned on drop.

use crate::ranges::Ranges;
use blkkin_control::limits::FILTER_SIZE_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Limits on the resources that one user may reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections of programs and commands.
    pub connections: u64,
    /// Maximum number of descriptors, such as sockets, memory of rings, and files of traces.
    pub descriptors: u64,
    /// Maximum number of allocated bytes of rings, including rings of ended programs and of earlier
    /// agents. Programs allocate pages by writing to them. If the user exceeds the limit, the agent
    /// frees rings of departed programs and rings kept for snapshots. If that does not suffice, the
    /// agent replaces the rings that use most memory.
    pub ring_bytes: u64,
    /// Maximum number of bytes of event types: in the programs' catalogs, and once more for each
    /// channel that a program records into.
    pub type_bytes: u64,
    /// Maximum number of bytes of messages that are received but not decoded yet, or queued for
    /// sending.
    pub message_bytes: u64,
    /// Maximum size of the definitions of sessions, channels, rules and sampling rules, in bytes.
    pub rule_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            // The process's own limit on descriptors applies.
            descriptors: u64::MAX,
            ring_bytes: memory_total() / RING_PART,
            type_bytes: 512 << 20,
            message_bytes: 64 << 20,
            // 4 MiB: as many bytes of filters and patterns as a program accepts for one channel.
            rule_bytes: 64 * FILTER_SIZE_MAX as u64,
        }
    }
}

/// Divisor of the machine's memory: a user's rings may allocate a quarter of it.
const RING_PART: u64 = 4;

/// Returns the size of the machine's memory in bytes.
pub(crate) fn memory_total() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit).max(1))
}

/// A kind of resource that is limited for each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quota {
    Connections,
    Descriptors,
    RingBytes,
    TypeBytes,
    MessageBytes,
    RuleBytes,
}

impl Quota {
    const ALL: [Quota; 6] = [
        Quota::Connections,
        Quota::Descriptors,
        Quota::RingBytes,
        Quota::TypeBytes,
        Quota::MessageBytes,
        Quota::RuleBytes,
    ];

    fn limit(self, limits: &Limits) -> u64 {
        match self {
            Quota::Connections => limits.connections,
            Quota::Descriptors => limits.descriptors,
            Quota::RingBytes => limits.ring_bytes,
            Quota::TypeBytes => limits.type_bytes,
            Quota::MessageBytes => limits.message_bytes,
            Quota::RuleBytes => limits.rule_bytes,
        }
    }

    /// Returns the name of the quota in the output of `blkkin status`, which scripts read.
    fn name(self) -> &'static str {
        match self {
            Quota::Connections => "connections",
            Quota::Descriptors => "descriptors",
            Quota::RingBytes => "ring-bytes",
            Quota::TypeBytes => "type-bytes",
            Quota::MessageBytes => "message-bytes",
            Quota::RuleBytes => "rule-bytes",
        }
    }

    /// Returns the name of the resource for messages, and advice for a user who has exhausted the
    /// quota.
    fn description(self) -> (&'static str, &'static str) {
        match self {
            Quota::Connections => ("connections", "end some programs or commands"),
            Quota::Descriptors => (
                "descriptors",
                "end programs or sessions, or give the agent more (LimitNOFILE of its unit, ulimit -n)",
            ),
            Quota::RingBytes => {
                ("bytes of rings", "use smaller rings (--memory, --subbuf-size), or end sessions")
            }
            Quota::TypeBytes => ("bytes of event types", "end sessions or programs"),
            Quota::MessageBytes => {
                ("bytes of messages that wait", "end commands that do not read what they are told")
            }
            Quota::RuleBytes => (
                "bytes of rules",
                "end sessions with `blkkin session destroy`, or use fewer rules: a pattern such as \
                 `disk:*` instead of many names",
            ),
        }
    }
}

/// Error of a reservation that a quota does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaError {
    uid: u32,
    what: Quota,
    limit: u64,
    /// Set if the user's own limit permits the reservation, but too little would be left for other
    /// users.
    is_shared: bool,
}

impl QuotaError {
    pub(crate) fn reason(self) -> String {
        let QuotaError { uid, what, limit, is_shared } = self;
        let (of_what, _) = what.description();
        if is_shared {
            return format!("user {uid} would leave other users too few {of_what}");
        }
        let amount = match of_what.strip_prefix("bytes") {
            Some(of_what) if limit >= MIB && limit.is_multiple_of(MIB) => {
                format!("{} MiB{of_what}", limit / MIB)
            }
            _ => format!("{limit} {of_what}"),
        };
        format!("user {uid} would have more than {amount}")
    }

    /// Returns advice for the user who has exhausted the quota.
    pub(crate) fn advice(self) -> &'static str {
        self.what.description().1
    }
}

impl Display for QuotaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.reason(), self.advice())
    }
}

impl From<QuotaError> for io::Error {
    fn from(exceeded: QuotaError) -> io::Error {
        io::Error::new(io::ErrorKind::QuotaExceeded, exceeded.to_string())
    }
}

/// Account of one user: the reserved amount and the number of refusals for each quota, and the
/// user's token buckets.
#[derive(Debug)]
pub(crate) struct Account {
    uid: u32,
    limits: Limits,
    used: [AtomicU64; Quota::ALL.len()],
    refused: [AtomicU64; Quota::ALL.len()],
    matching: Mutex<TokenBucket>,
    metadata: Mutex<TokenBucket>,
    total: Arc<Total>,
}

/// Amounts that all users together have reserved of each quota.
#[derive(Debug)]
struct Total {
    /// Number of descriptors for all users together; `None` (no limit) if the agent is not public.
    descriptors: Option<u64>,
    used: [AtomicU64; Quota::ALL.len()],
}

/// Total of each quota except descriptors, as a multiple of one user's limit. Fewer users can
/// exhaust their limits at the same time: see [`SHARE_OF_REST`].
const GREEDY_USERS: u64 = 4;
/// Maximum ratio of a user's reserved amount to the unreserved part of the total; root is exempt.
/// One user alone can reserve three quarters, two users three sevenths each. A user leaves at least
/// a quarter of the amount that other users have not reserved.
const SHARE_OF_REST: u64 = 3;

impl Total {
    fn limit(&self, what: Quota, limits: &Limits) -> u64 {
        match (what, self.descriptors) {
            (Quota::Descriptors, Some(descriptors)) => descriptors,
            (Quota::Descriptors, None) => u64::MAX,
            _ => what.limit(limits).saturating_mul(GREEDY_USERS),
        }
    }
}

/// Token bucket that limits the agent's working time for a user, for one kind of work.
#[derive(Debug)]
struct TokenBucket {
    left: Duration,
    since: Option<Instant>,
}

/// Capacity of a token bucket: working time that can be spent at once.
const TIME_MAX: Duration = Duration::from_millis(200);
/// Divisor for the fill rate of a token bucket: the bucket gains a tenth of the elapsed time.
const TIME_SHARE: u32 = 10;

impl Default for TokenBucket {
    fn default() -> TokenBucket {
        TokenBucket { left: TIME_MAX, since: None }
    }
}

impl TokenBucket {
    fn left(&mut self, now: Instant) -> Duration {
        let passed = self.since.map(|since| now.saturating_duration_since(since));
        let left = self.left + passed.unwrap_or(Duration::ZERO) / TIME_SHARE;
        (self.left, self.since) = (left.min(TIME_MAX), Some(now));
        self.left
    }

    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }
}

impl Account {
    /// Returns the time left in the user's token bucket for matching types against rules.
    pub(crate) fn matching_time(&self, now: Instant) -> Duration {
        self.matching.lock().left(now)
    }

    /// Removes `time` from the user's token bucket for matching types against rules.
    pub(crate) fn spend_matching(&self, time: Duration) {
        self.matching.lock().spend(time);
    }

    /// Returns whether the user's token bucket permits rewriting large metadata now.
    pub(crate) fn has_metadata_time(&self, now: Instant) -> bool {
        !self.metadata.lock().left(now).is_zero()
    }

    /// Removes `time` from the user's token bucket for writing metadata.
    pub(crate) fn spend_metadata(&self, time: Duration) {
        self.metadata.lock().spend(time);
    }

    /// Returns whether both token buckets are full. The account can be dropped only then.
    fn has_full_buckets(&self, now: Instant) -> bool {
        self.matching.lock().left(now) == TIME_MAX && self.metadata.lock().left(now) == TIME_MAX
    }

    /// Returns whether a reservation of `more` from this quota would succeed.
    pub(crate) fn has(&self, what: Quota, more: u64) -> bool {
        let used = self.used[what as usize].load(Relaxed).saturating_add(more);
        used <= what.limit(&self.limits) && self.leaves_enough(what, used, more)
    }

    /// Returns whether a reservation of `more` leaves enough for other users. `used` is this user's
    /// amount after the reservation.
    fn leaves_enough(&self, what: Quota, used: u64, more: u64) -> bool {
        let all = self.total.used[what as usize].load(Relaxed).saturating_add(more);
        let left = self.total.limit(what, &self.limits).checked_sub(all);
        // Root can reserve all that is left, so that root can connect and end sessions of others.
        left.is_some_and(|left| self.uid == 0 || used <= left.saturating_mul(SHARE_OF_REST))
    }

    /// Returns the user's limit of a quota, and how much of it is not reserved.
    pub(crate) fn limit_and_left(&self, what: Quota) -> (u64, u64) {
        let limit = what.limit(&self.limits);
        (limit, limit.saturating_sub(self.used[what as usize].load(Relaxed)))
    }

    /// Returns whether a reservation of `amount` would be within the user's limit if the user had
    /// no other reservation.
    pub(crate) fn is_within_limit(&self, what: Quota, amount: u64) -> bool {
        amount <= what.limit(&self.limits)
    }

    /// Returns whether the user exceeds the limit, or leaves too little to other users.
    pub(crate) fn is_over(&self, what: Quota) -> bool {
        !self.has(what, 0)
    }

    /// Counts a refusal when rings were removed because the quota was exceeded.
    pub(crate) fn count_refused(&self, what: Quota) {
        self.refused[what as usize].fetch_add(1, Relaxed);
    }

    /// Reserves `amount` of a quota; fails if the user would exceed the limit or leave too little
    /// to other users.
    pub(crate) fn reserve(
        self: &Arc<Account>,
        what: Quota,
        amount: u64,
    ) -> Result<Share, QuotaError> {
        let mut share = Share { account: self.clone(), what, amount: 0 };
        share.set(amount)?;
        Ok(share)
    }

    /// Reserves `amount` of a quota for a resource that exists already, even beyond the limit.
    pub(crate) fn reserve_unchecked(self: &Arc<Account>, what: Quota, amount: u64) -> Share {
        let mut share = Share { account: self.clone(), what, amount: 0 };
        share.grow_unchecked(amount);
        share
    }

    /// Returns the state of all quotas, as messages to a command.
    pub(crate) fn messages(&self) -> impl Iterator<Item = blkkin_control::Quota> {
        Quota::ALL.into_iter().map(|what| blkkin_control::Quota {
            uid: self.uid,
            what: what.name().to_owned(),
            used: self.used[what as usize].load(Relaxed),
            limit: what.limit(&self.limits),
            refused: self.refused[what as usize].load(Relaxed),
        })
    }
}

/// An amount of a quota that one holder has reserved. Dropping it returns the amount.
#[derive(Debug)]
pub(crate) struct Share {
    account: Arc<Account>,
    what: Quota,
    amount: u64,
}

impl Share {
    /// Changes the reserved amount. Fails if the quota does not permit an increase; the amount is
    /// then unchanged.
    pub(crate) fn set(&mut self, amount: u64) -> Result<(), QuotaError> {
        let (account, what) = (&self.account, self.what);
        let more = amount.saturating_sub(self.amount);
        if more > 0 && !account.has(what, more) {
            account.refused[what as usize].fetch_add(1, Relaxed);
            let limit = what.limit(&account.limits);
            let used = account.used[what as usize].load(Relaxed).saturating_add(more);
            let is_shared = used <= limit;
            return Err(QuotaError { uid: account.uid, what, limit, is_shared });
        }
        self.change(amount);
        Ok(())
    }

    /// Increases the reserved amount by `more`; fails if the quota does not permit it.
    pub(crate) fn grow(&mut self, more: u64) -> Result<(), QuotaError> {
        self.set(self.amount.saturating_add(more))
    }

    /// Increases the reserved amount by `more`, even beyond the limit. Other reservations of the
    /// user are refused until the user is within the limit again.
    pub(crate) fn grow_unchecked(&mut self, more: u64) {
        self.change(self.amount.saturating_add(more));
    }

    /// Sets the reserved amount, even beyond the limit.
    pub(crate) fn charge(&mut self, amount: u64) {
        self.change(amount);
    }

    fn change(&mut self, amount: u64) {
        let more = amount.wrapping_sub(self.amount);
        self.account.used[self.what as usize].fetch_add(more, Relaxed);
        self.account.total.used[self.what as usize].fetch_add(more, Relaxed);
        self.amount = amount;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.used[self.what as usize].fetch_sub(self.amount, Relaxed);
        self.account.total.used[self.what as usize].fetch_sub(self.amount, Relaxed);
    }
}

/// Accounts of users, made on demand. When another account is made, accounts without shares are
/// dropped if their token buckets are full.
#[derive(Debug)]
pub(crate) struct Accounts {
    limits: Limits,
    total: Arc<Total>,
    ranges: Ranges,
    by_user: HashMap<u32, Arc<Account>>,
}

impl Accounts {
    /// Returns an empty set of accounts. `descriptors` is the number of descriptors for all users
    /// together; `None` (no limit) if the agent is not public.
    pub(crate) fn new(limits: Limits, descriptors: Option<u64>) -> Accounts {
        let total = Arc::new(Total { descriptors, used: Default::default() });
        Accounts { limits, total, ranges: Ranges::default(), by_user: HashMap::new() }
    }

    /// Returns the account to which resources of user `uid` are charged: the account of that user,
    /// or of the owner of a range that contains `uid`. See [`Ranges`].
    pub(crate) fn of(&mut self, uid: u32) -> Arc<Account> {
        if !self.by_user.contains_key(&self.ranges.owner_of(uid)) {
            self.ranges.refresh();
            // Drops accounts without shares. Their buckets must be full, so that users cannot gain
            // time by reconnecting.
            let now = Instant::now();
            self.by_user.retain(|_, account| {
                Arc::strong_count(account) > 1 || !account.has_full_buckets(now)
            });
        }
        let uid = self.ranges.owner_of(uid);
        let new = || {
            let (used, refused, total) =
                (Default::default(), Default::default(), self.total.clone());
            let (matching, metadata) = Default::default();
            Arc::new(Account { uid, limits: self.limits, used, refused, matching, metadata, total })
        };
        self.by_user.entry(uid).or_insert_with(new).clone()
    }

    /// Returns the user to whose account the resources of user `uid` are charged.
    pub(crate) fn owner_of(&self, uid: u32) -> u32 {
        self.ranges.owner_of(uid)
    }

    /// Returns all accounts, sorted by user id.
    pub(crate) fn all(&self) -> Vec<&Account> {
        let mut all: Vec<&Account> = self.by_user.values().map(|account| &**account).collect();
        all.sort_by_key(|account| account.uid);
        all
    }
}

impl Account {
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let mut accounts = Accounts::new(Limits { ring_bytes: 10, ..Limits::default() }, None);
        let used =
            |account: &Account| account.messages().nth(2).map(|told| (told.used, told.refused));
        let account = accounts.of(7);
        let mut first = account.reserve(Quota::RingBytes, 6).unwrap();
        let second = account.reserve(Quota::RingBytes, 4).unwrap();
        let refused = account.reserve(Quota::RingBytes, 1).unwrap_err().to_string();
        let expected = "user 7 would have more than 10 bytes of rings; use smaller rings \
                        (--memory, --subbuf-size), or end sessions";
        assert_eq!(refused, expected);
        assert!(accounts.of(8).reserve(Quota::RingBytes, 10).is_ok(), "it is another user's");
        assert_eq!(used(&account), Some((10, 1)));
        drop(second);
        first.grow(4).unwrap();
        assert!(first.grow(1).is_err() && first.grow(u64::MAX).is_err());
        first.set(2).unwrap();
        assert_eq!(used(&account), Some((2, 3)));
        // While an unchecked reservation exceeds the limit, all other reservations are refused.
        let mut anyway = account.reserve_unchecked(Quota::RingBytes, 5);
        anyway.grow_unchecked(6);
        assert_eq!(used(&account), Some((13, 3)));
        assert!(first.grow(1).is_err() && first.set(1).is_ok());
        drop(anyway);
        first.grow(1).unwrap();
        drop(first);
        assert_eq!(used(&account), Some((0, 4)));
        let mib = QuotaError { uid: 7, what: Quota::RuleBytes, limit: 4 << 20, is_shared: false };
        assert_eq!(mib.reason(), "user 7 would have more than 4 MiB of rules");
        // An account without shares is dropped when another account is made.
        drop(account);
        accounts.of(9);
        assert_eq!(accounts.all().len(), 1);
    }

    /// After several users have reserved as much as they can, a further user can still reserve some
    /// amount, and root can reserve the rest.
    #[test]
    fn all_users_together_leave_something() {
        let limits = Limits { descriptors: 750, ring_bytes: 100, ..Limits::default() };
        let mut accounts = Accounts::new(limits, Some(1000));
        let take_all = |account: &Arc<Account>, what| {
            let mut share = account.reserve(what, 0).unwrap();
            let mut count = 0;
            while share.grow(1).is_ok() {
                count += 1;
            }
            (share, count)
        };
        let mut shares = Vec::new();
        let greedy = |accounts: &mut Accounts, shares: &mut Vec<Share>, uid, what| {
            let (share, count) = take_all(&accounts.of(uid), what);
            shares.push(share);
            count
        };
        let taken = [2000, 2001, 2002, 2003]
            .map(|uid| greedy(&mut accounts, &mut shares, uid, Quota::Descriptors));
        assert_eq!(taken, [750, 187, 47, 12]);
        let refused = accounts.of(2003).reserve(Quota::Descriptors, 1).unwrap_err().to_string();
        assert!(refused.starts_with("user 2003 would leave other users too few"), "{refused}");
        assert!(accounts.of(0).reserve(Quota::Descriptors, 4).is_ok());
        let rings =
            [1, 2, 3, 4, 5].map(|uid| greedy(&mut accounts, &mut shares, uid, Quota::RingBytes));
        assert_eq!(rings, [100, 100, 100, 75, 18]);
        drop(shares);
        assert_eq!(greedy(&mut accounts, &mut Vec::new(), 2003, Quota::Descriptors), 750);
    }
}
