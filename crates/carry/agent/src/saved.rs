//! State that an earlier agent has saved: sessions, counters, sampling rules, and the traces that
//! programs may continue. This module reads the file that [`crate::notebook`] writes.

use crate::attachment::ChannelKey;
use crate::chunks::SessionChunks;
use crate::clock::Rates;
use crate::forwarding::Forwardings;
use crate::losses::{Losses, Totals};
use crate::notebook::{SuspendedTrace, path_of, uuid_of};
use crate::output::Output;
use crate::owner::Owner;
use crate::quota::{Account, Accounts, Quota};
use crate::session::{
    SamplingRules, Session, SessionChannel, SessionId, SessionRule, WantedRule, size_of_channel,
    size_of_sampling, size_of_session,
};
use blkkin_control::{
    Decoder, Received, RedactedRule, Redaction, Retention, Rule, SavedCompletion, SavedLimit,
    SavedLoss, SavedRetention, SavedRingTotals, SavedSampling, SavedSession, SavedTrace,
    SessionState, StateRecord,
};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Decoded content of an earlier agent's file of notes.
#[derive(Debug, Default)]
pub(crate) struct SavedState {
    pub(crate) sessions: Vec<Session>,
    /// Traces that programs may continue, by UUID.
    pub(crate) traces: HashMap<[u8; 16], SuspendedTrace>,
    /// Sampling rules, by user id.
    pub(crate) sampling: HashMap<u32, SamplingRules>,
    pub(crate) losses: BTreeMap<SessionId, Losses>,
    /// Totals of freed rings, by channel.
    pub(crate) ended: BTreeMap<ChannelKey, Totals>,
    /// Sessions that are forwarded to relays.
    pub(crate) forwardings: Forwardings,
}

/// Maximum number of bytes read from the state file.
const SIZE_MAX: u64 = 64 << 20;
/// Reads the state that an earlier agent on the same socket has saved, up to the first note that
/// cannot be decoded.
pub(crate) fn read(socket: &Path, accounts: &mut Accounts) -> io::Result<SavedState> {
    let mut notes = SavedState::default();
    let path = path_of(socket);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match File::options().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(notes),
        Err(error) => return Err(error),
    };
    check_owner(&file.metadata()?, &path)?;
    let mut bytes = Vec::new();
    // Sessions are at the start of the file, and their size is bounded for each user. Traces
    // follow; those beyond the limit are not continued.
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    let mut decoder: Decoder<StateRecord> = Decoder::new();
    decoder.feed(&bytes, []);
    loop {
        match decoder.take() {
            Ok(Some(Received::Message { message, .. })) => notes.add(message, accounts),
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => return Ok(notes),
            // Notes after an incomplete note cannot be decoded, so they are ignored.
            Err(_) => return Ok(notes),
        }
    }
}

