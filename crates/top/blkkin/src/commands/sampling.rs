//! `blkkin sampling`: shows or sets the sampling of the user's programs.

use crate::conversation::{AgentArgs, check, print};
use crate::exit::{Error, Exit, note};
use blkkin_control::sampling::Sampling;
use blkkin_control::{Reply, Request};

/// Show or set the sampling: which requests programs follow
///
/// Rules are `1/100` for one request of 100, `50/s` for 50 a second in each process, or both with a
/// comma between. They apply to running programs and to those that start later. The sender of a
/// request may have decided already; programs follow that decision.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin sampling                                       show the rules\n  \
        blkkin sampling 1/100                                 one request of 100\n  \
        blkkin sampling 1/10,50/s                             of those at most 50 a second\n  \
        blkkin sampling --default                             as each program itself decides",
    after_help = crate::help::AGENT_HELP
)]
pub(crate) struct Args {
    /// Follow these requests from now on
    #[arg(value_name = "RULES")]
    rules: Option<String>,

    /// Let each program decide for itself
    #[arg(long, conflicts_with = "rules")]
    default: bool,

    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if let Some(text) = &args.rules {
        text.parse::<Sampling>().map_err(|error| {
            Error::usage(format!("bad rules `{text}`, byte {}: {}", error.offset, error.reason))
                .hint(
                    "write for instance 1/100 for one request of 100, 50/s for at most 50 a \
                       second, or both: 1/100,50/s",
                )
        })?;
    }
    let sets = args.default || args.rules.is_some();
    let request = match sets {
        true => Request::SetSampling(args.rules.clone()),
        false => Request::GetSampling,
    };
    check(&request)?;
    let mut conversation = args.agent.connect()?;
    let replies = conversation.request(&request)?;
    let told = replies.into_iter().find_map(|reply| match reply {
        Reply::Sampling(rules) => Some(rules),
        _ => None,
    });
    let rules = if sets { args.rules } else { told.flatten() };
    let agent = conversation.address();
    if args.agent.json {
        let object = serde_json::json!({
            "schema": "blkkin.sampling.v1",
            "agent": agent,
            "rules": rules,
        });
        print(&format!("{object}\n"))?;
        return Ok(Exit::Ok);
    }
    let words = rules.as_deref().unwrap_or("default");
    match sets {
        true => note(&format!("sampling is {words} from now on (agent at {agent})")),
        false => print(&format!("{words}\n"))?,
    }
    Ok(Exit::Ok)
}
