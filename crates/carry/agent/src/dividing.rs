//! Division of sessions' traces into chunks, and lists of chunks for commands, also of destroyed
//! sessions.

use crate::chunks::{CHUNKS_MAX, ChunkState, SessionChunks};
use crate::command::Requester;
use crate::session::{RetiredChunks, Session, SessionId};
use crate::sessions::Sessions;
use blkkin_control::{Failed, HookReport, Purpose, Reply, Rotation, StateRecord, code};

/// Maximum number of sessions whose chunks are kept after they were destroyed.
const RETIRED_MAX: usize = 64;
/// Minimum size of a chunk in bytes.
const SIZE_MIN: u64 = 4096;

fn failed(code: &str, message: String) -> Failed {
    Failed { code: code.to_owned(), message, hint: None }
}

/// Checks a session's rotation.
pub(crate) fn check(rotation: &Rotation, session: &str) -> Result<(), Failed> {
    let bad_value = |what: String| Err(failed(code::BAD_VALUE, what));
    if rotation.size.or(rotation.total).is_some_and(|size| size < SIZE_MIN) {
        return bad_value(format!("chunks have at least {SIZE_MIN} bytes"));
    }
    if let Some((size, total)) = rotation.size.zip(rotation.total)
        && total < size
    {
        return bad_value(format!("all chunks have {total} bytes, but one has {size} (--total)"));
    }
    if rotation.age_ms == Some(0) {
        return bad_value("a chunk must not be closed at once (--age)".to_owned());
    }
    if let Some(files) = rotation.files
        && !(2..=CHUNKS_MAX as u32).contains(&files)
    {
        let what = format!(
            "a session has 2 to {CHUNKS_MAX} chunks, of which one is being written, not {files}"
        );
        return bad_value(what);
    }
    let named = SessionChunks::new(rotation.clone()).name(session, 1);
    named.map(drop).or_else(|why| bad_value(format!("the pattern of chunks' names: {why}")))
}

/// Divides the trace of a session that has not been started: opens the first chunk.
pub(crate) fn divide(session: &mut Session, rotation: Rotation) -> Result<(), Failed> {
    let name = &session.name;
    check(&rotation, name)?;
    let is_new = session.activity == blkkin_control::Activity::New && session.chunks.is_none();
    if session.purpose != Purpose::Record || !is_new {
        let why = match session.purpose {
            Purpose::Record => "has a trace already, which cannot be divided any more",
            Purpose::Snapshot => "writes snapshots only, and no trace to divide",
        };
        return Err(failed(code::WRONG_STATE, format!("session `{name}` {why}")));
    }
    let mut chunks = SessionChunks::new(rotation);
    chunks
        .open_next(&session.output, name)
        .map_err(|error| failed(code::OUTPUT, format!("cannot create the first chunk: {error}")))?;
    session.chunks = Some(chunks);
    Ok(())
}

/// Returns the summary of a session's chunks as replies to a command, for a session whose trace is
/// divided.
pub(crate) fn summary(session: &Session) -> impl Iterator<Item = Reply> {
    let chunks = session.chunks.iter();
    chunks.map(|one| Reply::Chunks(one.summary(&session.name, session.id, false)))
}

impl Sessions {
    /// Returns the chunks of a session as replies to a command. `at` is the index of the session;
    /// `None` selects a destroyed session by its name.
    pub(crate) fn list_chunks(
        &self,
        at: Option<usize>,
        name: &str,
        who: Requester,
    ) -> Option<Vec<Reply>> {
        let (mut summary, uid, chunks) = match at {
            Some(at) => {
                let session = &self.list[at];
                let chunks = session.chunks.as_ref()?;
                (chunks.summary(name, session.id, false), session.owner.uid, chunks)
            }
            None => {
                let is_meant = |one: &&RetiredChunks| {
                    one.name == name && (who.is_privileged || one.uid == who.owner.uid)
                };
                let retired = self.retired_chunks.iter().rev().find(is_meant)?;
                let summary = retired.chunks.summary(name, retired.session, true);
                (summary, retired.uid, &retired.chunks)
            }
        };
        // No user runs the command of another one, least of all root.
        summary.rotation.hook.take_if(|_| uid != who.owner.uid);
        let each = chunks.kept().map(|chunk| Reply::Chunk(chunk.describe()));
        Some([Reply::Chunks(summary)].into_iter().chain(each).collect())
    }

    /// Notes that the command for a chunk has ended. Returns the line to log if it has failed, with
    /// the user of the session.
    pub(crate) fn note_hook(
        &mut self,
        who: Requester,
        report: HookReport,
    ) -> Option<(u32, String)> {
        let HookReport { session, number, sequence, failure } = report;
        let may = |uid: u32| who.is_privileged || who.owner.uid == uid;
        let present = self
            .list
            .iter_mut()
            .filter_map(|session| Some((session.id, session.owner.uid, session.chunks.as_mut()?)));
        let retired = self.retired_chunks.iter_mut();
        let retired = retired.map(|one| (one.session, one.uid, &mut one.chunks));
        let mut all = present.chain(retired);
        let (_, uid, chunks) = all.find(|(id, uid, _)| *id == number && may(*uid))?;
        let chunk = chunks.list.iter().find(|chunk| chunk.sequence == sequence);
        let path = chunk.map(|chunk| chunk.path.display().to_string()).unwrap_or_default();
        chunks.note_hook(sequence, failure.is_some());
        let line = |why| format!("session `{session}`: the command for chunk `{path}`: {why}");
        failure.map(|why| (uid, line(why)))
    }

    /// Keeps the chunks of a session that is being destroyed.
    pub(crate) fn retire_chunks(&mut self, session: &mut Session) {
        let Some(chunks) = session.chunks.take() else { return };
        self.retired_chunks.push_back(RetiredChunks {
            session: session.id,
            name: session.name.clone(),
            uid: session.owner.uid,
            output: session.output.clone(),
            chunks,
        });
        if self.retired_chunks.len() > RETIRED_MAX {
            self.retired_chunks.pop_front();
        }
    }

    /// Closes all chunks of a destroyed session, to which nothing is written any longer. Removes
    /// the last one if it is empty.
    pub(crate) fn close_retired(&mut self, session: SessionId) {
        let retired = self.retired_chunks.iter_mut().find(|one| one.session == session);
        let Some(RetiredChunks { output, chunks, .. }) = retired else { return };
        let open = chunks.list.iter_mut().filter(|chunk| chunk.state == ChunkState::Open);
        open.for_each(|chunk| chunk.close(output));
        let last = chunks.current().filter(|chunk| chunk.meter.written() == 0);
        if let Some((sequence, path)) = last.map(|chunk| (chunk.sequence, chunk.path.clone()))
            && output.remove_directory(&path).is_ok()
        {
            chunks.forget(sequence, false);
        }
    }

    /// Appends notes of all current chunks' sizes for the next agent, when this agent ends.
    pub(crate) fn note_chunk_sizes(&self) {
        for session in &self.list {
            let saved = session.chunks.iter().flat_map(|chunks| chunks.saved(session.id));
            let last = saved.filter(|saved| matches!(saved, StateRecord::Chunk(_))).last();
            last.iter().for_each(|saved| self.notebook.add(saved));
        }
    }
}
