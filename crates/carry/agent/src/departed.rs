//! Programs whose connection has ended. One that still runs may come back with the rings that it has: for a
//! while it is kept as it was, with the traces that it has begun, and goes on where it was. Rings that are for
//! snapshots are kept, of all programs, until there is no room for them.

use crate::application::{Application, Attachment, Offered};
use crate::catalog::Catalog;
use crate::engine::{Agent, EACH_WRITE, Id, ROOM, data_of_wake};
use crate::process::may_run;
use crate::quota::{Account, What};
use crate::rings::Identity;
use crate::session::{Session, SessionId};
use crate::trace::Trace;
use blkkin_control::{AddChannel, KeepChannel, ToApplication};
use rustix::event::epoll;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long a program is kept that may come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    since: Instant,
    until: Instant,
    /// When it is looked whether it still runs, and how long after that again.
    look: Instant,
    pause: Duration,
}

/// How long a program may be away; longer than that keeps its rings. Its traces are open until then, as the
/// daemon could not open them again: see `confine`.
const ABSENCE_MAX: Duration = Duration::from_secs(8);
/// Then a program has let go of its rings, if it was not back.
const RINGS_KEPT: Duration = Duration::from_secs(65);
/// It may be about to end when its connection does.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Programs of one user that are kept.
const DEPARTED_MAX: usize = 64;
/// Traces of one process that nobody has open, and that it may come back to.
const BEGUN_MAX: usize = 64;
/// How long is waited at the daemon's end for programs that are about to end.
const LAST_WAIT: Duration = Duration::from_millis(50);

