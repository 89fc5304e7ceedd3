//! Reader of sessions that a relay holds, `blkkin relay` or `lttng-relayd`, while they are
//! recorded.
//!
//! A [`Viewer`] attaches to a session on a thread of its own, and appends what it receives to the
//! live traces of [`Viewer::source`], which a [`blkkin_reader::Follower`] reads. [`Progress`] says
//! up to which time all streams are complete, so that [`blkkin_reader::Follower::deliver_until`]
//! delivers the events of all streams in order of time. [`Late`] counts the events that came too
//! late for that. The protocol is in [`Client`], which has neither sockets nor a clock.

mod client;
mod error;
mod late;
mod url;
mod viewer;

pub use client::{Client, Goal, SILENCE_MAX, Step};
pub use error::Error;
pub use late::Late;
pub use url::{Family, SessionName, Url, UrlError};
pub use viewer::{Progress, Viewer, list, list_with_ended};

pub use blkkin_lttng::viewer::{Seek, Session};
