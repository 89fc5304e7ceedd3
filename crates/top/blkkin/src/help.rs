//! Notes at the end of help pages: exit statuses, output streams, and the choice of the agent.

macro_rules! exit_help {
    () => {
        "Exit status: 0 all well, 1 something failed, 2 wrong usage, 130 interrupted.\nData goes to \
         standard output, all else to standard error."
    };
}

macro_rules! agent_help {
    () => {
        concat!(
            "The agent that is asked is your own, if one runs, or else the system's; BLKKIN_SOCKET names \
             the socket of another.\n",
            exit_help!()
        )
    };
}

/// Notes at the end of the help pages of commands that do not use the node's agent.
pub(crate) const EXIT_HELP: &str = exit_help!();

/// Notes at the end of the help pages of commands that connect to relays.
pub(crate) const RELAY_HELP: &str = concat!(
    "nets://HOST is a relay with TLS. The directory $BLKKIN_RELAY_CREDENTIALS [default: \
     /etc/blkkin/relay-credentials for root, else blkkin/relay-credentials in $XDG_CONFIG_HOME or \
     ~/.config] has the certificate that signed the relay's (ca.pem; without it, those of the system \
     count), and a token (token; needs ca.pem) or a certificate with its key (cert.pem, key.pem).\n",
    exit_help!()
);

/// Notes at the end of the help pages of commands that use the node's agent.
pub(crate) const AGENT_HELP: &str = agent_help!();

/// Notes at the end of the help pages of commands that end or show recordings.
pub(crate) const LOSS_HELP: &str = concat!(
    "Exit status 3: done, but something of the recording was lost; messages say how much and why.\n",
    agent_help!()
);
