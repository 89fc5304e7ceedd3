//! Status of an agent: sessions, programs, rings and losses, and the requests that collect them.

use crate::conversation::{AgentConnection, SessionDetails};
use crate::exit::Error;
use blkkin_control::{
    Application, Applications, EvictedRings, Forwarding, Loss, Processes, Quota, Reach, Reply,
    Request, Ring, RingTotals,
};

/// Status of an agent. `before` is an earlier sample of `rings`; rates are computed from the two.
pub(super) struct Status {
    pub(super) agent: String,
    pub(super) release: String,
    pub(super) sessions: Vec<SessionDetails>,
    pub(super) applications: Vec<Application>,
    pub(super) before: Vec<Ring>,
    pub(super) rings: Vec<Ring>,
    pub(super) ended: Vec<RingTotals>,
    pub(super) released: Vec<EvictedRings>,
    pub(super) losses: Vec<Loss>,
    pub(super) quotas: Vec<Quota>,
    pub(super) reaches: Vec<Reach>,
    pub(super) forwardings: Vec<Forwarding>,
}

/// Collected replies of the agent to one status request.
#[derive(Default)]
pub(super) struct StatusReply {
    pub(super) rings: Vec<Ring>,
    ended: Vec<RingTotals>,
    released: Vec<EvictedRings>,
    losses: Vec<Loss>,
    quotas: Vec<Quota>,
    reaches: Vec<Reach>,
    forwardings: Vec<Forwarding>,
}

/// Requests the status of the agent or, with `session`, of one session. `request` is the matching
/// status request, `before` the rings of its earlier reply.
pub(super) fn collect_status(
    conversation: &mut AgentConnection,
    session: Option<&str>,
    request: &Request,
    before: Vec<Ring>,
) -> Result<Status, Error> {
    let sessions = conversation.sessions(session)?;
    let applications = Applications { processes: Processes::default(), event_types: false };
    let applications = conversation.request(&Request::ListApplications(applications))?;
    let applications = applications.into_iter().filter_map(|reply| match reply {
        Reply::Application(application) => Some(application),
        _ => None,
    });
    let StatusReply { rings, ended, released, losses, quotas, reaches, forwardings } =
        request_status(conversation, request)?;
    Ok(Status {
        agent: conversation.address(),
        release: conversation.release().to_owned(),
        sessions,
        applications: applications.collect(),
        before,
        rings,
        ended,
        released,
        losses,
        quotas,
        reaches,
        forwardings,
    })
}

pub(super) fn request_status(
    conversation: &mut AgentConnection,
    request: &Request,
) -> Result<StatusReply, Error> {
    let mut request_status = StatusReply::default();
    for reply in conversation.request(request)? {
        match reply {
            Reply::Ring(ring) => request_status.rings.push(ring),
            Reply::Ended(gone) => request_status.ended.push(gone),
            Reply::Released(gone) => request_status.released.push(gone),
            Reply::Loss(loss) => request_status.losses.push(loss),
            Reply::Quota(quota) => request_status.quotas.push(quota),
            Reply::Forwarding(forwarding) => request_status.forwardings.push(forwarding),
            Reply::Reach(reach) => request_status.reaches.push(reach),
            _ => {}
        }
    }
    Ok(request_status)
}