impl Absence {
    fn begin(since: Instant, long: Duration) -> Absence {
        Absence { since, until: since + long, look: since + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    /// When something is to be done.
    pub(crate) fn next(&self) -> Instant {
        self.look.min(self.until)
    }

    /// Whether it has ended: it is too long, or the program does not run any more.
    fn is_over(&mut self, pid: u32, now: Instant) -> bool {
        if self.until <= now || (self.look <= now && !may_run(pid)) {
            return true;
        }
        if self.look <= now {
            self.pause = (self.pause * 4).min(LAST_PAUSE);
            self.look = now + self.pause;
        }
        false
    }
}

impl Application {
    /// Whether it may connect anew, as far as is known.
    pub(crate) fn may_come(&self) -> bool {
        !self.is_ending && may_run(self.process.pid)
    }
}

impl Agent {
    /// A program's connection has ended. All that it has recorded is written.
    pub(crate) fn depart(&mut self, mut application: Application, has_ended: bool) {
        let _ = epoll::delete(&self.epoll, application.wake.as_fd());
        application.next_look = None;
        // Its numbers for rings were of that connection, and so were its answers.
        application.orphans.clear();
        application.released.clear();
        let refused = application.catalog.as_ref().map_or(0, Catalog::refused);
        if refused > 0 {
            self.log.about(application.account.uid(), &format!(
                "{} ({}): {refused} event types were not recorded: too many ({} at most, fewer with long \
                 descriptions), or not what types may be",
                application.program, application.process.pid, ROOM.types
            ));
        }
        if application.is_ending || has_ended {
            self.end_recordings(&mut application);
        } else {
            let drained = application.drain_all(ROOM, None);
            self.tell_unwritten(&application, drained.trouble);
            // Rings that it may have been about to map are left alone until it is known that it has not.
            let long = if application.has_unsealed() { RINGS_KEPT } else { ABSENCE_MAX };
            application.absence = Some(Absence::begin(Instant::now(), long));
        }
        if application.attachments.is_empty() {
            return;
        }
        let uid = application.account.uid();
        self.departed.push_back(application);
        if self.departed.iter().filter(|one| one.account.uid() == uid).count() > DEPARTED_MAX {
            self.forget_departed(uid);
        }
    }

    fn tell_unwritten(&self, application: &Application, trouble: Option<io::Error>) {
        if let Some(error) = trouble {
            self.log.about(
                application.account.uid(),
                &format!(
                    "{} ({}): what it recorded last cannot be written: {error}",
                    application.program, application.process.pid
                ),
            );
        }
    }

    /// A program is not waited for any more: what it has recorded is written, and its traces are closed. If it
    /// comes back all the same it has others begun, in which nothing is missing.
    fn end_recordings(&mut self, application: &mut Application) {
        let absence = application.absence.take();
        let is_late = absence.is_some_and(|absence| absence.since + RINGS_KEPT <= Instant::now());
        let may_come = !is_late && application.may_come();
        let drained = match may_come {
            true => {
                let mut drained = application.drain_all(ROOM, None);
                application.tell_discarded(None, &mut drained);
                drained
            }
            false => application.finish(ROOM, None),
        };
        self.tell_unwritten(application, drained.trouble);
        if may_come {
            // What it has not mapped is as good as never given.
            application.attachments.retain(|attachment| attachment.rings.is_sealed());
        }
        let sessions: HashSet<SessionId> =
            application.attachments.iter().map(|attachment| attachment.session).collect();
        // Sessions whose traces miss what could not be written.
        let mut cut: HashSet<SessionId> = HashSet::new();
        let own = application.attachments.extract_if(.., |attachment| attachment.is_written);
        for mut attachment in own.collect::<Vec<Attachment>>() {
            attachment.begin_anew();
            self.count_ended(&attachment);
            if !may_come {
                // Nobody else has what could not be written.
                let totals = self.ended.entry((attachment.session, attachment.channel));
                let lost = &mut totals.or_default().packets_lost;
                *lost = lost.saturating_add(attachment.packets_waiting());
                self.count_loss(attachment.session, &attachment.unread());
                if attachment.packets_waiting() > 0 {
                    cut.insert(attachment.session);
                }
            }
        }
        for session in sessions {
            if application.attachments.iter().all(|one| one.session != session) {
                self.count_loss(session, &application.types_lost());
            }
        }
        self.close_traces(application, &cut);
    }

    /// Closes the traces of a program into which it has no rings any more; those of the sessions `cut` miss
    /// events.
    fn close_traces(&mut self, application: &mut Application, cut: &HashSet<SessionId>) {
        let own: HashSet<SessionId> =
            application.attachments.iter().map(|attachment| attachment.session).collect();
        let pid = application.process.pid;
        let may_come = application.may_come();
        let closed = application.traces.extract_if(.., |session, _| !own.contains(session));
        for (session, mut trace) in closed.collect::<Vec<(SessionId, Trace)>>() {
            self.spare(session, trace.directory());
            let same = self.begun.values().filter(|begun| begun.pid == pid).count();
            if !may_come {
                trace.note().iter().for_each(|note| note.close());
                trace.end(cut.contains(&session));
            }
            let note = trace.note().filter(|_| may_come && same < BEGUN_MAX);
            self.begun.extend(note.map(|note| (note.uuid(), note.begun())));
        }
    }

    /// Looks after programs that are away.
    pub(crate) fn end_absences(&mut self, now: Instant) {
        let is_due = |one: &Application| one.absence.is_some_and(|absence| absence.next() <= now);
        while let Some(at) = self.departed.iter().position(is_due) {
            let one = &mut self.departed[at];
            let pid = one.process.pid;
            if one.absence.as_mut().is_some_and(|absence| absence.is_over(pid, now)) {
                self.end_absence(at);
            }
        }
    }

    fn end_absence(&mut self, at: usize) {
        let Some(mut application) = self.departed.remove(at) else { return };
        self.end_recordings(&mut application);
        if !application.attachments.is_empty() {
            self.departed.insert(at, application);
        }
    }

    /// Does not wait any more for the user's program that left first and may come back, if there is one; for one
    /// that may have rings which cannot be read yet only if there are no others.
    pub(crate) fn end_oldest_absence(&mut self, uid: u32) -> bool {
        let is_absent = |one: &Application| {
            one.account.uid() == uid
                && one.absence.is_some()
                && one.attachments.iter().any(|attachment| attachment.is_written)
        };
        self.oldest(is_absent).map(|oldest| self.end_absence(oldest)).is_some()
    }

    /// Where the first one is that can be read, or else the first one.
    fn oldest(&self, is_meant: impl Fn(&Application) -> bool) -> Option<usize> {
        let first = |is_wanted: &dyn Fn(&Application) -> bool| {
            self.departed.iter().position(|one| is_meant(one) && is_wanted(one))
        };
        first(&|one| !one.has_unsealed()).or_else(|| first(&|_| true))
    }

    /// Has room for so many descriptors of a user's, if those who are away make it.
    pub(crate) fn make_descriptors(&mut self, account: &Account, more: u64) {
        while !account.has(What::Descriptors, more) && self.end_oldest_absence(account.uid()) {}
    }

    /// Writes what programs that are away have recorded until now, at the daemon's own end. Those that are about
    /// to end may have rings that cannot be read before that is known, and are waited for a moment.
    pub(crate) fn end_all_absences(&mut self) {
        let deadline = Instant::now() + LAST_WAIT;
        let is_open = |one: &Application| one.absence.is_some() && one.has_unsealed();
        loop {
            let has_ended = |one: &Application| one.absence.is_some() && !one.may_come();
            while let Some(at) = self.departed.iter().position(has_ended) {
                self.end_absence(at);
            }
            if Instant::now() >= deadline || !self.departed.iter().any(is_open) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for mut application in std::mem::take(&mut self.departed) {
            let mut drained = application.drain_all(ROOM, None);
            application.tell_discarded(None, &mut drained);
            self.tell_unwritten(&application, drained.trouble);
        }
    }

    /// Gives up what was kept first of a user's programs and daemons that have ended, if there is some.
    pub(crate) fn forget_oldest(&mut self, uid: u32) -> bool {
        if self.end_oldest_absence(uid) {
            return true;
        }
        let all = self.applications.values_mut().chain(&mut self.departed);
        for application in all.filter(|one| one.account.uid() == uid) {
            for attachment in &mut application.attachments {
                let totals = self.released.entry((attachment.session, attachment.channel));
                if let Some(set) = attachment.release_oldest(totals.or_default()) {
                    application.let_go([set]);
                    application.next_look = Some(Instant::now());
                    return true;
                }
            }
        }
        self.forget_departed(uid)
    }

    /// Gives up what was kept of the user's program that has left first, if there is one.
    fn forget_departed(&mut self, uid: u32) -> bool {
        let oldest = self.oldest(|one| one.account.uid() == uid);
        let Some(mut departed) = oldest.and_then(|oldest| self.departed.remove(oldest)) else {
            return false;
        };
        self.end_recordings(&mut departed);
        self.release_recorders(&mut departed);
        self.close_traces(&mut departed, &HashSet::new());
        true
    }

    /// Gives up rings that are for snapshots.
    fn release_recorders(&mut self, application: &mut Application) {
        for mut attachment in application.attachments.extract_if(.., |one| !one.is_written) {
            let totals = self.released.entry((attachment.session, attachment.channel));
            attachment.release_all(totals.or_default());
            self.count_ended(&attachment);
        }
    }

    /// A program that has said where its types are goes on with what it had over a connection before, if that
    /// was to this daemon: with the rings that it still has.
    pub(crate) fn take_up(&mut self, id: Id) -> io::Result<()> {
        let Some(mut before) = self.take_departed(id) else { return Ok(()) };
        let Some(application) = self.applications.get_mut(&id) else { return Ok(()) };
        // The rings have the one by which the program wakes the daemon.
        if let Err(error) = epoll::add(&self.epoll, &before.wake, data_of_wake(id), EACH_WRITE) {
            self.departed.push_back(before);
            return Err(error.into());
        }
        let _ = epoll::delete(&self.epoll, &application.wake);
        let told = application.take_up(&mut before, &self.sessions);
        // What the program has let go meanwhile ends, in traces that may go on.
        before.traces = std::mem::take(&mut application.traces);
        before.catalog = application.catalog.take();
        let finished = before.finish(ROOM, None);
        application.traces = std::mem::take(&mut before.traces);
        application.catalog = before.catalog.take();
        self.tell_unwritten(&before, finished.trouble);
        for attachment in before.attachments.extract_if(.., |one| one.is_written) {
            self.count_ended(&attachment);
        }
        self.release_recorders(&mut before);
        for (message, descriptors) in told {
            self.send(id, &message, descriptors);
        }
        Ok(())
    }

    /// What there is of a program's connection before.
    fn take_departed(&mut self, id: Id) -> Option<Application> {
        let application = self.applications.get(&id)?;
        let identity = application.catalog.as_ref()?.identity();
        let (pid, uid) = (application.process.pid, application.process.uid);
        // Nobody else has that catalog, and a program that starts another one in its place has a new one.
        let is_it = |one: &Application| {
            (one.process.pid, one.process.uid) == (pid, uid)
                && one.catalog.as_ref().map(Catalog::identity) == Some(identity)
        };
        // That it has ended may not have been seen.
        let before = self.applications.iter().filter(|(other, one)| **other != id && is_it(one));
        for other in before.map(|(other, _)| *other).collect::<Vec<Id>>() {
            self.disconnect(other);
        }
        let before = self.departed.iter().position(is_it)?;
        self.departed.remove(before)
    }
}

/// What a program is told, and what is passed on with it.
type Told = (ToApplication, Vec<Arc<OwnedFd>>);

impl Application {
    /// Takes over what it had `before`, but for rings that it has let go. Gives what it is to be told.
    fn take_up(&mut self, before: &mut Application, sessions: &[Session]) -> Vec<Told> {
        self.serial = before.serial;
        self.wake = before.wake.clone();
        self.catalog = before.catalog.take();
        self.traces = std::mem::take(&mut before.traces);
        self.uuids = std::mem::take(&mut before.uuids);
        self.done = std::mem::take(&mut before.done);
        self.next_number = before.next_number;
        self.next_look = Some(Instant::now());
        let offered = std::mem::take(&mut self.orphans);
        let mut told = Vec::new();
        for mut attachment in std::mem::take(&mut before.attachments) {
            let session = sessions.iter().find(|session| session.id == attachment.session);
            match session.and_then(|session| self.go_on_with(&mut attachment, session, &offered)) {
                Some(message) => {
                    told.push(message);
                    self.attachments.push(attachment);
                }
                None => before.attachments.push(attachment),
            }
        }
        let goes_on: HashSet<Identity> =
            self.attachments.iter().flat_map(Attachment::identities).collect();
        for offered in offered {
            let identity = offered.identity;
            if goes_on.contains(&identity) {
                // It has been named.
            } else if self.has_had(identity) || before.has_had(identity) {
                self.released.push(offered.orphan.number);
            } else {
                self.orphans.push(offered);
            }
        }
        told
    }

    /// Goes on with rings that it has, or has never had; gives how it is told so.
    fn go_on_with(
        &self,
        attachment: &mut Attachment,
        session: &Session,
        offered: &[Offered],
    ) -> Option<Told> {
        let find = |identity: Identity| {
            offered.iter().find(|one| one.identity == identity).map(|one| one.orphan)
        };
        let number_of = |identity| find(identity).map(|orphan| orphan.number);
        let channel = attachment.number;
        if let Some(own) = find(attachment.rings.identity()) {
            let orphan = (!own.is_spent).then_some(own.number)?;
            attachment.go_on(0, number_of);
            return Some((ToApplication::KeepChannel(KeepChannel { channel, orphan }), vec![]));
        }
        let file = attachment.rings.file()?;
        attachment.go_on(self.pinged + 1, number_of);
        let last = attachment.left_behind.last().and_then(|set| find(set.rings.identity()));
        let message = ToApplication::AddChannel(AddChannel {
            channel,
            session: session.name.clone(),
            contexts: session.channels[attachment.channel].channel.contexts.clone(),
            replaces: last.filter(|last| !last.is_spent).map(|last| last.number),
        });
        Some((message, vec![file, self.wake.clone()]))
    }
}
