//! Result codes of `Log`, and service status codes of fb303.

/// Result code of a `Log` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCode {
    /// The server has accepted the batch.
    Ok,
    /// The server has accepted no entry. The client must send the batch again later.
    TryLater,
}

impl ResultCode {
    pub(crate) fn number(self) -> i32 {
        match self {
            ResultCode::Ok => 0,
            ResultCode::TryLater => 1,
        }
    }

    pub(crate) fn from_number(number: i32) -> Option<ResultCode> {
        [ResultCode::Ok, ResultCode::TryLater].into_iter().find(|code| code.number() == number)
    }
}

/// Service status, as defined by fb303.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The service does not run.
    Dead,
    /// The service is not ready yet.
    Starting,
    /// The service works normally.
    Alive,
    /// The service completes its current work.
    Stopping,
    /// The service has stopped.
    Stopped,
    /// The service works with problems.
    Warning,
}

impl Status {
    const ALL: [Status; 6] = [
        Status::Dead,
        Status::Starting,
        Status::Alive,
        Status::Stopping,
        Status::Stopped,
        Status::Warning,
    ];

    pub(crate) fn number(self) -> i32 {
        Status::ALL.iter().position(|status| *status == self).unwrap_or(0) as i32
    }

    pub(crate) fn from_number(number: i32) -> Option<Status> {
        usize::try_from(number).ok().and_then(|number| Status::ALL.get(number).copied())
    }

    /// Returns the name of the status, as control scripts print it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Dead => "DEAD",
            Status::Starting => "STARTING",
            Status::Alive => "ALIVE",
            Status::Stopping => "STOPPING",
            Status::Stopped => "STOPPED",
            Status::Warning => "WARNING",
        }
    }
}
