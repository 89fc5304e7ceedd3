//! The numbers that have names: results of `Log`, and how a service is.

/// What a server says to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCode {
    /// The server has it.
    Ok,
    /// It has nothing of it: send the same again, later.
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

/// How a service is, in words of fb303.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does nothing.
    Dead,
    /// It is not ready yet.
    Starting,
    /// It does its work.
    Alive,
    /// It brings to an end what it has begun.
    Stopping,
    /// It has ended.
    Stopped,
    /// It does its work, but not as it should.
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

    /// The word that control scripts print.
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