/// Checks that no other user can write the file. Otherwise that user could add a session that
/// writes to any directory, with root's rights if the agent runs as root.
fn check_owner(found: &fs::Metadata, path: &Path) -> io::Result<()> {
    let is_own = [0, blkkin_sys::user_id()].contains(&found.uid());
    if found.is_file() && is_own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let (uid, mode, path) = (found.uid(), found.mode() & 0o7777, path.display());
    let why =
        format!("`{path}` is of user {uid}, mode {mode:o}: others may have written it; remove it");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

impl SavedState {
    /// Returns the largest number of a session.
    pub(crate) fn last_number(&self) -> Option<SessionId> {
        let forwarded = self.forwardings.tasks().map(|task| task.number);
        self.sessions.iter().map(|session| session.id).chain(forwarded).max()
    }

    fn add(&mut self, saved: StateRecord, accounts: &mut Accounts) {
        match saved {
            StateRecord::Session(saved) => {
                let account = accounts.of(saved.state.owner);
                self.sessions.push(session(saved, &account));
            }
            StateRecord::Channel(_) | StateRecord::KernelChannel(_) => {
                let is_kernel = matches!(saved, StateRecord::KernelChannel(_));
                let (StateRecord::Channel(channel) | StateRecord::KernelChannel(channel)) = saved
                else {
                    return;
                };
                if let Some(session) = self.sessions.last_mut() {
                    let account = accounts.of(session.owner.uid);
                    let bytes =
                        account.reserve_unchecked(Quota::RuleBytes, size_of_channel(&channel));
                    session.channels.push(SessionChannel::new(channel, is_kernel, bytes));
                }
            }
            StateRecord::Sharing(sharing) => {
                if let Some(channel) = self.last_channel() {
                    channel.sharing = Some(sharing);
                }
            }
            StateRecord::Removed => {
                self.last_channel().into_iter().for_each(SessionChannel::remove)
            }
            StateRecord::Rule(rule) => self.add_rule(rule, Vec::new(), accounts),
            StateRecord::RedactedRule(RedactedRule { rule, redactions }) => {
                self.add_rule(rule, redactions, accounts);
            }
            StateRecord::Trace(trace) => {
                let uuid = uuid_of(trace.uuid_first, trace.uuid_second);
                let SavedTrace { session, pid, directory, .. } = trace;
                self.traces
                    .insert(uuid, SuspendedTrace { session, pid, directory, is_earlier: true });
            }
            StateRecord::Sampling(SavedSampling { user, rules }) => {
                let bytes =
                    accounts.of(user).reserve_unchecked(Quota::RuleBytes, size_of_sampling(&rules));
                self.sampling.insert(user, SamplingRules { rules, _bytes: bytes });
            }
            StateRecord::Closed(SavedCompletion { uuid_first, uuid_second }) => {
                self.traces.remove(&uuid_of(uuid_first, uuid_second));
            }
            StateRecord::Limit(SavedLimit { number, size_max }) => {
                let session = self.sessions.iter().find(|session| session.id == number);
                session.iter().for_each(|session| session.size_limit.set(size_max));
            }
            StateRecord::Direct(number) => {
                let session = self.sessions.iter_mut().find(|session| session.id == number);
                session.into_iter().for_each(|session| session.direct = Some(Arc::default()));
            }
            StateRecord::Forward(task) => self.forwardings.add(task, true),
            StateRecord::Retention(SavedRetention { number, retention }) => {
                let mut sessions = self.sessions.iter_mut();
                let session = sessions.find(|session| session.id == number);
                session.into_iter().for_each(|session| session.retention = retention);
            }
            StateRecord::Rotation(saved) => {
                let session = self.sessions.iter_mut().find(|one| one.id == saved.number);
                session.into_iter().for_each(|session| {
                    session.chunks = Some(SessionChunks::restore(saved.clone()));
                });
            }
            StateRecord::Chunk(saved) => {
                let session = self.sessions.iter_mut().find(|one| one.id == saved.number);
                let chunks = session.and_then(|session| session.chunks.as_mut());
                chunks.into_iter().for_each(|chunks| chunks.restore_chunk(saved.clone()));
            }
            StateRecord::Loss(SavedLoss { number, loss }) => {
                self.losses.entry(number).or_default().set(loss);
            }
            StateRecord::Ended(SavedRingTotals { number, ended }) => {
                let session = self.sessions.iter().find(|session| session.id == number);
                let mut channels = session.into_iter().flat_map(|session| &session.channels);
                let at = channels.position(|one| one.channel.name == ended.channel);
                session.iter().for_each(|session| session.size_limit.add(ended.bytes_written));
                at.map(|at| {
                    self.ended
                        .insert(ChannelKey { session: number, channel: at }, Totals::of(&ended))
                });
            }
        }
    }

    fn last_channel(&mut self) -> Option<&mut SessionChannel> {
        self.sessions.last_mut()?.channels.last_mut()
    }

    /// Adds a rule to a channel of the last session.
    fn add_rule(&mut self, rule: Rule, redactions: Vec<Redaction>, accounts: &mut Accounts) {
        let Rule { channel, enabled, selection } = rule;
        let Some(session) = self.sessions.last_mut() else { return };
        let account = accounts.of(session.owner.uid);
        let mut channels = session.channels.iter_mut();
        let found = channels.find(|one| one.channel.name == channel);
        let rule = SessionRule::restore(&account, WantedRule { enabled, selection, redactions });
        if let Some((found, rule)) = found.zip(rule) {
            let _ = found.add(rule);
        }
    }
}

fn session(saved: SavedSession, account: &Arc<Account>) -> Session {
    let SessionState { session, activity, owner, created_ns } = saved.state;
    let output = session.output.unwrap_or_default();
    let bytes =
        account.reserve_unchecked(Quota::RuleBytes, size_of_session(&session.name, &output));
    let created = Timestamp::from_nanosecond(created_ns.into()).unwrap_or_default();
    let owner = Owner { uid: owner, gid: saved.group };
    Session {
        id: saved.number,
        name: session.name,
        owner,
        is_privileged: saved.is_privileged,
        purpose: session.purpose,
        retention: Retention::default(),
        // Guarded until the agent has determined whether the output's owner is trusted.
        output: Output::guarded(output, owner),
        _bytes: bytes,
        activity,
        created: Zoned::new(created, TimeZone::system()),
        channels: Vec::new(),
        snapshots: saved.snapshots,
        size_limit: Arc::default(),
        direct: None,
        rates: Rates::default(),
        chunks: None,
    }
}
